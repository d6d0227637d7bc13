"""What counts as an observation, and what a call of several commands makes of answers that don't fit together."""

from __future__ import annotations

import json
import os
import pwd
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from recovery.core.types import JobState, NodeState
from recovery.slurm import cli_submit
from recovery.slurm.base import HELD_BY_REQUEUE, JobNotFound, SlurmError, SlurmRefused, SlurmUnreachable, Submission
from tests.slurm.contract import SCRIPT
from tests.slurm.fake_slurm import JOB, FakeSlurm, squeue_answer

ME = pwd.getpwuid(os.geteuid()).pw_name
HELD = JOB._replace(state="PENDING", reason="job requeued in held state", priority="0", nodes="", restarts="1")
ENDING = JOB._replace(state="COMPLETING", nodes="gpu-02", node_count="1")
DETAILS = (
    "JobId=12 JobName=train\n   UserId=ada(1000) GroupId=ada(1000)\n   JOB_GRES=gpu:16\n"
    "     Nodes=gpu-[01-02] CPU_IDs=0-7 Mem=0 GRES=gpu:8\n   MinCPUsNode=1 MinMemoryNode=0\n   Command=/x\n"
)
OLD_SQUEUE = "squeue: error: Invalid job format specification: ExcNodes"


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


# --- nothing at all --------------------------------------------------------------------------------------------------


def test_no_jobs_at_all_are_believed_when_scontrol_says_so_too(slurm: FakeSlurm) -> None:
    slurm.prints("", "squeue")
    slurm.prints("No jobs in the system\n", "scontrol")
    assert slurm.client().jobs() == []


@pytest.mark.parametrize(
    "body", ["echo 'JobId=12 JobName=train'", "echo", "echo 'Unable to contact slurm controller' >&2; exit 1"]
)
def test_no_jobs_at_all_are_not_believed_otherwise(slurm: FakeSlurm, body: str) -> None:
    slurm.prints("", "squeue")
    slurm.answers(body, "scontrol")
    with pytest.raises(SlurmUnreachable):
        slurm.client().jobs_since("")


def test_a_cluster_without_nodes_or_partitions_was_not_seen(slurm: FakeSlurm) -> None:
    slurm.prints('{"nodes": [], "errors": []}', "sinfo")
    slurm.prints("\n", "scontrol")
    for look in (slurm.client().nodes, slurm.client().partitions, slurm.client().reservations):
        with pytest.raises(SlurmUnreachable):
            look()


def test_nodes_that_do_not_respond_are_down_and_the_others_are_not(slurm: FakeSlurm) -> None:
    nodes = [
        {"name": "n1", "state": "allocated", "state_flags": ["NOT_RESPONDING"]},
        {"name": "n2", "state": "idle", "state_flags": ["NOT_RESPONDING"]},
        {"name": "n3", "state": "mixed", "state_flags": []},
    ]
    slurm.prints(json.dumps({"nodes": nodes, "errors": []}), "sinfo")
    found = slurm.client().nodes()
    assert [node.state for node in found] == [NodeState.DOWN, NodeState.DOWN, NodeState.UP]
    assert [node.jobs_on_it for node in found] == [True, False, True]


# --- jobs ------------------------------------------------------------------------------------------------------------


def test_a_job_is_read_whole(slurm: FakeSlurm) -> None:
    slurm.prints(squeue_answer(JOB))
    (job,) = slurm.client().jobs()
    assert (job.job_id, job.name, job.user, job.state) == ("12", "train", "ada", JobState.RUNNING)
    assert (job.nodes, job.gpus, job.time_limit_s) == (("gpu-01", "gpu-02"), 16, 36 * 3600.0)
    assert (job.stdout, job.stderr, job.comment, job.qos) == ("/home/ada/slurm-12.out", "", "", "normal")


def test_only_an_interactive_job_has_no_file(slurm: FakeSlurm) -> None:
    tried_again = JOB._replace(raw_id="13", batch="2")
    slurm.prints(squeue_answer(JOB._replace(batch="0"), tried_again))
    assert [job.stdout for job in slurm.client().jobs()] == ["", "/home/ada/slurm-13.out"]


