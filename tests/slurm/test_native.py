"""The pyslurm back end where there is no pyslurm: a stand-in shows what there is, and tells what it was asked.

Against the real one the contract suite runs: `make test-newslurm`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import (
    JobNotFound,
    JobRecord,
    NotSupported,
    Operation,
    SlurmRefused,
    SlurmUnreachable,
    Submission,
)
from recovery.slurm.native import NativeClient
from recovery.slurm.registry import client_for
from tests.slurm.fake_slurm import FakeSlurm
from tests.slurm.native_stage import Stage, children

AT = 1_795_000_000


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    found = Stage(tmp_path)
    found.set()
    return found


@pytest.fixture
def without_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's commands are not installed."""
    monkeypatch.setattr("recovery.slurm.native.which", lambda program, path: None)


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
        stage.client().hold(job_id)
    assert stage.done() == []


def test_a_component_is_not_requeued_alone(stage: Stage) -> None:
    stage.set(jobs=ARRAY)
    with pytest.raises(SlurmRefused, match=r"30\+0"):
        stage.client().requeue("30+1", hold=False)
    assert stage.done() == []


def test_a_heterogeneous_job_is_cancelled_by_its_first_component_and_by_no_other(stage: Stage) -> None:
    stage.set(jobs=ARRAY)
    client = stage.client()
    with pytest.raises(SlurmRefused, match=r"30\+0"):
        client.cancel("30+1")
    client.cancel("30+0")
    assert stage.done() == [["cancel", 30]]


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
        (lambda client: client.nodes(), {}),
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
    of_accounting = {Operation.ATTEMPTS, Operation.ENDED_BETWEEN}
    assert denied == {*of_accounting, Operation.TOPOLOGY, Operation.SUBMIT, Operation.REQUEUE_HOLD}
    assert all(client.can(operation).remedy for operation in denied)
    with pytest.raises(NotSupported):
        client.attempts(["7"], since=datetime.now(UTC))
    with pytest.raises(NotSupported):
        client.ended_between(datetime.now(UTC), datetime.now(UTC))
    with pytest.raises(NotSupported):
        client.topology()
    with pytest.raises(NotSupported):
        client.submit(Submission(script="#!/bin/sh\n", user="ada", work_dir="/ada"))


@pytest.mark.parametrize(
    ("operation", "subject", "given", "shown"),
    [
        (Operation.REQUEUE, "7", {}, "pyslurm.Job(7).requeue(hold=False)"),
        (Operation.REQUEUE_HOLD, "20_1", {}, "pyslurm.Job(20_1).requeue(hold=True)"),
        (Operation.SET_EXCLUDED_NODES, "7", {"nodes": ("n1",)}, "pyslurm.Job(7).modify(excluded_nodes=['n1'])"),
        (Operation.SET_EXCLUDED_NODES, "7", {}, "scontrol update JobId=7 ExcNodeList="),
        (Operation.RELEASE, "7", {}, "pyslurm.Job(7).release()"),
        (Operation.HOLD, "7", {}, "pyslurm.Job(7).hold()"),
        (Operation.CANCEL, "7", {}, "pyslurm.Job(7).cancel()"),
        (Operation.SET_TIME_LIMIT, "7", {"value": "90"}, "pyslurm.Job(7).modify(time_limit=2)"),
        (Operation.SET_ADMIN_COMMENT, "7", {"value": "a"}, "pyslurm.Job(7).modify(admin_comment='a')"),
        (Operation.SET_ADMIN_COMMENT, "7", {"value": " "}, "scontrol update JobId=7 AdminComment="),
        (Operation.DRAIN_NODE, "n1", {"value": "bad"}, "pyslurm.Node(n1).modify(state='DRAIN', reason='bad')"),
        (Operation.RESUME_NODE, "n1", {}, "pyslurm.Node(n1).modify(state='RESUME')"),
    ],
)
def test_a_preview_is_the_very_call(
    stage: Stage, operation: Operation, subject: str, given: dict[str, Any], shown: str
) -> None:
    assert stage.client().preview(operation, subject, **given) == shown


@pytest.mark.parametrize("operation", [Operation.JOBS, Operation.SUBMIT])
def test_what_is_no_single_call_has_no_preview(stage: Stage, operation: Operation) -> None:
    with pytest.raises(NotSupported):
        stage.client().preview(operation, "7")


@pytest.mark.parametrize("value", ["", "soon", "-1", "inf"])
def test_what_is_no_time_is_no_limit(stage: Stage, value: str) -> None:
    with pytest.raises(SlurmRefused):
        stage.client().preview(Operation.SET_TIME_LIMIT, "7", value=value)


# --- beside Slurm's commands -----------------------------------------------------------------------------------------


