"""Our clock and Slurm's differ: what the one says is never compared with the other to tell executions apart."""

from __future__ import annotations

from datetime import timedelta

from recovery.core.types import FailureClass
from recovery.models import Attempt, Incident
from recovery.pipeline.successor import successor
from tests.pipeline.conftest import Desk


def test_a_failed_execution_is_not_its_own_successor_where_our_clock_is_behind(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick_until(Incident.objects.exclude(failure_class="").exists)
    Attempt.objects.update(started_at=desk.incident.detected_at + timedelta(seconds=30))
    assert desk.incident.failure_class != FailureClass.SCHEDULER_LAUNCH
    assert successor(desk.incident) is None