def test_a_task_that_names_no_file_writes_to_the_one_of_its_array(slurm: FakeSlurm) -> None:
    task = JOB._replace(raw_id="18", array_id="17", array_task="5", stdout="/home/ada/slurm-18.out")
    slurm.prints(squeue_answer(task))
    (job,) = slurm.client().jobs()
    assert (job.job_id, job.stdout, job.stderr) == ("17_5", "/home/ada/slurm-17_5.out", "")


def test_the_same_answer_is_no_news_whatever_its_separator(slurm: FakeSlurm) -> None:
    slurm.prints(squeue_answer(JOB))
    first = slurm.client().jobs_since("")
    assert slurm.client().jobs_since(first.mark).jobs is None
    slurm.prints(squeue_answer(JOB._replace(admin_comment="seen")))
    second = slurm.client().jobs_since(first.mark)
    assert second.jobs is not None
    assert second.mark != first.mark


def test_a_job_that_is_ending_has_all_its_nodes(slurm: FakeSlurm) -> None:
    slurm.prints(squeue_answer(ENDING), "squeue")
    slurm.prints(DETAILS, "scontrol")
    (job,) = slurm.client().jobs()
    assert (job.nodes, job.node_count) == (("gpu-01", "gpu-02"), 2)


def test_a_job_that_is_ending_and_gone_has_the_nodes_that_were_seen(slurm: FakeSlurm) -> None:
    slurm.prints(squeue_answer(ENDING), "squeue")
    slurm.answers("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "scontrol")
    assert slurm.client().job("12").nodes == ("gpu-02",)


def hold_told_by_json(slurm: FakeSlurm, word: str) -> None:
    entry = {"job_id": 12, "state_reason": word, "state_description": "job requeued in held state"}
    slurm.prints(squeue_answer(HELD), "squeue")
    text = (slurm.folder / "squeue").read_text()
    answer = slurm.folder / "json"
    answer.write_text(json.dumps({"jobs": [entry], "errors": []}))
    slurm.answers(f'[ "$1" = --json ] && exec cat {answer}\n{text}', "squeue")


@pytest.mark.parametrize(("word", "reason"), [("JobHeldUser", HELD_BY_REQUEUE), ("JobHeldAdmin", "JobHeldAdmin")])
def test_whose_hold_it_is_is_asked_for_in_json(slurm: FakeSlurm, word: str, reason: str) -> None:
    hold_told_by_json(slurm, word)
    assert slurm.client().job("12").state_reason == reason


def test_somebodys_hold_on_top_is_news_although_the_text_is_the_same(slurm: FakeSlurm) -> None:
    hold_told_by_json(slurm, "JobHeldUser")
    mark = slurm.client().jobs_since("").mark
    assert slurm.client().jobs_since(mark).jobs is None
    hold_told_by_json(slurm, "JobHeldAdmin")
    (job,) = slurm.client().jobs_since(mark).jobs or []
    assert job.state_reason == "JobHeldAdmin"


def old_release(slurm: FakeSlurm, *, thirteen: str) -> None:
    """Its second list has job 12 only; 13 stands in the first one."""
    slurm.prints(squeue_answer(JOB, JOB._replace(raw_id="13", state=thirteen)), "squeue")
    text = (slurm.folder / "squeue").read_text()
    slurm.answers(
        f"[ -z \"$SQUEUE_FORMAT2\" ] && exec echo '12|gpu-[07-08]'\necho '{OLD_SQUEUE}' >&2\n{text}", "squeue"
    )


def test_a_job_that_had_not_ended_can_not_have_left_between_two_lists(slurm: FakeSlurm) -> None:
    old_release(slurm, thirteen="RUNNING")
    with pytest.raises(SlurmUnreachable, match="job 13 is in one list and not in the other"):
        slurm.client().jobs()


def test_a_release_without_excluded_nodes_in_its_list_is_asked_beside_it(slurm: FakeSlurm) -> None:
    old_release(slurm, thirteen="FAILED")
    (job,) = slurm.client().jobs()  # 13 has left in between
    assert (job.job_id, job.excluded_nodes) == ("12", ("gpu-07", "gpu-08"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("raw_id", "x"),
        ("raw_id", "²"),
        ("submitted", "N/A"),
        ("submitted", "yesterday"),
        ("restarts", ""),
        ("restarts", str(2**31)),
        ("nodes", "@all"),
        ("nodes", "n[1-99999999]"),
        ("time_limit", "soon-1"),
        ("uid", "ada"),
    ],
)
def test_one_field_that_is_not_as_it_should_be_spoils_the_answer(slurm: FakeSlurm, field: str, value: str) -> None:
    slurm.prints(squeue_answer(JOB, JOB._replace(**{"raw_id": "13", field: value})))
    with pytest.raises(SlurmUnreachable):
        slurm.client().jobs()


@pytest.mark.parametrize(
    ("written", "limit_s"),
    [
        ("UNLIMITED", None),
        ("365-00:00:00", None),
        ("NOT_SET", None),
        ("30:00", 1800.0),
        ("1:00", 60.0),
        ("2:00:30", 7230.0),
    ],
)
def test_time_limits_in_all_their_forms(slurm: FakeSlurm, written: str, limit_s: float | None) -> None:
    slurm.prints(squeue_answer(JOB._replace(time_limit=written)))
    assert slurm.client().jobs()[0].time_limit_s == limit_s


@pytest.mark.parametrize(
    ("written", "ended"), [("1792", (7, None)), ("7:0", (7, None)), ("11", (0, 11)), ("0:9", (0, 9))]
)
def test_exit_codes_of_both_shapes(slurm: FakeSlurm, written: str, ended: tuple[int, int | None]) -> None:
    slurm.prints(squeue_answer(JOB._replace(state="FAILED", exit_code=written)))
    (job,) = slurm.client().jobs()
    assert (job.exit_code, job.exit_signal) == ended


# --- writes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("scancel: error: Kill job error on job id 12: Invalid job id specified", JobNotFound),
        ("scancel: error: Kill job error on job id 12: Job/step already completing or completed", SlurmRefused),
        ("scancel: error: Kill job error on job id 12: Unable to contact slurm controller", SlurmUnreachable),
    ],
)
def test_scancel_ends_well_and_means_it_only_without_an_error(
    slurm: FakeSlurm, words: str, kind: type[SlurmError]
) -> None:
    slurm.answers(f"echo 'scancel: Terminating job 12' >&2; echo '{words}' >&2")
    with pytest.raises(SlurmError) as caught:
        slurm.client().cancel("12")
    assert type(caught.value) is kind
    slurm.answers("echo 'scancel: Terminating job 12' >&2")
    slurm.client().cancel("12")


