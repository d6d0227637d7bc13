"""A question that waits for a decision, complete enough to be decided; and the text of a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client

from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState
from recovery.models import Attempt, Incident, Recommendation
from recovery.pipeline.recommend import shown_hash
from tests.factories import (
    make_attempt,
    make_checkpoint,
    make_cluster,
    make_incident,
    make_job,
    make_recommendation,
    make_run,
)

HTMX = {"HX-Request": "true"}


def text_of(response: Any) -> str:
    return str(response.content.decode())


@dataclass(frozen=True, kw_only=True)
class Question:
    """An incident whose recommendation waits for a decision, with the hash that binds."""

    incident: Incident
    recommendation: Recommendation

    @property
    def page(self) -> str:
        return f"/incidents/{self.incident.pk}/"

    @property
    def approve(self) -> str:
        return f"/recommendations/{self.recommendation.pk}/approve/"

    @property
    def reject(self) -> str:
        return f"/recommendations/{self.recommendation.pk}/reject/"

    @property
    def state(self) -> str:
        return Incident.objects.get(pk=self.incident.pk).state


def make_question(**fields: Any) -> Question:
    """Fields go to the incident. The hash is of the facts as they are."""
    run = make_run(cluster=fields.pop("cluster", None) or make_cluster())
    attempt = make_attempt(job=make_job(run=run, state=JobState.FAILED), state=JobState.FAILED)
    incident = make_incident(attempt=attempt, state=IncidentState.AWAITING_DECISION, **fields)
    make_checkpoint(run=run, step=840)
    recommendation = make_recommendation(incident=incident)
    recommendation.hash = shown_hash(recommendation, Attempt.objects.get(pk=attempt.pk))
    recommendation.save()
    return Question(incident=incident, recommendation=recommendation)


@pytest.fixture
def question(db: None) -> Question:
    return make_question()


@pytest.fixture
def as_viewer(clients: dict[str, Client]) -> Client:
    return clients["viewer"]


@pytest.fixture
def as_approver(clients: dict[str, Client]) -> Client:
    return clients["approver"]


@pytest.fixture
def as_admin(clients: dict[str, Client]) -> Client:
    return clients["admin"]


@pytest.fixture
def read(as_viewer: Client) -> Callable[[str], str]:
    """The text of a page as a viewer sees it; it must be there."""

    def get(path: str) -> str:
        response = as_viewer.get(path)
        assert response.status_code == 200, f"{path}: {response.status_code}"
        return text_of(response)

    return get
