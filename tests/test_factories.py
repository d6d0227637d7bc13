from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client

from recovery.core.lifecycle import IncidentState
from tests import factories

ALL = [getattr(factories, name) for name in factories.__all__ if name not in ("ago", "make_token", "make_samples")]

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_each_factory_stores_a_row_that_its_model_accepts(make: Callable[[], Any]) -> None:
    row = make()
    assert isinstance(row, Model)
    row.full_clean()


@pytest.mark.parametrize("state", IncidentState)
def test_an_incident_can_be_made_in_every_state(state: IncidentState) -> None:
    incident = factories.make_incident(state=state)
    incident.full_clean()
    moments = [incident.detected_at, incident.recommended_at, incident.decided_at, incident.acted_at]
    passed = [moment for moment in moments if moment]
    assert passed == sorted(passed)
    assert (incident.closed_at is not None) == (state == IncidentState.CLOSED)


def test_samples_end_where_they_are_told_to() -> None:
    end = factories.ago(60)
    samples = factories.make_samples(count=5, first_step=10, every_s=2, last_at=end)
    assert [sample.step for sample in samples] == [10, 11, 12, 13, 14]
    assert samples[-1].at == end
    assert (samples[-1].at - samples[0].at).total_seconds() == 8


def test_the_actors_have_a_client_each(clients: dict[str, Client]) -> None:
    assert set(clients) == {"anonymous", "viewer", "operator", "approver", "admin", "outsider"}