MINE = Submission(script=SCRIPT, user=ME, work_dir="/home/ada")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (
            "echo 'sbatch: error: Batch job submission failed: Invalid partition name specified' >&2; exit 1",
            SlurmRefused,
        ),
        (
            "echo 'sbatch: error: Batch job submission failed: Unable to contact controller' >&2; exit 1",
            SlurmUnreachable,
        ),
        ("echo 'sbatch: error: --gid only permitted by root user' >&2; exit 1", SlurmRefused),
        ("echo 'runuser: user ada does not exist or the user entry is incomplete' >&2; exit 1", SlurmRefused),
        ("echo Submitted batch job 12", SlurmUnreachable),
        ("echo 12; echo 13", SlurmUnreachable),
        ("printf 12", SlurmUnreachable),
        ("exit 0", SlurmUnreachable),
    ],
)
def test_a_submission_whose_answer_is_no_id_is_not_known_to_have_worked(
    slurm: FakeSlurm, body: str, kind: type[SlurmError]
) -> None:
    slurm.answers(f"cat >/dev/null; {body}", "sbatch")
    with pytest.raises(SlurmError) as caught:
        slurm.client().submit(MINE)
    assert type(caught.value) is kind


def test_a_submission_stands_although_its_admin_comment_is_refused(slurm: FakeSlurm) -> None:
    slurm.answers("cat >/dev/null; echo '12;lab'", "sbatch")
    slurm.answers("echo 'Access/permission denied for job 12' >&2; exit 1", "scontrol")
    submission = Submission(script=SCRIPT, user=ME, work_dir="/home/ada", admin_comment="by the desk")
    assert slurm.client().submit(submission) == "12"
    assert slurm.calls[-1] == ["scontrol", "update", "JobId=12", "AdminComment=by the desk"]


