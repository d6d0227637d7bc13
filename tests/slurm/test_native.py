"""The pyslurm back end where there is no pyslurm: its process may do anything, and a stand-in tells what it was asked.

Against the real one the contract suite runs: `make test-newslurm`.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recovery.core.types import JobState, NodeState
from recovery.demo.processes import identify, wait_until
from recovery.slurm.base import (
    JobNotFound,
    NotSupported,
    Operation,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
    Submission,
)
from recovery.slurm.native import NativeClient
from recovery.slurm.native_process import NativeProcess
from recovery.slurm.registry import client_for

FAKE = Path(__file__).parent / "fake_pyslurm"
AT = 1_795_000_000


class Stage:
    """A cluster as the stand-in shows it, and a client on it."""

    def __init__(self, folder: Path) -> None:
        self.conf = folder / "slurm.conf"
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nPYTHONPATH={FAKE} exec {sys.executable} "$@"\n')
        self.python.chmod(0o755)

    def set(self, **scene: Any) -> None:
        self.conf.write_text(json.dumps(scene))

    def client(self, *, timeout_s: float = 20) -> NativeClient:
        return NativeClient(slurm_conf=str(self.conf), python=str(self.python), timeout_s=timeout_s)

    def done(self) -> list[list[Any]]:
        file = Path(f"{self.conf}.done")
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    found = Stage(tmp_path)
    found.set()
    return found


@pytest.fixture
def without_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's commands are not installed."""
    monkeypatch.setattr("recovery.slurm.native.which", lambda program, path: None)


# --- the process -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        ({"at_import": "exit"}, "ended with 1: fatal: Could not establish a configuration source"),
        ({"at_import": "crash"}, "ended by SIGSEGV"),
        ({"on": {"Jobs.load": "exit"}}, "ended with 1"),
        ({"on": {"Jobs.load": "crash"}}, "ended by SIGSEGV"),
        ({"on": {"Jobs.load": "garbage"}}, "answered no JSON"),
        ({"on": {"Jobs.load": "break"}}, "no such thing in this release"),
        ({"on": {"Jobs.load": [1800, "Unable to contact slurm controller"]}}, "Unable to contact"),
    ],
)
def test_whatever_happens_to_the_process_is_no_answer(stage: Stage, scene: dict[str, Any], words: str) -> None:
    stage.set(**scene)
    with pytest.raises(SlurmUnreachable, match=words) as caught:
        stage.client().jobs()
    assert not caught.value.permanent
    assert "list all jobs" in caught.value.tried


def test_the_next_question_gets_a_new_process(stage: Stage) -> None:
    client = stage.client()
    stage.set(on={"Jobs.load": "crash"})
    with pytest.raises(SlurmUnreachable):
        client.jobs()
    stage.set(jobs=[{"id": 7}])
    assert [job.job_id for job in client.jobs()] == ["7"]


@pytest.mark.parametrize("where", ["at_import", "Jobs.load"])
def test_one_that_hangs_is_given_up_and_ended(stage: Stage, where: str) -> None:
    stage.set(on={where: "hang"})
    client = stage.client(timeout_s=1)
    with pytest.raises(SlurmUnreachable, match="no answer within 1 s"):
        client.jobs()
    assert wait_until(lambda: not children(stage), timeout_s=5)


def test_one_that_never_stops_talking_is_given_up(stage: Stage) -> None:
    stage.set(on={"Jobs.load": "flood"})
    env = {"SLURM_CONF": str(stage.conf), "PATH": "/bin:/usr/bin"}
    process = NativeProcess(python=str(stage.python), env=env, timeout_s=20, max_output=100_000)
    with pytest.raises(SlurmUnreachable, match="longer than 100000 bytes"):
        process.ask("jobs", {}, tried="all jobs")


def test_what_a_library_prints_does_not_get_into_an_answer(stage: Stage) -> None:
    stage.set(jobs=[{"id": 7}], on={"Jobs.load": "talk"})
    assert [job.job_id for job in stage.client().jobs()] == ["7"]


