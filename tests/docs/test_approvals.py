"""The page on deciding: its table of reasons is the code's, and its commands are sent to the real API."""

from __future__ import annotations

from string import Template

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from recovery.access import Permission
from recovery.core.lifecycle import IncidentState
from recovery.core.score import NEUTRAL
from recovery.core.types import Rejection
from tests.docs import pages
from tests.docs.test_api import send
from tests.factories import make_incident, make_recommendation, make_token

PAGE = pages.read("docs/approvals.md")
COMMANDS = [line for block in pages.blocks(PAGE) for line in block.text.splitlines() if line.startswith("curl")]


def test_the_table_of_reasons_is_the_short_list() -> None:
    rows = pages.tables(PAGE)[1]
    assert {row["code"].strip("`"): row["counts against the rule"] for row in rows} == {
        str(each): "no" if each in NEUTRAL else "yes" for each in Rejection
    }


@pytest.mark.django_db
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_is_answered(command: str, approver: User) -> None:
    recommendation = make_recommendation(incident=make_incident(state=IncidentState.AWAITING_DECISION))
    snoozed = make_incident(state=IncidentState.AWAITING_DECISION, snoozed_until=timezone.now(), snoozed_by="operator")
    scopes = [Permission.VIEW, Permission.OPERATE, Permission.DECIDE]
    values = {
        "TOKEN": make_token(user=approver, scopes=scopes),
        "ID": recommendation.pk,
        "HASH": recommendation.hash,
        "RUN": recommendation.incident.run_id,
        "SNOOZED": snoozed.pk,
    }
    answer = send(Template(command).substitute(values), Client())
    assert answer.status_code == 200, answer.content
