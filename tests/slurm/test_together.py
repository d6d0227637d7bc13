"""Two back ends as one cluster: who is asked for what, and that both are of the same one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import (
    READS,
    YES,
    Can,
    Health,
    JobNotFound,
    JobRecord,
    JobsPicture,
    NodeRecord,
    NotSupported,
    Operation,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
    Submission,
)
from recovery.slurm.together import Half, TogetherClient

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
HEALTH = Health(release="22.05.8", accounting=False, requeue_delay_s=121, latency_s=0.01)
JOB_12 = JobRecord(job_id="12", name="train", user="ada", state=JobState.RUNNING, submitted_at=SINCE)
COMPARED = ("nodes", "job")  # what both are asked before anything is done
CALLS: dict[Operation, Callable[[Any], object]] = {
    Operation.JOBS: lambda client: client.jobs_since("m"),
    Operation.JOB: lambda client: client.job("12"),
    Operation.ATTEMPTS: lambda client: client.attempts(["12"], since=SINCE),
    Operation.ENDED_BETWEEN: lambda client: client.ended_between(SINCE, SINCE),
    Operation.NODES: lambda client: client.nodes(),
    Operation.PARTITIONS: lambda client: client.partitions(),
    Operation.RESERVATIONS: lambda client: client.reservations(),
    Operation.TOPOLOGY: lambda client: client.topology(),
    Operation.BATCH_SCRIPT: lambda client: client.batch_script("12"),
    Operation.REQUEUE: lambda client: client.requeue("12", hold=False),
    Operation.REQUEUE_HOLD: lambda client: client.requeue("12", hold=True),
    Operation.SET_EXCLUDED_NODES: lambda client: client.set_excluded_nodes("12", ("n1",)),
    Operation.RELEASE: lambda client: client.release("12"),
    Operation.HOLD: lambda client: client.hold("12"),
    Operation.CANCEL: lambda client: client.cancel("12"),
    Operation.SET_TIME_LIMIT: lambda client: client.set_time_limit("12", 60),
    Operation.SET_ADMIN_COMMENT: lambda client: client.set_admin_comment("12", "x"),
    Operation.DRAIN_NODE: lambda client: client.drain_node("n1", "x"),
    Operation.RESUME_NODE: lambda client: client.resume_node("n1"),
    Operation.SUBMIT: lambda client: client.submit(Submission(script="#!/bin/sh", user="ada", work_dir="/")),
}


@dataclass
class Recorder:
    """A back end that writes down what it is asked."""

    able: frozenset[Operation] = frozenset(Operation)
    told: Health = HEALTH
    names: tuple[str, ...] = ("n1", "n2")
    job_12: JobRecord = JOB_12
    fails: SlurmError | None = None
    asked: list[str] = field(default_factory=list)

    def can(self, operation: Operation) -> Can:
        return YES if operation in self.able else Can(yes=False, reason=f"no {operation}", remedy="do without")

    def health(self) -> Health:
        return self.told

    def nodes(self) -> list[NodeRecord]:
        self._note("nodes")
        return [NodeRecord(name=name, state=NodeState.UP) for name in self.names]

    def jobs_since(self, mark: str) -> JobsPicture:
        self._note("jobs_since")
        return JobsPicture(jobs=[], mark=mark)

    def job(self, job_id: str) -> JobRecord:
        self._note("job")
        return self.job_12

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: self._note(name)

    def _note(self, name: str) -> None:
        if self.fails and name not in COMPARED:
            raise self.fails
        self.asked.append(name)


def together(reads: Recorder, acts: Recorder) -> TogetherClient:
    return TogetherClient(
        reads=Half(name="slurmrestd", client=reads),  # type: ignore[arg-type]
        acts=Half(name="the commands", client=acts),  # type: ignore[arg-type]
    )


def test_every_operation_has_a_call() -> None:
    assert CALLS.keys() == set(Operation)


@pytest.mark.parametrize("operation", Operation)
def test_what_both_can_is_read_by_one_and_done_by_the_other(operation: Operation) -> None:
    reads, acts = Recorder(), Recorder()
    client = together(reads, acts)
    assert client.can(operation)
    CALLS[operation](client)
    if operation in READS:
        assert (len(reads.asked), acts.asked) == (1, [])
    else:
        assert [name for name in reads.asked if name not in COMPARED] == []
        assert len([name for name in acts.asked if name not in COMPARED]) == 1


@pytest.mark.parametrize("operation", Operation)
def test_what_one_can_not_is_the_others(operation: Operation) -> None:
    reads, acts = Recorder(), Recorder()
    lacking = reads if operation in READS else acts
    lacking.able = frozenset(Operation) - {operation}
    CALLS[operation](together(reads, acts))
    other = acts if lacking is reads else reads
    assert [name for name in lacking.asked if name not in COMPARED] == []
    assert other.asked


@pytest.mark.parametrize("operation", Operation)
def test_what_neither_can_is_denied_with_both_reasons(operation: Operation) -> None:
    able = frozenset(Operation) - {operation}
    reads, acts = Recorder(able=able), Recorder(able=able)
    can = together(reads, acts).can(operation)
    assert not can
    assert "slurmrestd: no" in can.reason
    assert "the commands: no" in can.reason
    assert can.remedy
    with pytest.raises(NotSupported):
        CALLS[operation](together(reads, acts))
    with pytest.raises(NotSupported):
        together(reads, acts).preview(operation, "12")
    assert reads.asked == acts.asked == []


@pytest.mark.parametrize(
    "other",
    [
        Recorder(told=replace(HEALTH, release="26.05.5")),
        Recorder(told=replace(HEALTH, cluster_name="beta")),
        Recorder(names=("n1", "n2", "n3")),
    ],
    ids=["release", "cluster name", "set of nodes"],
)
def test_two_clusters_are_never_taken_for_one(other: Recorder) -> None:
    reads = Recorder(told=replace(HEALTH, cluster_name="alpha"))
    other.asked.clear()
    client = together(reads, other)
    writes = [CALLS[operation] for operation in Operation if operation.is_write]
    for call in (lambda client: client.health(), *writes):
        with pytest.raises(SlurmUnreachable, match="different clusters") as caught:
            call(client)
        assert caught.value.permanent
    assert set(other.asked) <= {"nodes"}
    client.jobs_since("")  # what is read of one half alone is still true of that one


def test_a_name_that_only_one_half_tells_is_no_difference() -> None:
    """22.05's slurmrestd names no cluster."""
    acts = Recorder(told=replace(HEALTH, cluster_name="lab", accounting=True, requeue_delay_s=6, min_job_age_s=300))
    health = together(Recorder(), acts).health()
    assert (health.cluster_name, health.accounting, health.requeue_delay_s) == ("lab", True, 6)
    assert (health.min_job_age_s, health.latency_s) == (300, HEALTH.latency_s)