class Commands:
    """Stands in for the client of Slurm's commands: it tells of jobs what it was given, and notes what it was asked."""

    told: ClassVar[dict[str, JobRecord]] = {}
    asked: ClassVar[list[tuple[object, ...]]] = []

    def __init__(self, **_options: object) -> None:
        pass

    def job(self, job_id: str) -> JobRecord:
        self.asked.append(("job", job_id))
        if job_id not in self.told:
            raise JobNotFound("gone", tried="look", permanent=True)
        return self.told[job_id]

    def jobs(self) -> list[JobRecord]:
        self.asked.append(("jobs",))
        return list(self.told.values())

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        self.asked.append(("set_excluded_nodes", job_id, nodes))

    def set_admin_comment(self, job_id: str, text: str) -> None:
        self.asked.append(("set_admin_comment", job_id, text))

    def submit(self, submission: Submission) -> str:
        self.asked.append(("submit", submission.user))
        return "8"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> type[Commands]:
    monkeypatch.setattr("recovery.slurm.native.CliClient", Commands)
    monkeypatch.setattr("recovery.slurm.native.which", lambda program, path: f"/usr/bin/{program}")
    monkeypatch.setattr(Commands, "told", {})
    monkeypatch.setattr(Commands, "asked", [])
    return Commands


def told(job_id: str, state: JobState, **facts: Any) -> JobRecord:
    submitted_at = datetime.fromtimestamp(AT, UTC)
    return JobRecord(job_id=job_id, name="train", user="root", state=state, submitted_at=submitted_at, **facts)


def failed(number: int) -> dict[str, Any]:
    return {"id": number, "state": "FAILED", "end_time": AT + 9, "exit_code": 9}


def test_the_true_exit_code_is_asked_for_once(stage: Stage, commands: type[Commands]) -> None:
    stage.set(jobs=[failed(7), {"id": 8}])
    ended_at = datetime.fromtimestamp(AT + 9, UTC)
    commands.told["7"] = told("7", JobState.FAILED, exit_code=137, ended_at=ended_at, nodes=("n1",), node_count=1)
    client = stage.client()
    for _ in range(2):
        assert [job.exit_code for job in client.jobs()] == [137, None]
    assert commands.asked == [("job", "7")]


def test_a_hold_on_top_of_ours_is_seen(stage: Stage, commands: type[Commands]) -> None:
    stage.set(jobs=[{"id": 7, "state": "PENDING", "priority": 0, "state_reason": "job requeued in held state"}])
    commands.told["7"] = told("7", JobState.PENDING, state_reason="JobHeldAdmin")
    assert stage.client().job("7").state_reason == "JobHeldAdmin"


@pytest.mark.parametrize("restarts", [0, 1])
def test_what_is_told_of_another_attempt_is_not_believed(stage: Stage, commands: type[Commands], restarts: int) -> None:
    stage.set(jobs=[failed(7)])
    commands.told["7"] = told("7", JobState.PENDING, restart_count=restarts, exit_code=3)
    assert stage.client().job("7").exit_code is None


def test_many_doubtful_jobs_are_one_question(stage: Stage, commands: type[Commands]) -> None:
    stage.set(jobs=[failed(number) for number in range(1, 21)])
    commands.told.update({str(n): told(str(n), JobState.FAILED, exit_code=137) for n in range(1, 20)})
    assert [job.exit_code for job in stage.client().jobs()] == [137] * 19 + [None]
    assert commands.asked == [("jobs",)]


def test_what_pyslurm_can_not_say_the_commands_say(stage: Stage, commands: type[Commands]) -> None:
    client = stage.client()
    client.set_excluded_nodes("7", ())
    client.set_admin_comment("7", "")
    assert client.submit(Submission(script="#!/bin/sh\n", user="ada", work_dir="/ada")) == "8"
    assert commands.asked == [("set_excluded_nodes", "7", ()), ("set_admin_comment", "7", ""), ("submit", "ada")]
    assert children(stage) == []


def test_it_is_found_by_its_name(stage: Stage) -> None:
    options = {"slurm_conf": str(stage.conf), "python": str(stage.python)}
    assert client_for("native", options, timeout_s=20).health().release == "26.05.5"


# --- federations -----------------------------------------------------------------------------------------------------


@pytest.fixture
def with_squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    folder = tmp_path / "bin"
    folder.mkdir()
    slurm = FakeSlurm(folder)
    monkeypatch.setattr(NativeClient, "_has", lambda self, program: True)
    return slurm


FEDERATED = [{"id": 67108866, "state": "RUNNING"}, {"id": 4294967294, "state": "REVOKED"}]


def test_in_a_federation_squeue_tells_whose_a_job_is(stage: Stage, with_squeue: FakeSlurm) -> None:
    stage.set(jobs=FEDERATED)
    with_squeue.answers("echo 'the commands were asked' >&2; exit 1")
    client = NativeClient(
        slurm_conf=str(stage.conf), bin_dir=str(with_squeue.folder), python=str(stage.python), timeout_s=20
    )
    for look in (client.jobs, lambda: client.job("67108866")):
        with pytest.raises(SlurmUnreachable, match="the commands were asked"):
            look()


@pytest.mark.usefixtures("without_commands")
def test_without_squeue_a_job_of_a_federation_is_not_guessed_at(stage: Stage) -> None:
    stage.set(jobs=FEDERATED)
    for look in (stage.client().jobs, lambda: stage.client().job("67108866")):
        with pytest.raises(SlurmRefused, match="whose a job is"):
            look()
    stage.set(jobs=[{"id": 7}, FEDERATED[1]])
    assert [job.job_id for job in stage.client().jobs()] == ["7"]
