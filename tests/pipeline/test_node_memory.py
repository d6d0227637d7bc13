"""Strikes come with verdicts, go with them, and are corrected by what follows; the list is kept by them and by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery.access import Forbidden, actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.types import Exclude, FindingKind, Outcome
from recovery.models import Cluster, Event, Incident, NodeStrike, Suspect
from recovery.pipeline import suspects
from recovery.pipeline.by_hand import close_incident
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.node_memory import remember
from recovery.pipeline.suspects import add_suspect, let_expire, reasons, remove_suspect
from tests.factories import make_attempt, make_cluster, make_incident, make_node, make_outbreak, make_run, make_suspect

S = IncidentState

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    cluster = make_cluster()
    make_node(cluster=cluster, name="gpu-02")
    return cluster


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def failed_on(cluster: Cluster, **fields: Any) -> Incident:
    """A case whose verdict leaves out gpu-02."""
    return make_incident(run=make_run(cluster=cluster), **{"state": S.WATCHING, **fields})


def recovered_on(cluster: Cluster, *nodes: str) -> Incident:
    incident = failed_on(cluster, state=S.CLOSED)
    again = make_attempt(job=incident.attempt.job, number=1, nodes=list(nodes))
    incident.new_attempt = again
    incident.save()
    return incident


def test_a_verdict_strikes_the_node_that_it_leaves_out_once(cluster: Cluster, now: datetime) -> None:
    incident = failed_on(cluster)
    for _ in range(2):
        remember(incident, now=now)
    strike = NodeStrike.objects.get()
    assert (strike.node, strike.proven, strike.told_by, strike.elsewhere) == ("gpu-02", True, "log", None)


def test_another_verdict_takes_the_strike_back(cluster: Cluster, now: datetime) -> None:
    incident = failed_on(cluster)
    remember(incident, now=now)
    incident.diagnosis = {**incident.diagnosis, "exclude": Exclude.NONE, "nodes": []}
    remember(incident, now=now)
    assert not NodeStrike.objects.exists()


@pytest.mark.parametrize("kind", [FindingKind.SLOWDOWN, FindingKind.LIMIT_NEAR, FindingKind.UNDOING])
def test_what_is_no_stop_strikes_nobody(kind: FindingKind, cluster: Cluster, now: datetime) -> None:
    remember(failed_on(cluster, kind=kind), now=now)
    assert not NodeStrike.objects.exists()


def test_a_failure_of_an_outbreak_strikes_nobody_even_where_it_did_before(cluster: Cluster, now: datetime) -> None:
    incident = failed_on(cluster)
    remember(incident, now=now)
    make_outbreak(incidents=[incident])
    incident.refresh_from_db()
    remember(incident, now=now)
    assert not NodeStrike.objects.exists()


def test_a_false_alarm_by_hand_takes_it_back(cluster: Cluster, now: datetime, operator: Any) -> None:
    incident = failed_on(cluster)
    remember(incident, now=now)
    close_incident(incident.pk, outcome=Outcome.FALSE_ALARM, reason="a drill", actor=actor_for(operator), now=now)
    assert not NodeStrike.objects.exists()


@pytest.mark.parametrize(("nodes", "elsewhere"), [(("gpu-07",), True), (("gpu-02", "gpu-07"), False)])
def test_how_the_run_went_on_is_noted_when_the_case_has_recovered(
    nodes: tuple[str, ...], elsewhere: bool, cluster: Cluster, now: datetime
) -> None:
    remember(recovered_on(cluster, *nodes), now=now)
    assert NodeStrike.objects.get().elsewhere is elsewhere


def test_strikes_of_several_runs_make_a_suspect_with_its_reason_and_an_event(cluster: Cluster, now: datetime) -> None:
    remember(recovered_on(cluster, "gpu-07"), now=now)
    assert not Suspect.objects.exists()
    second = recovered_on(cluster, "gpu-08")
    second.run.user = "somebody-else"  # what the logs of one user's jobs say is not enough
    second.run.save()
    remember(second, now=now)
    held = Suspect.objects.get()
    assert held.added_by == ""
    assert held.reason == "2 failures of 2 runs began on it (gpu hardware); 2 runs went on elsewhere."
    assert Event.objects.get(verb="suspect.added").subject_id == "gpu-02"
    assert reasons(cluster.pk, ["gpu-02", "gpu-03"], now=now) == {"gpu-02": held.reason}
    NodeStrike.objects.all().delete()
    suspects.reconsider(cluster.pk, ["gpu-02"], now=now)
    held.refresh_from_db()
    assert held.ended_at is not None


def test_the_logs_of_one_users_jobs_make_none(cluster: Cluster, now: datetime) -> None:
    for _ in range(6):
        remember(recovered_on(cluster, "gpu-07"), now=now)
    assert NodeStrike.objects.count() == 6
    assert not Suspect.objects.exists()


def test_a_person_puts_a_node_on_the_list_and_takes_it_off(cluster: Cluster, now: datetime, operator: Any) -> None:
    actor = actor_for(operator)
    row = add_suspect(cluster.pk, "gpu-02", reason="ticket 4711", until=now + timedelta(days=3), actor=actor, now=now)
    assert reasons(cluster.pk, ["gpu-02"], now=now) == {"gpu-02": "operator: ticket 4711"}
    suspects.reconsider(cluster.pk, ["gpu-02"], now=now)  # without any strike: a person's word stays
    assert reasons(cluster.pk, ["gpu-02"], now=now)
    with pytest.raises(Invalid, match="on the list already"):
        add_suspect(cluster.pk, "gpu-02", reason="x", until=now + timedelta(days=3), actor=actor, now=now)
    remove_suspect(row.pk, reason="repaired", actor=actor, now=now)
    assert reasons(cluster.pk, ["gpu-02"], now=now) == {}
    with pytest.raises(Invalid, match="not on the list any more"):
        remove_suspect(row.pk, reason="repaired", actor=actor, now=now)
    told = Event.objects.filter(subject_kind="node").values_list("verb", "actor_name", "reason")
    assert list(told) == [("suspect.added", "operator", "ticket 4711"), ("suspect.ended", "operator", "repaired")]


def test_what_was_before_a_pardon_counts_no_more(cluster: Cluster, now: datetime, operator: Any) -> None:
    for user in ("ada", "ben"):
        incident = recovered_on(cluster, "gpu-07")
        incident.run.user = user
        incident.run.save()
        remember(incident, now=now)
    remove_suspect(Suspect.objects.get().pk, reason="new GPU", actor=actor_for(operator), now=now)
    suspects.reconsider(cluster.pk, ["gpu-02"], now=now)
    assert not suspects.suspects(cluster.pk, now=now).exists()
    remember(failed_on(cluster, failed_at=now + timedelta(hours=1)), now=now + timedelta(hours=1))
    assert not suspects.suspects(cluster.pk, now=now + timedelta(hours=1)).exists()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"reason": "  "}, "reason:"),
        ({"node": "gpu-99"}, "node: there is no node gpu-99"),
        ({"days": -1}, "until: must be in the future"),
        ({"days": 400}, "until: must be in the future, and at most 365 days"),
    ],
)
def test_what_is_wrong_is_named(
    given: dict[str, Any], field: str, cluster: Cluster, now: datetime, operator: Any
) -> None:
    wanted = {"node": "gpu-02", "reason": "x", "days": 3, **given}
    until = now + timedelta(days=wanted["days"])
    with pytest.raises(Invalid, match=field):
        add_suspect(
            cluster.pk, wanted["node"], reason=wanted["reason"], until=until, actor=actor_for(operator), now=now
        )
    assert not Suspect.objects.exists()


def test_a_viewer_edits_nothing(cluster: Cluster, now: datetime, viewer: Any) -> None:
    actor, row = actor_for(viewer), make_suspect(cluster=cluster)
    with pytest.raises(Forbidden):
        add_suspect(cluster.pk, "gpu-02", reason="x", until=now + timedelta(days=1), actor=actor, now=now)
    with pytest.raises(Forbidden):
        remove_suspect(row.pk, reason="x", actor=actor, now=now)


def test_a_suspicion_runs_out(cluster: Cluster, now: datetime) -> None:
    row = make_suspect(cluster=cluster, until=now + timedelta(hours=1))
    let_expire(now=now)
    assert reasons(cluster.pk, ["gpu-02"], now=now)
    assert not reasons(cluster.pk, ["gpu-02"], now=now + timedelta(hours=2))
    let_expire(now=now + timedelta(hours=2))
    row.refresh_from_db()
    assert (row.ended_by, row.ended_reason) == ("", "It ran out.")