def test_a_python_without_pyslurm_says_what_to_install(stage: Stage) -> None:
    client = NativeClient(slurm_conf=str(stage.conf), python=sys.executable, timeout_s=20)
    with pytest.raises(SlurmUnreachable, match=r"No module named 'pyslurm'.*option python") as caught:
        client.health()
    assert caught.value.permanent


def test_a_python_that_there_is_not_says_so() -> None:
    with pytest.raises(SlurmUnreachable, match="can't be started") as caught:
        NativeClient(python="/nowhere/python").health()
    assert caught.value.permanent


def test_one_process_serves_many_questions_of_many_threads(stage: Stage) -> None:
    stage.set(jobs=[{"id": 7}])
    client = stage.client()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(client.job("7").job_id)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["7"] * 8
    assert len(children(stage)) == 1


def test_the_process_ends_with_its_client(stage: Stage) -> None:
    client = stage.client()
    client.health()
    (child,) = children(stage)
    del client
    assert wait_until(lambda: identify(child) is None, timeout_s=5)


def test_a_request_that_no_pipe_takes_at_once_is_refused(stage: Stage) -> None:
    stage.set(jobs=[{"id": 7}])
    with pytest.raises(SlurmRefused, match="longer than"):
        stage.client().set_excluded_nodes("7", tuple(f"a-node-with-a-long-name-{number}" for number in range(4000)))
    assert stage.done() == []


def children(stage: Stage) -> list[int]:
    """The running processes of clients of this stage."""
    wanted = f"SLURM_CONF={stage.conf}".encode()
    return [
        pid
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        if wanted in environment(pid).split(b"\0")
    ]


def environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "permanent"),
    [
        ([2017, "Invalid job id specified"], JobNotFound, True),
        ([2024, "Job is pending execution"], SlurmRefused, True),
        ([2180, "Invalid node state transition"], SlurmRefused, True),
        ([2020, "Job can not be altered now, try again later"], SlurmRefused, False),
        ([9999, "a new error of a new release"], SlurmUnreachable, False),
        ([0, "no number at all"], SlurmUnreachable, False),
    ],
)
def test_errors_are_told_apart_by_their_numbers(
    stage: Stage, error: list[object], kind: type[SlurmError], permanent: bool
) -> None:
    stage.set(jobs=[{"id": 7}], on={"requeue": error})
    with pytest.raises(SlurmError) as caught:
        stage.client().requeue("7", hold=False)
    assert type(caught.value) is kind
    assert caught.value.permanent is permanent
    assert str(error[1]) in caught.value.message


# --- which job -------------------------------------------------------------------------------------------------------

ARRAY = [
    {"id": 21, "array_id": 20},  # pyslurm shows task 0 as none
    {"id": 22, "array_id": 20, "array_task_id": 1},
    {"id": 20, "array_id": 20, "array_tasks_waiting": "2-9", "state": "PENDING"},
    {"id": 30, "heterogeneous_id": 30},
    {"id": 31, "heterogeneous_id": 30, "heterogeneous_offset": 1},
]


@pytest.mark.parametrize(("job_id", "number"), [("20_0", 21), ("20_1", 22), ("20", 20), ("30+0", 30), ("30+1", 31)])
def test_tasks_and_components_are_found_by_their_own_names(stage: Stage, job_id: str, number: int) -> None:
    stage.set(jobs=ARRAY)
    client = stage.client()
    assert client.job(job_id).job_id == job_id
    client.hold(job_id)
    assert stage.done() == [["hold", number]]


@pytest.mark.parametrize("job_id", ["21", "20_2", "30", "30+2", "99"])
def test_a_number_that_is_no_jobs_name_is_not_found(stage: Stage, job_id: str) -> None:
    stage.set(jobs=ARRAY)
    with pytest.raises(JobNotFound):
        stage.client().cancel(job_id)
    assert stage.done() == []


def test_a_component_is_not_requeued_alone(stage: Stage) -> None:
    stage.set(jobs=ARRAY)
    with pytest.raises(SlurmRefused, match=r"30\+0"):
        stage.client().requeue("30+1", hold=False)
    assert stage.done() == []


