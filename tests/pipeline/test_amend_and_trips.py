"""What a person proposes in the place of a waiting question; and what the breaker stops."""

from __future__ import annotations

from datetime import timedelta

from recovery.core.lifecycle import IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.models import Cluster, Event, PolicyVersion
from tests.pipeline.conftest import Desk

S = IncidentState


def write_auto(desk: Desk, *, percent: int) -> None:
    document = {
        **DEFAULT_RULES,
        "rules": [{"name": "hardware", "classes": ["gpu_hardware"], "mode": "auto"}],
        "breaker": {**DEFAULT_RULES["breaker"], "max_excluded_percent": percent},
    }
    number = PolicyVersion.objects.count() + 1
    PolicyVersion.objects.create(number=number, rules=document, author="admin", reason="test", created_at=desk.now)


def test_what_the_breaker_stops_is_kept_until_it_lets_something_through(desk: Desk) -> None:
    write_auto(desk, percent=1)
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick(times=8)
    assert desk.incident.state == S.AWAITING_DECISION
    cluster = Cluster.objects.get()
    assert cluster.tripped_at is not None
    assert "nodes would be excluded, 1 percent are allowed" in cluster.tripped_reason
    told = Event.objects.get(verb="automation.tripped")
    assert (told.subject_kind, told.reason) == ("cluster", f"The breaker stopped it: {cluster.tripped_reason}")
    write_auto(desk, percent=60)  # the question is asked anew, and nothing stops it now
    desk.now += timedelta(seconds=60)
    desk.tick_until(lambda: desk.slurm.calls != [])
    cluster.refresh_from_db()
    assert (cluster.tripped_at, cluster.tripped_reason) == (None, "")


def test_a_pause_is_no_trip_of_the_breaker(desk: Desk) -> None:
    write_auto(desk, percent=60)
    Cluster.objects.update(paused_at=desk.now, paused_by="operator", paused_reason="maintenance")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick(times=8)
    assert "automation is paused (maintenance)" in desk.recommendation.mode_reason
    assert Cluster.objects.get().tripped_at is None
