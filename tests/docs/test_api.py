"""The curl commands of the page are sent to the real API."""

from __future__ import annotations

import json
import shlex
from string import Template
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from recovery.core.lifecycle import IncidentState
from tests.docs import pages
from tests.factories import make_cluster, make_incident, make_recommendation

PAGE = pages.read("docs/api.md")
COMMANDS = [line for block in pages.blocks(PAGE) for line in block.text.splitlines() if line.startswith("curl")]


def send(command: str, client: Client) -> Any:
    """What curl would send, sent by Django's test client."""
    words = iter(shlex.split(command)[1:])
    method, headers, body, url = "GET", {}, "", ""
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(words)
        elif word != "-s":
            url = word
    assert url.startswith("https://desk.example.org/")
    content_type = headers.pop("Content-Type", "application/json")
    return client.generic(
        method, url.removeprefix("https://desk.example.org"), body, content_type=content_type, headers=headers
    )


@pytest.mark.django_db
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_is_answered(command: str, approver: User, capsys: pytest.CaptureFixture[str]) -> None:
    incident = make_incident(state=IncidentState.AWAITING_DECISION)
    recommendation = make_recommendation(incident=incident)
    call_command("make_token", "approver", "--name", "night shift", "--scope", "view", "--scope", "decide")
    values = {
        "TOKEN": capsys.readouterr().out.strip(),
        "ID": recommendation.pk,
        "HASH": recommendation.hash,
        "INCIDENT": incident.pk,
        "RUN": incident.run_id,
    }
    answer = send(Template(command).substitute(values), Client())
    assert answer.status_code == 200, answer.content


@pytest.mark.django_db
def test_without_its_token_a_command_is_refused() -> None:
    command = next(command for command in COMMANDS if "/me" in command)
    assert send(command.replace('-H "Authorization: Bearer $TOKEN" ', ""), Client()).status_code == 401


@pytest.mark.django_db
def test_a_decision_on_something_else_has_the_shape_of_the_page(
    approver: User, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = next(block for block in pages.blocks(PAGE) if block.language == "json")
    recommendation = make_recommendation(incident=make_incident(state=IncidentState.AWAITING_DECISION))
    call_command("make_token", "approver", "--name", "x", "--scope", "decide")
    answer = Client().post(
        f"/api/v1/recommendations/{recommendation.pk}/approve",
        {"hash": "0" * 64},
        content_type="application/json",
        headers={"Authorization": f"Bearer {capsys.readouterr().out.strip()}"},
    )
    assert answer.status_code == 409
    assert answer.json().keys() == json.loads(shown.text).keys()
    assert answer.json()["error"]["code"] == json.loads(shown.text)["error"]["code"]


@pytest.mark.django_db
def test_a_token_gives_no_more_than_its_owner_may(viewer: User) -> None:
    with pytest.raises(CommandError, match="may not make and revoke API tokens"):
        call_command("make_token", "viewer", "--name", "x")


@pytest.mark.django_db
def test_lists_have_the_shape_of_the_page(approver: User, capsys: pytest.CaptureFixture[str]) -> None:
    make_cluster()
    call_command("make_token", "approver", "--name", "x")
    headers = {"Authorization": f"Bearer {capsys.readouterr().out.strip()}"}
    answer = Client().get("/api/v1/clusters", headers=headers)
    assert set(answer.json()) == {"count", "next", "previous", "results"}