# --- reads -----------------------------------------------------------------------------------------------------------


def test_a_job_is_told_in_our_words(stage: Stage) -> None:
    facts = {"id": 7, "user_id": 0, "state": "RUNNING", "requeue_count": 2, "allocated_nodes": "n[1-2]"}
    facts |= {"start_time": AT + 5, "time_limit": 90, "standard_output": "/ada/7.log", "working_directory": "/ada"}
    facts |= {"constraints": ["h100&ib"], "gres_per_node": {"gpu": 4}, "num_nodes": 2, "exit_code": 0}
    stage.set(jobs=[facts])
    job = stage.client().job("7")
    assert (job.user, job.state, job.restart_count, job.nodes) == ("root", JobState.RUNNING, 2, ("n1", "n2"))
    assert (job.submitted_at, job.time_limit_s) == (datetime.fromtimestamp(AT, UTC), 5400)
    assert (job.stdout, job.stderr, job.work_dir, job.gpus) == ("/ada/7.log", "", "/ada", 8)


def test_bytes_that_are_no_text_do_not_hide_a_job(stage: Stage) -> None:
    stage.set(jobs=[{"id": 666}])
    assert stage.client().job("666").name == "\ufffd\ufffd"


@pytest.mark.usefixtures("without_commands")
@pytest.mark.parametrize("exit_code", [0, 9])
def test_an_exit_code_that_pyslurm_may_have_changed_is_not_known(stage: Stage, exit_code: int) -> None:
    """137 reads 9, and 128 reads 0."""
    stage.set(jobs=[{"id": 7, "state": "FAILED", "end_time": AT + 9, "exit_code": exit_code}])
    assert stage.client().job("7").exit_code is None


@pytest.mark.usefixtures("without_commands")
def test_a_held_requeue_counts_as_somebody_elses_where_nobody_can_tell(stage: Stage) -> None:
    """Somebody may have put a hold of their own on top: pyslurm shows a description only."""
    held = {"id": 7, "state": "PENDING", "priority": 0, "state_reason": "job requeued in held state"}
    stage.set(jobs=[held])
    client = stage.client()
    assert (client.job("7").held, client.job("7").state_reason) == (True, "JobHeldUser")
    assert "whose hold" in client.can(Operation.REQUEUE_HOLD).reason
    with pytest.raises(NotSupported):
        client.requeue("7", hold=True)
    assert stage.done() == []


def test_nodes_partitions_and_reservations_are_told_in_our_words(stage: Stage) -> None:
    node: dict[str, Any] = {
        "name": "n1",
        "state": "MIXED+DRAIN",
        "partitions": ["main"],
        "reason": "bad gpu",
        "reason_user": "root",
    }
    node |= {"reason_time": AT, "active_features": ["h100"], "configured_gres": {"gpu:h100": 8, "shard": 64}}
    partition: dict[str, Any] = {"name": "main", "state": "UP", "nodes": "n[1-2]", "is_default": True, "max_time": 120}
    closed = {"name": "old", "state": "INACTIVE", "nodes": None, "is_default": False, "max_time": "UNLIMITED"}
    reserved: dict[str, Any] = {"name": "maint", "nodes": "n2", "start_time": AT, "end_time": AT + 60, "users": ["ada"]}
    reserved |= {"accounts": [], "flags": "ReservationFlags.MAINTENANCE|FLEX"}
    stage.set(nodes=[node], partitions=[partition, closed], reservations=[reserved])
    client = stage.client()
    (found,) = client.nodes()
    assert (found.state, found.jobs_on_it, found.gpus, found.features) == (NodeState.DRAINING, True, 8, ("h100",))
    assert (found.reason, found.reason_by, found.raw_state) == ("bad gpu", "root", "MIXED+DRAIN")
    main, old = client.partitions()
    assert (main.up, main.default, main.nodes, main.time_limit_s) == (True, True, ("n1", "n2"), 7200)
    assert (old.up, old.nodes, old.time_limit_s) == (False, (), None)
    (reservation,) = client.reservations()
    assert (reservation.nodes, reservation.users, reservation.maintenance) == (("n2",), ("ada",), True)


