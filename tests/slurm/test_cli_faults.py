"""Commands that hang, fail, talk rubbish or are not there: never an empty answer, never another exception."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recovery.demo.processes import identify, wait_until
from recovery.slurm import command
from recovery.slurm.base import JobNotFound, Operation, SlurmError, SlurmRefused, SlurmUnreachable
from recovery.slurm.cli import CliClient
from tests.slurm.fake_slurm import JOB, FakeSlurm, squeue_answer

NODES = '{"nodes": [{"name": "n1", "state": "idle"}], "errors": []}'
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
READS: dict[str, Callable[[CliClient], object]] = {
    "jobs": CliClient.jobs,
    "job": lambda client: client.job("12"),
    "nodes": CliClient.nodes,
    "attempts": lambda client: client.attempts(["12"], since=SINCE),
    "ended_between": lambda client: client.ended_between(SINCE, SINCE),
    "health": CliClient.health,
    "rights": CliClient.rights,
    "partitions": CliClient.partitions,
    "reservations": CliClient.reservations,
    "batch_script": lambda client: client.batch_script("12"),
}
WRITES: dict[str, Callable[[CliClient], object]] = {
    "requeue": lambda client: client.requeue("12", hold=False),
    "requeue_hold": lambda client: client.requeue("12", hold=True),
    "set_excluded_nodes": lambda client: client.set_excluded_nodes("12", ("n1", "n2")),
    "release": lambda client: client.release("12"),
    "hold": lambda client: client.hold("12"),
    "cancel": lambda client: client.cancel("12"),
    "set_time_limit": lambda client: client.set_time_limit("12", 90),
    "set_admin_comment": lambda client: client.set_admin_comment("12", "by hand\nsee 4"),
    "drain_node": lambda client: client.drain_node("n1", "bad GPU"),
    "resume_node": lambda client: client.resume_node("n1"),
}


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    "body",
    [
        "exit 1",
        "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1",
        "echo rubbish",
        'printf \'{"jobs": [{"job_id": 12, \'',
        "head -c 100000 /dev/urandom",
        "kill -9 $$",
        "echo '{}'; exit 1",
    ],
)
def test_a_read_that_fails_is_no_observation(slurm: FakeSlurm, read: str, body: str) -> None:
    slurm.answers(body)
    with pytest.raises(SlurmUnreachable) as caught:
        READS[read](slurm.client())
    assert caught.value.message
    assert str(slurm.folder) in caught.value.tried


def test_an_answer_with_errors_and_exit_code_0_is_no_observation(slurm: FakeSlurm) -> None:
    slurm.prints('{"errors": [{"description": "Failed while looking for nodes"}], "nodes": []}')
    with pytest.raises(SlurmUnreachable, match="looking for nodes"):
        slurm.client().nodes()


@pytest.mark.parametrize("call", READS | WRITES)
def test_a_command_that_hangs_is_ended_with_its_children(slurm: FakeSlurm, call: str) -> None:
    slurm.answers(f"sleep 60 & echo $! >{slurm.folder}/child; wait")
    started = time.monotonic()
    with pytest.raises(SlurmUnreachable, match=r"no answer within 0\.5 s") as caught:
        (READS | WRITES)[call](slurm.client(timeout_s=0.5))
    assert time.monotonic() - started < 3
    assert not caught.value.permanent  # of a write: what it did is unknown
    child = identify(int((slurm.folder / "child").read_text()))
    assert child is None or wait_until(lambda: not child.is_alive(), timeout_s=5)


def test_a_command_that_closes_its_output_and_stays_is_ended(slurm: FakeSlurm) -> None:
    slurm.answers("exec >&- 2>&-; sleep 60")
    with pytest.raises(SlurmUnreachable, match="did not end"):
        slurm.client(timeout_s=0.5).jobs()


def test_a_child_that_keeps_the_output_open_does_not_outlast_the_limit(slurm: FakeSlurm) -> None:
    slurm.answers("sleep 60 & exit 0")
    with pytest.raises(SlurmUnreachable, match="no answer"):
        slurm.client(timeout_s=0.5).jobs()


def test_an_endless_answer_is_cut(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm.answers("yes")
    with pytest.raises(SlurmUnreachable, match="longer than 1000000 bytes"):
        command.run([f"{slurm.folder}/squeue"], env={"PATH": "/usr/bin:/bin"}, timeout_s=10, max_output=1_000_000)


def test_endless_complaints_fill_no_memory(slurm: FakeSlurm) -> None:
    slurm.answers("head -c 3000000 /dev/zero >&2; exit 1")
    with pytest.raises(SlurmUnreachable) as caught:
        slurm.client().jobs()
    assert len(caught.value.message) < 1000


def test_a_command_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SlurmUnreachable, match="No such file") as caught:
        CliClient(bin_dir=str(tmp_path)).jobs()
    assert caught.value.permanent


def test_a_configuration_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SlurmUnreachable, match="slurm_conf option"):
        CliClient(slurm_conf=str(tmp_path / "slurm.conf")).jobs()


def test_nothing_of_our_own_environment_reaches_a_command(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_STATES", "SLURM_TIME_FORMAT", "SLURM_CLUSTERS", "LD_PRELOAD_X", "RECOVERY_SECRET_KEY"):
        monkeypatch.setenv(name, "ours")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    conf = slurm.folder / "slurm.conf"
    conf.touch()
    slurm.answers("env >&2; exit 1")
    with pytest.raises(SlurmUnreachable) as caught:
        CliClient(slurm_conf=str(conf), bin_dir=str(slurm.folder)).nodes()
    names = {word.partition("=")[0] for word in caught.value.message.split() if "=" in word}
    assert names <= {
        "PATH",
        "LC_ALL",
        "TZ",
        "SLURM_TIME_FORMAT",
        "SLURM_CONF",
        "PWD",
        "_",
        "SHLVL",
        "OLDPWD",
    }
    assert "TZ=UTC" in caught.value.message
    assert "ours" not in caught.value.message


def test_writes_are_plain_argument_lists(slurm: FakeSlurm) -> None:
    slurm.answers("exit 0")
    slurm.prints(NODES, "sinfo")
    for write in WRITES.values():
        write(slurm.client())
    slurm.client().set_excluded_nodes("12_3", ())
    assert slurm.calls == [
        ["scontrol", "requeue", "12"],
        ["scontrol", "requeuehold", "12"],
        ["scontrol", "update", "JobId=12", "ExcNodeList=n1,n2"],
        ["scontrol", "release", "12"],
        ["scontrol", "hold", "12"],
        ["scancel", "--verbose", "12"],
        ["scontrol", "update", "JobId=12", "TimeLimit=2"],
        ["scontrol", "update", "JobId=12", "AdminComment=by hand see 4"],
        ["sinfo", "--json", "--all", "--local", "--Node"],
        ["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=bad GPU"],
        ["scontrol", "update", "NodeName=n1", "State=RESUME"],
        ["scontrol", "update", "JobId=12_3", "ExcNodeList="],
    ]


def test_a_preview_is_the_command_that_would_run(slurm: FakeSlurm) -> None:
    client = slurm.client()
    assert client.preview(Operation.REQUEUE, "12") == "scontrol requeue 12"
    assert client.preview(Operation.REQUEUE_HOLD, "12_3") == "scontrol requeuehold 12_3"
    assert (
        client.preview(Operation.SET_EXCLUDED_NODES, "12", nodes=("n1", "n2"))
        == "scontrol update JobId=12 ExcNodeList=n1,n2"
    )
    assert client.preview(Operation.RELEASE, "12") == "scontrol release 12"
    assert slurm.calls == []


HOSTILE_IDS = [
    "",
    "0",
    "all",
    "-u",
    "--help",
    "12;id",
    "12,13",
    "1 2",
    "12\n",
    "12_",
    "12_[1-3]",
    "12_a",
    "١٢",
    "1" * 40,
]


@pytest.mark.parametrize("job_id", HOSTILE_IDS, ids=repr)
def test_what_is_no_job_id_never_reaches_an_argument(slurm: FakeSlurm, job_id: str) -> None:
    slurm.answers("exit 0")
    client = slurm.client()
    calls: list[Callable[[], object]] = [
        lambda: client.job(job_id),
        lambda: client.attempts([job_id], since=SINCE),
        lambda: client.requeue(job_id, hold=False),
        lambda: client.set_excluded_nodes(job_id, ("n1",)),
        lambda: client.release(job_id),
        lambda: client.preview(Operation.REQUEUE, job_id),
    ]
    for call in calls:
        with pytest.raises(JobNotFound):
            call()
    assert slurm.calls == []


@pytest.mark.parametrize("name", ["", "n1,n2", "n[1-9]", "n1 State=DOWN", "n1\n", "-n1"], ids=repr)
def test_what_is_no_node_name_never_reaches_an_argument(slurm: FakeSlurm, name: str) -> None:
    slurm.answers("exit 0")
    with pytest.raises(SlurmRefused, match="not a node name"):
        slurm.client().set_excluded_nodes("12", ("n1", name))
    assert slurm.calls == []


def test_another_component_than_the_first_is_not_requeued_and_not_cancelled(slurm: FakeSlurm) -> None:
    slurm.answers("exit 0")
    client = slurm.client()
    with pytest.raises(SlurmRefused, match=r"12\+0"):
        client.requeue("12+1", hold=False)
    with pytest.raises(SlurmRefused, match=r"12\+0"):
        client.cancel("12+1")
    client.requeue("12+0", hold=False)
    client.cancel("12+0")
    assert slurm.calls == [["scontrol", "requeue", "12"], ["scancel", "--verbose", "12"]]


@pytest.mark.parametrize(
    ("words", "kind", "permanent"),
    [
        ("Invalid job id specified for job 12", JobNotFound, True),
        ("Job is pending execution for job 12", SlurmRefused, True),
        ("Job is no longer pending execution for job 12", SlurmRefused, True),
        ("Requested operation is presently disabled for job 12", SlurmRefused, True),
        ("Access/permission denied for job 12", SlurmRefused, True),
        ("Invalid node name specified for job 12", SlurmRefused, True),
        ("Job can not be altered now, try again later for job 12", SlurmRefused, False),
        ("Unable to contact slurm controller (connect failure)", SlurmUnreachable, False),
        ("Unexpected message received for job 12", SlurmUnreachable, False),
        ("Socket timed out on send/recv operation", SlurmUnreachable, False),
        ("a word that nobody knows", SlurmUnreachable, False),
        ("", SlurmUnreachable, False),
        ("12_1: Job is pending execution\n12_2: No error", SlurmUnreachable, False),  # a part was done
    ],
)
def test_only_a_clear_no_is_a_no(slurm: FakeSlurm, words: str, kind: type[SlurmError], permanent: bool) -> None:
    slurm.answers(f"printf '%s' '{words}' >&2; exit 1")
    with pytest.raises(SlurmError) as caught:
        slurm.client().requeue("12", hold=False)
    assert (type(caught.value), caught.value.permanent) == (kind, permanent)
    assert caught.value.tried.endswith("scontrol requeue 12")


def test_a_job_that_is_not_in_the_answer_is_not_found(slurm: FakeSlurm) -> None:
    slurm.prints(squeue_answer(JOB))
    assert slurm.client().job("12").name == "train"
    with pytest.raises(JobNotFound):
        slurm.client().job("13")


def test_no_accounting_is_a_refusal_and_a_silent_database_is_not(slurm: FakeSlurm) -> None:
    slurm.answers("echo 'Slurm accounting storage is disabled' >&2; exit 1")
    with pytest.raises(SlurmRefused):
        slurm.client().attempts("12", since=SINCE)
    slurm.answers("echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1")
    with pytest.raises(SlurmUnreachable):
        slurm.client().attempts("12", since=SINCE)


@pytest.mark.parametrize(
    "rows", ["1|2|3\n", "1\x1f12\x1fFAILED\x1fyesterday\x1f\x1f\x1f1:0\x1fn1\n", "\x1f" * 7 + "\n"]
)
def test_rows_of_accounting_that_are_not_as_asked_for_are_no_answer(slurm: FakeSlurm, rows: str) -> None:
    slurm.prints(rows)
    with pytest.raises(SlurmUnreachable):
        slurm.client().attempts("12", since=SINCE)


@pytest.mark.parametrize(
    ("auth_info", "delay_s"),
    [
        ("socket=/run/munge,cred_expire=5", 6.0),
        ("cred_expire=300", 301.0),
        ("socket=/run/munge", 121.0),
        ("(null)", 121.0),
    ],
)
def test_the_requeue_delay_follows_the_credentials_life(slurm: FakeSlurm, auth_info: str, delay_s: float) -> None:
    slurm.prints(
        f"AccountingStorageType   = accounting_storage/none\nAuthInfo                = {auth_info}\n"
        "SLURM_VERSION           = 22.05.8\n\nSlurmctld(primary) at host is UP\n"
    )
    health = slurm.client().health()
    assert (health.release, health.accounting, health.requeue_delay_s) == ("22.05.8", False, delay_s)


def test_the_recorded_configuration_is_understood(slurm: FakeSlurm) -> None:
    recorded = Path(__file__).parent / "recorded"
    for release in ("22.05", "26.05"):
        slurm.prints((recorded / release / "config.txt").read_text())
        health = slurm.client().health()
        assert health.release.startswith(release)
        assert (health.accounting, health.requeue_delay_s) == (True, 6.0)