def test_two_clusters_with_nodes_of_the_same_names_are_told_apart_by_the_job() -> None:
    """22.05's slurmrestd names no cluster; ids begin at 1 everywhere."""
    reads, acts = Recorder(), Recorder(job_12=replace(JOB_12, submitted_at=SINCE + timedelta(seconds=1)))
    client = together(reads, acts)
    for operation in set(CALLS) - READS - {Operation.DRAIN_NODE, Operation.RESUME_NODE, Operation.SUBMIT}:
        with pytest.raises(SlurmRefused, match="different jobs 12: nothing was done"):
            CALLS[operation](client)
    assert set(acts.asked) == set(COMPARED)


def test_the_comparison_of_clusters_is_made_once() -> None:
    reads, acts = Recorder(), Recorder()
    client = together(reads, acts)
    for _ in range(3):
        client.hold("12")
    assert (reads.asked.count("nodes"), acts.asked.count("nodes"), acts.asked.count("hold")) == (1, 1, 3)


@pytest.mark.parametrize("kind", [SlurmUnreachable, SlurmRefused, JobNotFound])
@pytest.mark.parametrize("permanent", [False, True])
def test_an_error_says_which_half_it_is_of_and_stays_what_it_is(kind: type[SlurmError], permanent: bool) -> None:
    failing = kind("no answer", tried="scontrol requeue 12", permanent=permanent)
    with pytest.raises(kind) as caught:
        together(Recorder(), Recorder(fails=failing)).requeue("12", hold=False)
    assert (type(caught.value), caught.value.permanent) == (kind, permanent)
    assert str(caught.value) == "the commands: scontrol requeue 12: no answer"
    with pytest.raises(kind) as caught:
        together(Recorder(fails=failing), Recorder()).partitions()
    assert caught.value.tried.startswith("slurmrestd: ")
