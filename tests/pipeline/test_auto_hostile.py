"""A policy that acts by itself, while the world moves under it: whatever happens when, no call breaks a rule.

What is checked at each call is the controller's own truth at that moment, not what the desk believes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recovery.core.policy import DEFAULT_RULES
from recovery.core.types import JobState
from recovery.models import Incident, PolicyVersion
from tests.pipeline.conftest import Desk
from tests.pipeline.fake_slurm import no_answer

DOCUMENT = {
    **DEFAULT_RULES,
    "rules": [{"name": "all", "classes": ["gpu_hardware", "node_fault", "hang_silent"], "mode": "auto"}],
    "breaker": {**DEFAULT_RULES["breaker"], "max_excluded_percent": 60},
}


def _silent(desk: Desk) -> None:
    desk.slurm.silent = no_answer()
    desk.tick(times=2)
    desk.slurm.silent = None


def _anew(desk: Desk) -> None:
    """Its user submits the run once more, and it starts."""
    if "9" not in desk.slurm.table:
        desk.submit("9", stdout=f"{desk.folder}/other.out")
        desk.slurm.start("9", ("n3", "n4"))


def _another_job(desk: Desk) -> None:
    """A controller that lost its state gives the id to somebody else."""
    desk.slurm.enter("1", name="theirs", user="eve", submitted_at=desk.now + timedelta(seconds=1))
    desk.slurm.start("1", ("n1", "n2"))


def _loses_the_answer(desk: Desk) -> None:
    def lose(operation: str) -> None:
        desk.slurm.after_write = None
        raise no_answer()

    desk.slurm.after_write = lose


def _requeued(desk: Desk) -> None:
    if desk.slurm.table["1"].state is not JobState.PENDING:
        desk.slurm._requeue("1", hold=False)


def _starts(desk: Desk) -> None:
    if desk.slurm.table["1"].state is JobState.PENDING:
        desk.slurm.start("1", ("n1", "n3"))


def _lost(desk: Desk) -> None:
    for name in ("n3", "n4"):
        desk.slurm.lose_node(name)


EVENTS: dict[str, Callable[[Desk], object]] = {
    "its user cancels it": lambda d: d.slurm.end(state=JobState.CANCELLED, exit_code=0, reason=""),
    "its user holds it": lambda d: d.slurm.change("1", held=True, state_reason="JobHeldUser"),
    "an admin holds it": lambda d: d.slurm.change("1", held=True, state_reason="JobHeldAdmin"),
    "somebody requeues it": _requeued,
    "it starts": _starts,
    "it may not be requeued": lambda d: d.slurm.change("1", requeueable=False),
    "nodes are excluded": lambda d: d.slurm.change("1", excluded_nodes=("n3", "n4")),
    "nodes are lost": _lost,
    "slurm is silent": _silent,
    "the run is submitted anew": _anew,
    "the id is another job's": _another_job,
    "an answer is lost": _loses_the_answer,
    "a tick": lambda d: d.tick(),
    "the log is cut": lambda d: d.log.write_text(""),
}


class Truth:
    """What may never be done, by the table of the controller at the moment of the call."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.requeued = desk, set[int]()

    def check(self, operation: str) -> None:
        job = self.desk.slurm.table["1"]
        assert job.user == "ada", f"{operation} on another's job"
        assert job.state is not JobState.CANCELLED, f"{operation} on a cancelled job"
        if operation in ("requeue", "requeue_hold"):
            assert job.state_reason not in ("JobHeldUser", "JobHeldAdmin")
            assert job.restart_count not in self.requeued, "twice"
            assert job.requeueable
            other = self.desk.slurm.table.get("9")
            assert other is None or other.state is not JobState.RUNNING, "two would write to one folder"
            self.requeued.add(job.restart_count)
        if operation == "release":
            assert job.state_reason not in ("JobHeldUser", "JobHeldAdmin"), "somebody else's hold"


@pytest.mark.django_db
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(hang=False, events=[("a tick", 4)])
@given(
    hang=st.booleans(),
    events=st.lists(st.tuples(st.sampled_from(sorted(EVENTS)), st.integers(0, 4)), min_size=1, max_size=4),
)
def test_whatever_happens_when_no_automatic_call_breaks_a_rule(
    hang: bool, events: list[tuple[str, int]], tmp_path_factory: Any, settings: Any
) -> None:
    folder: Path = tmp_path_factory.mktemp("auto")
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(folder)]
    settings.SETTLE_S, settings.TICK_S, settings.HANG_FLOOR_S = 4, 2, 30
    with transaction.atomic():
        desk = Desk(folder)
        PolicyVersion.objects.create(number=1, rules=DOCUMENT, author="a", reason="r", created_at=desk.now)
        desk.run_with_checkpoint()
        truth = Truth(desk)
        desk.slurm.before_write = truth.check
        if not hang:
            desk.crash_with_ecc()
        for event, ticks in events:
            EVENTS[event](desk)
            desk.tick(times=ticks, seconds=12 if hang else 2)
        desk.tick(times=6, seconds=12 if hang else 2)
        assert not Incident.objects.exclude(error="").exists(), Incident.objects.exclude(error="").get().error
        assert truth.requeued == {0} or {name for name, _ in events} != {"a tick"}, "left alone it is restarted"
        transaction.set_rollback(True)
