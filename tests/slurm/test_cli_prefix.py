"""Commands on a submit host: through a program that, as sshd does, gives what it got to a shell."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from recovery.slurm.base import SlurmRefused, SlurmUnreachable, Submission
from recovery.slurm.cli import CliClient
from tests.slurm.contract import SCRIPT
from tests.slurm.fake_slurm import JOB, FakeSlurm, squeue_answer

ME = pwd.getpwuid(os.geteuid()).pw_name
HOSTILE = [
    "plain words",
    "it's \"quoted\" and 'more'",
    "$(touch pwned) `touch pwned` $HOME ${PATH}",
    "a; touch pwned & touch pwned | touch pwned > pwned",
    "-n --help * ? [a-z] ~ # comment",
    "back\\slash \\n \\",
    "!history ^carets% tabs {a,b} ü 日本",
]


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


def client(slurm: FakeSlurm, *, end: str = "exec env -i sh -c") -> CliClient:
    """Its ssh keeps what other users could see of it: its arguments."""
    ssh = slurm.folder / "ssh"
    log = slurm.folder / "seen"
    ssh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{log}\nshift 3\ncd {slurm.folder}\n{end} "$*"\n')
    ssh.chmod(0o755)
    prefix = f"{ssh} -o 'BatchMode=yes' login1"
    return CliClient(slurm_conf="/only/there/slurm.conf", bin_dir=str(slurm.folder), prefix=prefix, timeout_s=5)


@pytest.mark.parametrize("text", HOSTILE)
def test_every_argument_arrives_as_it_was(slurm: FakeSlurm, text: str) -> None:
    slurm.answers("exit 0")
    client(slurm).set_admin_comment("12", text)
    assert slurm.calls == [["scontrol", "update", "JobId=12", f"AdminComment={text}"]]
    assert not (slurm.folder / "pwned").exists()


def test_a_command_there_has_the_environment_that_it_has_here(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_SECRET_KEY", "ours")
    slurm.answers("env >&2; exit 1")
    with pytest.raises(SlurmUnreachable) as caught:
        client(slurm).nodes()
    words = caught.value.message.split()
    assert {"LC_ALL=C", "TZ=UTC", "SLURM_TIME_FORMAT=standard", "SLURM_CONF=/only/there/slurm.conf"} <= set(words)
    assert "ours" not in caught.value.message


def test_jobs_are_read_and_nobody_sees_the_separator(slurm: FakeSlurm) -> None:
    slurm.prints(squeue_answer(JOB, JOB._replace(raw_id="13", name="evil\nname")))
    assert [job.name for job in client(slurm).jobs()] == ["train", "evil\nname"]
    assert "JobID" not in (slurm.folder / "seen").read_text()


def test_a_script_arrives_whole(slurm: FakeSlurm) -> None:
    slurm.answers(f"cat >{slurm.folder}/given; echo 4711")
    submission = Submission(script=SCRIPT + "# it's $HOME\n", user=ME, work_dir="/home/ada", name="it's")
    assert client(slurm).submit(submission) == "4711"
    assert (slurm.folder / "given").read_text() == submission.script
    assert "--job-name=it's" in slurm.calls[0]


def test_for_somebody_else_nothing_is_submitted_by_others_than_root(slurm: FakeSlurm) -> None:
    slurm.answers("echo 4711")
    bin_of_others = slurm.folder / "others"
    bin_of_others.mkdir()
    (bin_of_others / "id").write_text("#!/bin/sh\necho desk\n")
    (bin_of_others / "id").chmod(0o755)
    there = client(slurm, end=f"exec env -i PATH={bin_of_others}:/usr/bin:/bin sh -c")
    with pytest.raises(SlurmRefused, match="only root"):
        there.submit(Submission(script=SCRIPT, user="ada", work_dir="/home/ada"))
    assert slurm.calls == []


def test_variables_are_not_sent_where_others_could_read_them(slurm: FakeSlurm) -> None:
    slurm.answers("echo 4711")
    with pytest.raises(SlurmRefused, match="set them in the script"):
        client(slurm).submit(Submission(script=SCRIPT, user=ME, work_dir="/", environment={"TOKEN": "secret"}))
    assert slurm.calls == []


@pytest.mark.parametrize("words", ["Connection closed by 10.0.0.1 port 22", "Job has already finished", ""])
def test_a_connection_that_fails_says_nothing_of_the_job(slurm: FakeSlurm, words: str) -> None:
    there = client(slurm, end=f"echo '{words}' >&2; exit 255; :")
    for call in (there.jobs, there.health, lambda: there.cancel("12"), lambda: there.job("12")):
        with pytest.raises(SlurmUnreachable, match="the connection failed") as caught:
            call()
        assert not caught.value.permanent


def test_an_answer_that_the_connection_cut_is_none(slurm: FakeSlurm) -> None:
    slurm.prints(squeue_answer(JOB)[:-30])
    with pytest.raises(SlurmUnreachable):
        client(slurm).jobs()