@pytest.mark.parametrize(
    ("read", "scene"),
    [
        (lambda client: client.jobs(), {"jobs": [{"id": 7, "submit_time": None}]}),
        (lambda client: client.jobs(), {"jobs": [{"id": 7, "allocated_nodes": "n[1-"}]}),
        (lambda client: client.nodes(), {"nodes": [dict.fromkeys(("reason_time", "configured_gres"))]}),
        (lambda client: client.health(), {"config": {"version": None}}),
    ],
)
def test_an_answer_that_lacks_what_matters_is_none(
    stage: Stage, read: Callable[[NativeClient], object], scene: dict[str, Any]
) -> None:
    stage.set(**scene)
    with pytest.raises(SlurmUnreachable):
        read(stage.client())


def test_health_tells_what_a_requeue_waits(stage: Stage) -> None:
    health = stage.client().health()
    assert (health.release, health.accounting, health.requeue_delay_s) == ("26.05.5", True, 6)
    assert (health.cluster_name, health.min_job_age_s, health.store_flags) == ("lab", 300, ("job_comment",))


def test_there_is_no_mark_that_saves_a_look(stage: Stage) -> None:
    stage.set(jobs=[{"id": 7}])
    picture = stage.client().jobs_since("")
    assert picture.mark == ""
    assert [job.job_id for job in picture.jobs or []] == ["7"]


# --- writes ----------------------------------------------------------------------------------------------------------


def test_writes_reach_pyslurm_as_they_were_meant(stage: Stage) -> None:
    node: dict[str, Any] = {
        "name": "n1",
        "state": "IDLE",
        "partitions": [],
        "reason": None,
        "reason_user": None,
        "reason_time": None,
    }
    stage.set(jobs=[{"id": 7}], nodes=[node | {"active_features": [], "configured_gres": {}}])
    client = stage.client()
    client.requeue("7", hold=False)
    client.set_excluded_nodes("7", ("n1", "n2"))
    client.set_time_limit("7", 61)
    client.set_admin_comment("7", "one\nline")
    client.drain_node("n1", "bad\ngpu")
    client.resume_node("n1")
    assert stage.done() == [
        ["requeue", 7, False],
        ["modify", 7, {"excluded_nodes": ["n1", "n2"]}],
        ["modify", 7, {"time_limit": 2}],
        ["modify", 7, {"admin_comment": "one line"}],
        ["modify_node", "n1", {"state": "DRAIN", "reason": "bad gpu"}],
        ["modify_node", "n1", {"state": "RESUME"}],
    ]


def test_cancelling_what_has_ended_is_refused(stage: Stage) -> None:
    """pyslurm itself would call it a success."""
    stage.set(jobs=[{"id": 7, "state": "COMPLETED", "end_time": AT + 9}])
    with pytest.raises(SlurmRefused):
        stage.client().cancel("7")
    assert stage.done() == []


@pytest.mark.usefixtures("without_commands")
def test_what_takes_slurms_commands_is_denied_without_them(stage: Stage) -> None:
    client = stage.client()
    denied = {operation for operation in Operation if not client.can(operation)}
    assert denied == {Operation.ATTEMPTS, Operation.SUBMIT, Operation.REQUEUE_HOLD}
    assert all(client.can(operation).remedy for operation in denied)
    with pytest.raises(NotSupported):
        client.attempts(["7"], since=datetime.now(UTC))
    with pytest.raises(NotSupported):
        client.submit(Submission(script="#!/bin/sh\n", user="ada", work_dir="/ada"))


def test_it_is_found_by_its_name(stage: Stage) -> None:
    options = {"slurm_conf": str(stage.conf), "python": str(stage.python)}
    assert client_for("native", options, timeout_s=20).health().release == "26.05.5"


def test_nothing_of_our_environment_gets_to_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_SECRET_KEY", "not for Slurm")
    client = stage.client()
    client.health()
    (child,) = children(stage)
    assert b"RECOVERY_SECRET_KEY" not in environment(child)