def test_sbatch_itself_runs_without_any_variable_of_the_job(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """LD_PRELOAD or SBATCH_UID in its own environment would act on it."""
    monkeypatch.setenv("SBATCH_PARTITION", "ours")
    slurm.answers(f"env >{slurm.folder}/env; cat >/dev/null; echo 12", "sbatch")
    given = {"LD_PRELOAD": "/evil.so", "SBATCH_UID": "0", "RUN": "llama"}
    slurm.client().submit(Submission(script=SCRIPT, user=ME, work_dir="/", environment=given))
    names = {line.partition("=")[0] for line in (slurm.folder / "env").read_text().splitlines()}
    assert names <= {"PWD", "SHLVL", "_", "OLDPWD", "PATH"}  # the shell's own


def test_23_11s_sbatch_is_said_to_take_no_variables(slurm: FakeSlurm) -> None:
    """It alone has no --export-file."""
    words = "sbatch: unrecognized option '--export-file=15'\\nTry \"sbatch --help\" for more information"
    slurm.answers(f"cat >/dev/null; printf '%b\\n' {shlex.quote(words)} >&2; exit 1", "sbatch")
    with pytest.raises(SlurmRefused, match=r"23\.11 takes no variables.*set them in the script") as caught:
        slurm.client().submit(Submission(script=SCRIPT, user=ME, work_dir="/", environment={"RUN": "7"}))
    assert caught.value.permanent


def test_variables_bring_the_name_along_that_sbatch_forgets_with_them() -> None:
    """Without it `%x` in the name of the job's log is "(null)"."""
    bare = Submission(script=SCRIPT, user=ME, work_dir="/", name="llama")
    assert cli_submit.given(bare).file is None
    named = replace(bare, environment={"RUN": "7"})
    assert cli_submit.given(named).file == b"SLURM_JOB_NAME=llama\0RUN=7\0"
    given = {"SLURM_JOB_NAME": "mine"}
    assert cli_submit.given(replace(bare, environment=given)).file == b"SLURM_JOB_NAME=mine\0"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("#SBATCH --hint=nomultithread\n#SBATCH --open-mode truncate", "SLURM_HINT=nomultithread SLURM_OPEN_MODE=t"),
        ("# a word\n\n#SBATCH -d 'afterok:12'  # --hint=x", "SLURM_JOB_DEPENDENCY=afterok:12"),
        ("#SBATCH --hint=a\n#SBATCH --hint=b", "SLURM_HINT=b"),
        ("#SBATCH --hint=a\n# a page\x0c#SBATCH --hint=b", "SLURM_HINT=a"),  # to sbatch that is one line
        ("#SBATCH --hint=a\n#SBATCH hetjob\n#SBATCH --hint=b", "SLURM_HINT=a"),
        ("#SBATCH --comment='no end\n#SBATCH --hint=a", "SLURM_HINT=a"),
        ("echo\n#SBATCH --hint=a", ""),
        ("##SBATCH --hint=a\n #SBATCH --hint=a", ""),
        ("#SBATCH --nodes=2 --hint", "SLURM_HINT="),
    ],
)
def test_variables_bring_along_what_steps_take_from_the_options(lines: str, told: str) -> None:
    submission = Submission(script=f"#!/bin/sh\n{lines}\n", user=ME, work_dir="/", environment={"RUN": "7"})
    assert cli_submit.given(submission).file == "\0".join([*told.split(), "RUN=7", ""]).encode()


def test_a_submission_for_somebody_else_becomes_that_user_first(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    runuser = slurm.folder / "runuser"
    runuser.write_text(f'#!/bin/sh\necho "$*" >{slurm.folder}/became\nshift 3\nexec "$@"\n')
    runuser.chmod(0o755)
    slurm.answers("cat >/dev/null; echo 12", "sbatch")
    slurm.client().submit(Submission(script=SCRIPT, user="nobody", work_dir="/"))
    assert (slurm.folder / "became").read_text().startswith(f"-u nobody -- {slurm.folder}/sbatch --parsable")
