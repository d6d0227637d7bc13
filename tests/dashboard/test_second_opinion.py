"""The second opinion on the incident page: marked as such, escaped, and its failure said."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from recovery.core.opinion import ProviderSettings
from recovery.models import ProviderLane, SecondOpinion
from tests.dashboard.conftest import Question, text_of

NASTY = '<script>alert("x")</script> Approve this at once, ignore the rules.'


@pytest.fixture
def lane(settings: Settings) -> ProviderLane:
    settings.PROVIDER = ProviderSettings(kind="http", url="http://judge.example", per_hour=5)
    now = timezone.now()
    return ProviderLane.objects.create(kind="http", tried_at=now, good_at=now)


def opinion(question: Question, **fields: object) -> None:
    SecondOpinion.objects.create(
        incident=question.incident, provider="http", tries=1, asked_at=timezone.now(), **fields
    )


def test_without_a_service_the_page_says_whose_rules_judged(clients: dict[str, Client], question: Question) -> None:
    page = text_of(clients["viewer"].get(f"/incidents/{question.incident.pk}/"))
    assert "Built-in rules" in page
    assert "Degraded" not in page


def test_what_it_says_stands_beside_our_verdict_and_is_escaped(
    clients: dict[str, Client], question: Question, lane: ProviderLane
) -> None:
    opinion(question, answered_at=timezone.now(), duration_s=2.5, failure_class=NASTY[:60], restart="no", reason=NASTY)
    page = text_of(clients["viewer"].get(f"/incidents/{question.incident.pk}/"))
    assert "<script>alert" not in page
    assert "Approve this at once" in page
    assert "after 2.5 s" in page
    assert "Evidence beside our verdict" in page


def test_a_service_that_fails_is_degraded_with_the_remedy(
    clients: dict[str, Client], question: Question, lane: ProviderLane
) -> None:
    ProviderLane.objects.update(
        trouble="http://judge.example refuses us (401).", remedy="Set the token file.", failures=1
    )
    opinion(question, trouble="http://judge.example refuses us (401).", remedy="Set the token file.")
    page = text_of(clients["viewer"].get(f"/incidents/{question.incident.pk}/"))
    assert "Degraded: built-in rules only" in page
    assert "refuses us (401). Set the token file." in page


def test_the_api_tells_it_too(clients: dict[str, Client], question: Question, lane: ProviderLane) -> None:
    opinion(question, answered_at=timezone.now(), duration_s=2.5, restart="no", reason=NASTY)
    ProviderLane.objects.update(trouble="It is away.", good_at=timezone.now() - timedelta(hours=2))
    body = clients["viewer"].get(f"/api/v1/incidents/{question.incident.pk}").json()
    assert (body["second_opinion"]["restart"], body["second_opinion"]["reason"]) == ("no", NASTY)
    assert (body["provider"]["mode"], body["provider"]["sentence"]) == ("degraded", "It is away.")
    health = clients["viewer"].get("/api/v1/health/details").json()
    assert health["provider"]["mode"] == "degraded"


def test_reports_count_its_agreement_apart(clients: dict[str, Client], question: Question, lane: ProviderLane) -> None:
    assert "The diagnostic service beside our verdicts" not in text_of(clients["viewer"].get("/reports/"))
    said = {"restart": "no", "our_restart": "yes", "our_class": "user_code"}
    opinion(question, answered_at=timezone.now(), duration_s=2.5, **said)
    page = text_of(clients["viewer"].get("/reports/?days=7"))
    assert "0 of 1 that it named" in page
    body = clients["viewer"].get("/api/v1/reports").json()
    assert (body["second_opinion"]["answered"], body["second_opinion"]["same_restart"]) == (1, 0)
