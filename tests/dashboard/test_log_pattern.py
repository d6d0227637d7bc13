"""A site's own log pattern: tried on a sample before it counts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client

from recovery.core.policy import DEFAULT_RULES
from recovery.models import PolicyVersion
from tests.dashboard.conftest import text_of
from tests.dashboard.test_policies import form as table
from tests.factories import make_policy

pytestmark = pytest.mark.django_db

PAGE = "/policies/log-pattern/"
PATTERN = r"\[upd\] (?P<step>\d+) loss=(?P<loss>\S+)"
SAMPLE = "[rank0]: [upd] 7 loss=2.5\r\nloading data\r\n<b>[upd]</b> x\r\n"


def form(**changes: str) -> dict[str, str]:
    return {"pattern": PATTERN, "sample": SAMPLE, "base": "0", "reason": "our trainer", **changes}


def test_a_pattern_is_tried_and_nothing_is_saved(as_admin: Client) -> None:
    page = text_of(as_admin.post(PAGE, form() | {"try": "1"}))
    assert "1 of 3 lines" in page
    assert '<td class="num" data-label="step">7</td>' in page
    assert '<td class="num" data-label="loss">2.5</td>' in page
    assert "<b>[upd]" not in page
    assert not PolicyVersion.objects.exists()


def test_a_pattern_that_reads_the_sample_becomes_part_of_the_policy(as_admin: Client) -> None:
    assert as_admin.post(PAGE, form()).status_code == 302
    version = PolicyVersion.objects.get()
    assert (version.rules, version.reason) == ({**DEFAULT_RULES, "log_pattern": PATTERN}, "our trainer")
    assert "[upd" in text_of(as_admin.get("/policies/"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sample": "loading data"}, "No line of the sample matches."),
        ({"sample": ""}, "Paste some lines of a log"),
        ({"pattern": "(a|b)"}, "is not allowed here"),
        ({"pattern": "upd x"}, "The group step is missing"),
        ({"reason": " "}, "reason"),
        ({"base": "7"}, "was saved while you edited"),
    ],
)
def test_an_untried_or_wrong_pattern_is_not_saved_and_what_was_typed_stays(
    as_admin: Client, changes: dict[str, str], why: str
) -> None:
    response = as_admin.post(PAGE, form(**changes))
    assert response.status_code == 422
    assert why in text_of(response)
    assert "our trainer" in text_of(response) or "reason" in changes
    assert not PolicyVersion.objects.exists()


def test_an_empty_pattern_takes_the_old_one_away(as_admin: Client) -> None:
    make_policy(rules={**DEFAULT_RULES, "log_pattern": PATTERN})
    assert as_admin.post(PAGE, form(pattern="", sample="", base="1")).status_code == 302
    assert "log_pattern" not in PolicyVersion.objects.get(number=2).rules


def test_as_json_a_new_pattern_is_refused_as_it_can_not_be_tried_there(as_admin: Client) -> None:
    make_policy(rules={**DEFAULT_RULES, "log_pattern": PATTERN})
    body = {"base": "1", "reason": "why not"}
    changed = {**DEFAULT_RULES, "log_pattern": r"other (?P<step>\d+)"}
    assert "tried on a sample first" in text_of(
        as_admin.post("/policies/advanced/", {**body, "rules": json.dumps(changed)})
    )
    same = {**DEFAULT_RULES, "log_pattern": PATTERN, "default": {"mode": "approve"}}
    assert as_admin.post("/policies/advanced/", {**body, "rules": json.dumps(same)}).status_code == 302


def test_the_table_keeps_the_pattern(as_admin: Client) -> None:
    make_policy(rules={**DEFAULT_RULES, "log_pattern": PATTERN})

    assert as_admin.post("/policies/edit/", table(base="1", mode_numerics="approve")).status_code == 302
    assert PolicyVersion.objects.get(number=2).rules["log_pattern"] == PATTERN


def test_only_who_may_change_the_policy_may_try(as_viewer: Client, read: Callable[[str], str]) -> None:
    assert as_viewer.get(PAGE).status_code == 403
    assert "log-pattern" not in read("/policies/")
