"""What the tests of bad weather share: a site that acts by itself, and how it must stand when the weather is over."""

from __future__ import annotations

from collections.abc import Callable

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import Outcome
from recovery.models import Action, Cluster, Event, Incident, Sample
from tests.e2e.site import Site


def wait_for_news(site: Site) -> None:
    """Until the cluster was looked at again.

    A worker or beat that has ended is started again, as every service manager does: Celery's worker ends itself where
    its broker goes away a second time while it is still connecting (seen with kombu 5.7).
    """
    before = Cluster.objects.get().seen_at

    def looked() -> bool:
        for name in [name for name, daemon in site.processes.items() if not daemon.is_running()]:
            site.start(name)
        return Cluster.objects.get().seen_at != before

    site.wait(looked, what="another look at the cluster")


def fall_in(state: IncidentState) -> Callable[[], bool]:
    return lambda: Event.objects.filter(verb=f"incident.{state}").exists()


def recovered_exactly_once(site: Site, job: str) -> None:
    site.wait_for(IncidentState.CLOSED, within=150)
    assert site.incident.outcome == Outcome.RECOVERED
    assert Incident.objects.count() == 1
    begun = Action.objects.exclude(called_at=None)  # one whose facts changed before its first call is not done
    assert begun.get().state == ActionState.CONVERGED
    assert site.record(job).restart_count == 1
    site.wait(lambda: len(site.history(job)) == 2, what="both attempts in accounting")
    first = list(Sample.objects.filter(attempt__number=0).order_by("step").values_list("step", flat=True))
    assert first == list(range(1, len(first) + 1))
    events = list(Event.objects.filter(subject_kind="incident").order_by("pk").values_list("at", "new", "reason"))
    moves = [new for _, new, _ in events]
    assert moves.count("restoring") == moves.count("closed") == 1, "\n".join(map(str, events))
