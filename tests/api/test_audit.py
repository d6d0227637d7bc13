from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from recovery import audit
from recovery.access import SYSTEM, actor_for
from recovery.models import Event
from tests.factories import make_action, make_incident

NOW = timezone.now()


def record(**fields: Any) -> Event:
    defaults: dict[str, Any] = {"actor": SYSTEM, "at": NOW, "subject_kind": "cluster", "subject_id": 7}
    return audit.record("cluster.paused", **{**defaults, **fields})


@pytest.mark.django_db
def test_an_event_says_who_did_what_to_what_and_why(admin: User) -> None:
    record(actor=actor_for(admin), old="armed", new="paused", reason="storage maintenance", window="2 h")
    event = Event.objects.get()
    assert (event.at, event.verb, event.actor_kind, event.actor_name) == (NOW, "cluster.paused", "user", "admin")
    assert (event.subject_kind, event.subject_id, event.incident_id) == ("cluster", "7", None)
    assert (event.old, event.new, event.reason) == ("armed", "paused", "storage maintenance")
    assert event.data == {"window": "2 h"}


@pytest.mark.django_db
def test_the_name_stays_when_the_account_goes(admin: User) -> None:
    record(actor=actor_for(admin))
    admin.delete()
    assert Event.objects.get().actor_name == "admin"


@pytest.mark.django_db
def test_the_product_acts_under_its_own_name() -> None:
    record()
    assert (Event.objects.get().actor_kind, Event.objects.get().actor_name) == ("system", "Recovery Desk")


@pytest.mark.django_db
def test_a_long_reason_is_cut_and_not_lost() -> None:
    record(reason="x" * 600)
    assert Event.objects.get().reason == "x" * 500


@pytest.mark.django_db
def test_what_happens_to_an_incident_and_to_its_action_stands_in_one_trail() -> None:
    action = make_action()
    audit.record_incident(action.incident, "incident.acting", actor=SYSTEM, at=NOW, old="recommended", new="acting")
    audit.record_action(action, "action.called", actor=SYSTEM, at=NOW, command="scontrol requeue 4711")
    first, second = Event.objects.filter(incident_id=action.incident_id)
    assert (first.subject_kind, first.subject_id) == ("incident", str(action.incident_id))
    assert (second.subject_kind, second.subject_id) == ("action", str(action.pk))
    assert second.data == {"command": "scontrol requeue 4711"}


@pytest.mark.django_db
def test_events_outlive_what_they_tell_of() -> None:
    incident = make_incident()
    audit.record_incident(incident, "incident.detected", actor=SYSTEM, at=NOW)
    pk = incident.pk
    incident.run.cluster.delete()
    assert Event.objects.get().incident_id == pk


@pytest.mark.django_db(transaction=True)
def test_an_event_without_a_transaction_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"cluster\.paused was to be recorded outside a transaction"):
        record()
    assert not Event.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_event_goes_with_the_change_that_is_rolled_back() -> None:
    with transaction.atomic():
        record()
        transaction.set_rollback(True)
    assert not Event.objects.exists()
