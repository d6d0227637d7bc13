"""What a job pushes may be wrong, early, or far too much: it hides nothing, ends nothing, and costs nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.core.types import FindingKind, JobState
from recovery.models import Attempt, Incident, PushBatch
from recovery.pipeline import push
from tests.pipeline.conftest import Desk
from tests.pipeline.test_push import blind, send

FINISHED: dict[str, Any] = {"kind": "finished"}


def trains(desk: Desk, *, steps: int = 11) -> None:
    blind(desk)
    for step in range(1, steps + 1):
        send(desk, {"step": step}, name=f"step{step}")
        desk.tick(seconds=20)


@pytest.mark.parametrize(
    "again",
    [
        pytest.param([], id="beats alone"),
        pytest.param([FINISHED], id="done, again and again"),
        pytest.param([{"kind": "save_started", "step": 11}, {"kind": "save_durable", "step": 11}], id="saves alone"),
        pytest.param([{"kind": "loaded", "step": 11}], id="loads alone"),
        pytest.param([{"step": 11}], id="the same step"),
        pytest.param([{"step": 3}, {"step": 2}], id="lower steps"),
    ],
)
def test_who_lives_and_trains_no_more_hangs_whatever_else_it_says(desk: Desk, again: list[dict[str, Any]]) -> None:
    trains(desk)
    send(desk, FINISHED, name="done")
    for number in range(100):
        send(desk, *again, name=f"beat{number}")
        desk.tick(seconds=60)
        if Incident.objects.exists():
            break
    assert Incident.objects.get().kind == FindingKind.HANG


def test_who_says_that_it_is_done_and_trains_on_trains(desk: Desk) -> None:
    trains(desk)
    send(desk, FINISHED, {"step": 12}, name="on")
    desk.tick(seconds=20)
    assert (desk.attempt.phase, desk.attempt.last_step) == ("training", 12)
    desk.slurm.end()
    desk.tick(times=6)
    assert Incident.objects.get().kind == FindingKind.CRASH


def test_a_job_that_says_that_it_is_done_and_is_killed_is_a_crash_and_no_completion(desk: Desk) -> None:
    trains(desk)
    send(desk, FINISHED, name="done")
    desk.tick()
    desk.slurm.end(state=JobState.NODE_FAIL)
    desk.tick(times=6)
    assert Incident.objects.get().kind == FindingKind.CRASH


def test_who_floods_is_refused_and_another_job_is_looked_at_as_ever(desk: Desk) -> None:
    trains(desk, steps=2)
    desk.slurm.enter("2", user="mira", comment='{"recovery": {"run": "other"}}', stdout="")
    desk.tick()
    desk.slurm.start("2", ("n3", "n4"))
    desk.tick()
    rows = [{"step": step} for step in range(3, 203)]
    for number in range(push.MOST_UNREAD_OF_ATTEMPT):
        send(desk, *rows, name=f"flood{number}")
    with pytest.raises(push.Refused, match="wait to be read"):
        send(desk, *rows, name="too many")
    assert PushBatch.objects.filter(read_at=None).count() <= push.MOST_UNREAD_OF_ATTEMPT
    send(desk, {"step": 77}, name="calm", job="2")
    desk.tick(times=3)
    assert Attempt.objects.get(job__job_id="2").last_step == 77


def test_who_says_that_it_is_done_and_never_ends_is_not_taken_for_healthy(desk: Desk) -> None:
    trains(desk)
    send(desk, FINISHED, name="done")
    desk.tick(seconds=300, times=36)
    assert desk.attempt.blind_reason or Incident.objects.filter(kind=FindingKind.HANG).exists()
