from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dashboard.policy_form import table_of
from recovery.core.policy import DEFAULT_RULES
from recovery.models import Event, PolicyVersion
from tests.dashboard.conftest import text_of
from tests.factories import make_policy

pytestmark = pytest.mark.django_db

APPROVE_ALL: dict[str, Any] = {**DEFAULT_RULES, "default": {"mode": "approve"}}


def form(**changes: str) -> dict[str, str]:
    table = table_of(DEFAULT_RULES)
    fields = {f"mode_{row.key}": row.mode for row in table.rows}
    fields |= {row.key: row.value for row in table.limits}
    fields |= {"default_mode": table.default_mode, "expires_min": table.expires_min, "base": "0", "reason": "because"}
    return {**fields, **changes}


def test_without_a_version_the_page_says_that_all_is_only_observed(read: Callable[[str], str]) -> None:
    page = read("/policies/")
    assert "a fresh installation observes everything and does nothing" in page
    assert "A policy administrator or an administrator writes the first one." in page
    assert "/policies/edit/" not in page


def test_everybody_sees_what_holds_and_its_history(read: Callable[[str], str]) -> None:
    make_policy(rules=DEFAULT_RULES, reason="the first")
    make_policy(rules=APPROVE_ALL, reason="ask for all")
    page = read("/policies/")
    assert "Version 2 holds" in page
    assert "the first" in page
    assert "GPU hardware" in page


def test_an_old_version_is_shown_as_it_was_stored(read: Callable[[str], str], as_viewer: Client) -> None:
    make_policy(rules=DEFAULT_RULES)
    make_policy(rules=APPROVE_ALL)
    assert "no longer in force" in read("/policies/1/")
    assert "no longer in force" not in read("/policies/2/")
    assert "max_excluded_percent" in read("/policies/1/")
    assert as_viewer.get("/policies/9/").status_code == 404


def test_saving_the_table_makes_a_new_version_with_its_reason(as_admin: Client) -> None:
    response = as_admin.post("/policies/edit/", form(mode_gpu_hardware="auto", max_gpu_hardware="2"), follow=True)
    assert response.redirect_chain == [("/policies/", 302)]
    assert "Version 1 holds from now on." in text_of(response)
    version = PolicyVersion.objects.get()
    assert (version.author, version.reason) == ("admin", "because")
    assert version.rules["rules"] == [
        {"name": "gpu_hardware", "classes": ["gpu_hardware"], "mode": "auto", "max_restarts": 2}
    ]
    event = Event.objects.get()
    assert (event.verb, event.actor_name, event.reason) == ("policy.saved", "admin", "because")


def test_a_wrong_table_is_not_saved_and_loses_nothing(as_admin: Client) -> None:
    response = as_admin.post("/policies/edit/", form(mode_numerics="approve", max_numerics="lots", reason="my reason"))
    page = text_of(response)
    assert response.status_code == 422
    assert "Numerics: give a whole number from 0 to 100 restarts" in page
    assert 'value="lots"' in page
    assert 'value="my reason"' in page
    assert not PolicyVersion.objects.exists()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [("max_excluded_percent", "150", "breaker.max_excluded_percent"), ("reason", "  ", "reason: say why")],
)
def test_what_the_service_refuses_is_said_beside_what_was_typed(
    field: str, value: str, said: str, as_admin: Client
) -> None:
    response = as_admin.post("/policies/edit/", form(**{field: value}))
    assert response.status_code == 422
    assert said in text_of(response)
    assert not PolicyVersion.objects.exists()


def test_a_version_saved_meanwhile_is_not_overwritten_unseen(as_admin: Client) -> None:
    make_policy(rules=APPROVE_ALL)
    response = as_admin.post("/policies/edit/", form(mode_numerics="auto", base="0"))
    page = text_of(response)
    assert response.status_code == 422
    assert "Version 1 was saved while you edited" in page
    assert 'name="base" value="1"' in page  # seen now: pressing again saves
    assert PolicyVersion.objects.count() == 1
    assert as_admin.post("/policies/edit/", form(mode_numerics="auto", base="1")).status_code == 302


def test_the_whole_document_can_be_written_as_text_and_json_is_read_too(as_admin: Client) -> None:
    fields = {"rules": json.dumps(APPROVE_ALL), "reason": "ask for all", "base": "0"}
    assert as_admin.post("/policies/advanced/", fields).status_code == 302
    assert PolicyVersion.objects.get().rules == APPROVE_ALL


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{broken", "line 1, column 8: this can&#x27;t be read"),
        ("[]", "line 1: The policy must be"),
        ('{"rules": []}', "line 1: default: is missing"),
        ("rules:\n- name: x\n  classes: '*'\n  mode: yolo", "line 4: rules[0].mode: must be one of"),
        ("9" * 5000, "line 1: The policy must be"),
        ("[" * 10_000, "nested too deeply"),
    ],
)
def test_a_wrong_document_is_not_saved_and_loses_nothing(text: str, said: str, as_admin: Client) -> None:
    response = as_admin.post("/policies/advanced/", {"rules": text, "reason": "my reason", "base": "0"})
    page = text_of(response)
    assert response.status_code == 422
    assert said in page
    assert "my reason" in page
    assert text.replace('"', "&quot;").replace("'", "&#x27;") in page
    assert not PolicyVersion.objects.exists()


def test_the_forms_begin_with_what_holds(as_admin: Client) -> None:
    make_policy(rules=APPROVE_ALL)
    assert '<option value="approve" selected>' in text_of(as_admin.get("/policies/edit/"))
    assert "default:\n  mode: approve" in text_of(as_admin.get("/policies/advanced/"))
    assert "Save as version 2" in text_of(as_admin.get("/policies/edit/"))
