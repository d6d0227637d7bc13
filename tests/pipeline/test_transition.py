"""The only writer of state: legal changes only, one winner, and no change without its event."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from recovery import audit
from recovery.access import Actor, Permission
from recovery.core.lifecycle import ACTION_TRANSITIONS, TRANSITIONS, ActionState, IncidentState
from recovery.models import Action, Event, Incident
from recovery.pipeline.transition import LostRace, advance, advance_action
from tests.factories import make_action, make_incident

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WHY = "because the test says so"
LEGAL = [(old, new) for old, news in TRANSITIONS.items() for new in sorted(news)]
ILLEGAL = [(old, new) for old in IncidentState for new in IncidentState if new not in TRANSITIONS[old]]
ACTION_LEGAL = [(old, new) for old, news in ACTION_TRANSITIONS.items() for new in sorted(news)]
ACTION_ILLEGAL = [(old, new) for old in ActionState for new in ActionState if new not in ACTION_TRANSITIONS[old]]


# --- which changes are legal


@pytest.mark.django_db
@pytest.mark.parametrize(("old", "new"), LEGAL)
def test_a_legal_change_is_made_and_told(old: IncidentState, new: IncidentState) -> None:
    incident = make_incident(state=old)
    advance(incident, new, now=NOW, why=WHY, headline="new words")
    assert (incident.state, incident.headline) == (new, "new words")
    assert Incident.objects.get().state == new
    event = Event.objects.get()
    assert (event.verb, event.old, event.new, event.reason) == (f"incident.{new}", old, new, WHY)
    assert (event.at, event.incident_id) == (NOW, incident.pk)


@pytest.mark.django_db
@pytest.mark.parametrize(("old", "new"), ILLEGAL)
def test_an_illegal_change_is_refused_and_nothing_is_written(old: IncidentState, new: IncidentState) -> None:
    incident = make_incident(state=old)
    with pytest.raises(ValueError, match=f"An incident can't go from {old} to {new}"):
        advance(incident, new, now=NOW, why=WHY, headline="new words")
    stored = Incident.objects.get()
    assert (stored.state, stored.headline) == (old, incident.headline)
    assert not Event.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("old", "new"), ACTION_LEGAL)
def test_an_action_goes_its_legal_ways(old: ActionState, new: ActionState) -> None:
    action = make_action(state=old)
    advance_action(action, new, now=NOW, why=WHY, detail="seen on other nodes")
    assert (action.state, action.detail) == (new, "seen on other nodes")
    event = Event.objects.get()
    assert (event.verb, event.subject_id, event.incident_id) == (f"action.{new}", str(action.pk), action.incident_id)


@pytest.mark.django_db
@pytest.mark.parametrize(("old", "new"), ACTION_ILLEGAL)
def test_an_action_goes_no_other_way(old: ActionState, new: ActionState) -> None:
    action = make_action(state=old)
    with pytest.raises(ValueError, match=f"An action can't go from {old} to {new}"):
        advance_action(action, new, now=NOW, why=WHY)
    assert not Event.objects.exists()


@pytest.mark.parametrize("state", IncidentState)
def test_every_open_case_can_be_closed(state: IncidentState) -> None:
    assert state == IncidentState.CLOSED or IncidentState.CLOSED in TRANSITIONS[state]


# --- who did it


@pytest.mark.django_db
def test_the_product_acts_unless_somebody_else_does() -> None:
    incident = make_incident()
    approver = Actor(kind="user", name="approver", user_id=7, permissions=frozenset({Permission.DECIDE}))
    advance(incident, IncidentState.ACTING, now=NOW, why=WHY, actor=approver)
    advance(incident, IncidentState.RESTORING, now=NOW, why=WHY)
    assert [event.actor_name for event in Event.objects.all()] == ["approver", "Recovery Desk"]


# --- one winner


@pytest.mark.django_db
def test_who_comes_second_is_told_and_changes_nothing() -> None:
    first = make_incident()
    second = Incident.objects.get()
    advance(first, IncidentState.ACTING, now=NOW, why=WHY)
    with pytest.raises(LostRace, match=f"Incident {first.pk} is no longer awaiting_decision"):
        advance(second, IncidentState.WATCHING, now=NOW, why=WHY, headline="new words")
    assert Incident.objects.get().state == IncidentState.ACTING
    assert Incident.objects.get().headline == first.headline
    assert Event.objects.count() == 1


@pytest.mark.django_db
def test_who_comes_second_to_an_action_is_told_too() -> None:
    first = make_action()
    second = Action.objects.get()
    advance_action(first, ActionState.CALLED, now=NOW, why=WHY)
    with pytest.raises(LostRace, match="is no longer intended"):
        advance_action(second, ActionState.REFUSED, now=NOW, why=WHY)
    assert Action.objects.get().state == ActionState.CALLED


@pytest.mark.django_db
def test_a_case_that_is_gone_is_a_lost_race() -> None:
    incident = make_incident()
    Incident.objects.all().delete()
    with pytest.raises(LostRace):
        advance(incident, IncidentState.ACTING, now=NOW, why=WHY)


def race(attempts: int, attempt: Callable[[int], object]) -> list[object]:
    """What each of so many threads, started as one, got or raised; each on its own connection."""
    ready = threading.Barrier(attempts)
    results: list[object] = []

    def run(number: int) -> None:
        try:
            ready.wait(timeout=30)
            results.append(attempt(number))
        except LostRace as lost:
            results.append(lost)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(attempts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return results


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("turn", range(5))
def test_of_many_workers_at_once_one_wins(turn: int) -> None:
    pk = make_incident().pk
    read = [Incident.objects.get(pk=pk) for _ in range(6)]
    ways = [IncidentState.ACTING, IncidentState.WATCHING]
    results = race(6, lambda i: advance(read[i], ways[i % 2], now=NOW, why=WHY))
    winners = [result for result in results if isinstance(result, Incident)]
    assert (len(results), len(winners)) == (6, 1)
    assert Incident.objects.get(pk=pk).state == winners[0].state
    assert [event.new for event in Event.objects.filter(incident_id=pk)] == [winners[0].state]


@pytest.mark.django_db(transaction=True)
def test_of_many_workers_at_once_one_calls_the_scheduler() -> None:
    action = make_action()
    read = [Action.objects.get() for _ in range(6)]
    results = race(6, lambda i: advance_action(read[i], ActionState.CALLED, now=NOW, why=WHY))
    assert sum(isinstance(result, Action) for result in results) == 1
    assert Event.objects.filter(subject_id=str(action.pk), verb="action.called").count() == 1


# --- no change without its event


@pytest.mark.django_db(transaction=True)
def test_a_change_whose_event_fails_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise DatabaseError("the disk is full")

    incident = make_incident()
    monkeypatch.setattr(audit, "record", fail)
    with pytest.raises(DatabaseError):
        advance(incident, IncidentState.ACTING, now=NOW, why=WHY)
    assert Incident.objects.get().state == IncidentState.AWAITING_DECISION


@pytest.mark.django_db(transaction=True)
def test_change_and_event_are_undone_together() -> None:
    incident = make_incident()
    with transaction.atomic():
        advance(incident, IncidentState.ACTING, now=NOW, why=WHY)
        transaction.set_rollback(True)
    assert Incident.objects.get().state == IncidentState.AWAITING_DECISION
    assert not Event.objects.exists()


@pytest.mark.django_db
def test_a_lost_race_leaves_the_callers_transaction_usable() -> None:
    incident = make_incident()
    Incident.objects.update(state=IncidentState.WATCHING)
    with transaction.atomic():
        with pytest.raises(LostRace):
            advance(incident, IncidentState.ACTING, now=NOW, why=WHY)
        assert Incident.objects.get().state == IncidentState.WATCHING
