"""A run that went on on another cluster of its federation: one file, one history, whichever cluster tells of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recovery.core.types import CheckpointState, JobState
from recovery.models import Attempt
from recovery.pipeline.facts import past_failures
from recovery.pipeline.ingest import superseded
from tests.core.logs.lines import megatron
from tests.factories import ago, make_attempt, make_checkpoint, make_cluster, make_incident, make_job, make_run
from tests.pipeline.test_log_files import ECC, add, ingest

pytestmark = pytest.mark.django_db
JOB = "67108867"
FRESH = "    will not load any checkpoints and will start from random"


@pytest.fixture
def moved(tmp_path: Path, settings: Any) -> tuple[Attempt, Attempt]:
    """A job that failed on `fa`, and what `fb` runs of it since; its name and folder alone join it to a run."""
    settings.LOG_ROOTS = [str(tmp_path)]
    return _execution(tmp_path, "fa", 0), _execution(tmp_path, "fb", 1)


def _execution(tmp_path: Path, name: str, number: int, *, key: str = "", federation: str = "fed") -> Attempt:
    cluster = make_cluster(name=name, federation=federation)
    job = make_job(
        run=make_run(cluster=cluster, key=key or f"mira/llama/job:{JOB}@{name}"), job_id=JOB, raw_id=JOB,
        restart_count=number, stdout=str(tmp_path / "train.out"), stderr="",
    )  # fmt: skip
    times = {"started_at": ago(900), "ended_at": None} if number else {"started_at": ago(3600), "ended_at": ago(1800)}
    return make_attempt(
        job=job, number=number, **times, nodes=["n1"], first_step=None, last_step=None, read_at=None, fresh_start=False
    )


def test_a_job_that_moved_reads_on_where_the_other_cluster_stopped(
    moved: tuple[Attempt, Attempt], tmp_path: Path
) -> None:
    """What the attempt before it printed, a start from scratch and its failure, is not its own."""
    first, second = moved
    add(tmp_path, FRESH, *(megatron(step, stamp="") for step in (1, 2, 3)), ECC)
    ingest(first, now=ago(1790))
    add(tmp_path, megatron(3, stamp=""))
    look = ingest(second, now=ago(800))
    assert [(signal.kind, signal.step, signal.line) for signal in look.signals] == [("progress", 3, 6)]
    assert (second.first_step, second.fresh_start) == (3, False)


def test_what_stands_before_the_first_date_of_an_attempt_before_is_as_old(
    moved: tuple[Attempt, Attempt], tmp_path: Path
) -> None:
    """Nobody had read the file, and its first line, a start from scratch, has no date."""
    _, second = moved
    add(tmp_path, FRESH, megatron(9, stamp=f"{ago(1850):%Y-%m-%d %H:%M:%S.%f}"), ECC)
    add(tmp_path, megatron(5, stamp=f"{ago(820):%Y-%m-%d %H:%M:%S.%f}"))
    look = ingest(second, now=ago(800))
    assert [(signal.kind, signal.step) for signal in look.signals] == [("progress", 5)]
    assert (second.first_step, second.fresh_start) == (5, False)


@pytest.mark.parametrize("same", [{"federation": "other"}, {"federation": ""}])
def test_a_namesake_of_another_federation_is_another_job(tmp_path: Path, settings: Any, same: dict[str, str]) -> None:
    settings.LOG_ROOTS = [str(tmp_path)]
    first, second = _execution(tmp_path, "fa", 0), _execution(tmp_path, "fb", 1, **same)
    add(tmp_path, megatron(1, stamp=""))
    ingest(first, now=ago(1790))
    assert [signal.step for signal in ingest(second, now=ago(800)).signals] == [1]


def test_the_next_job_of_a_run_reads_on_on_another_cluster(tmp_path: Path, settings: Any) -> None:
    settings.LOG_ROOTS = [str(tmp_path)]
    first, second = (_execution(tmp_path, name, n, key="mira/run:llama") for n, name in enumerate(("fa", "fb")))
    type(second.job).objects.filter(pk=second.job_id).update(job_id="134217729", raw_id="134217729")
    second.job.refresh_from_db()
    add(tmp_path, megatron(1, stamp=""))
    ingest(first, now=ago(1790))
    add(tmp_path, megatron(2, stamp=""))
    assert [signal.step for signal in ingest(second, now=ago(800)).signals] == [2]
    first.read_at = ago(1700)
    assert superseded([first, second]) == {first.pk}


def test_who_has_ended_reads_no_more_once_another_cluster_has_the_job(moved: tuple[Attempt, Attempt]) -> None:
    first, _ = moved
    first.job.restart_count = 1
    make_attempt(job=first.job, number=1, state=JobState.REVOKED, started_at=None, ended_at=ago(900))
    assert superseded([first]) == set()  # its end was not read yet
    first.read_at = ago(1700)
    assert superseded([first]) == {first.pk}


def test_what_failed_on_another_cluster_counts_and_its_nodes_are_not_ours(moved: tuple[Attempt, Attempt]) -> None:
    first, second = moved
    then = make_incident(attempt=first, failed_at=ago(1800), detected_at=ago(1790))
    now = make_incident(attempt=second, failed_at=ago(60), detected_at=ago(55))
    (past,) = past_failures(now, now=ago(0))
    assert (past.step, past.nodes, past.checkpoint_since) == (then.failed_step, (), False)
    second.job.run.key = first.job.run.key
    second.job.run.save()
    make_checkpoint(run=second.job.run, step=2000, state=CheckpointState.COMPLETE, completed_at=ago(600))
    (past,) = past_failures(now, now=ago(0))
    assert past.checkpoint_since
