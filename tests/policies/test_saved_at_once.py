"""A version is made from one that somebody has seen: what another one saved meanwhile is never lost unseen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from recovery import policy_files
from recovery.access import actor_for
from recovery.api import policies as api
from recovery.core.policy import DEFAULT_RULES
from recovery.core.types import DecisionKind, Mode, Outcome
from recovery.models import PolicyVersion
from recovery.pipeline import by_hand, earned
from recovery.pipeline.invalid import Invalid
from tests.api.conftest import with_token
from tests.factories import make_policy, make_token
from tests.pipeline.test_earned import past, write

pytestmark = pytest.mark.django_db
STRICT: dict[str, Any] = {**DEFAULT_RULES, "expires_after_s": 600.0}


def first(real: Callable[..., Any]) -> Callable[..., Any]:
    """`real`, but somebody else saves a version in that moment."""

    def meanwhile(*given: Any, **more: Any) -> Any:
        newest = PolicyVersion.objects.order_by("-number").first()
        if newest is None or newest.reason != "meanwhile":
            rules = {**(newest.rules if newest else DEFAULT_RULES), "expires_after_s": 600.0}
            make_policy(rules=rules, reason="meanwhile", created_at=timezone.now())
        return real(*given, **more)

    return meanwhile


def newest() -> PolicyVersion:
    return PolicyVersion.objects.latest("number")


def test_who_saves_on_top_of_another_version_is_refused(admin: User) -> None:
    actor, now = actor_for(admin), timezone.now()
    by_hand.save_policy(DEFAULT_RULES, base=0, reason="first", actor=actor, now=now)
    with pytest.raises(Invalid, match="Somebody else saved version 1"):
        by_hand.save_policy(STRICT, base=0, reason="late", actor=actor, now=now)
    by_hand.save_policy(STRICT, base=1, reason="seen", actor=actor, now=now)
    assert (newest().number, newest().reason) == (2, "seen")


def test_over_the_api_what_is_saved_while_the_draft_is_read_stays(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    make_policy(rules=DEFAULT_RULES)
    monkeypatch.setattr(api, "_rules_of", first(api._rules_of))
    draft = {"yaml": policy_files.write({**DEFAULT_RULES, "expires_after_s": 900.0}), "reason": "mine", "base": 1}
    answer = with_token(make_token(user=admin)).post("policies/apply", draft)
    assert answer.status == 400
    assert "Somebody else saved version 2" in str(answer.body)
    assert newest().reason == "meanwhile"


def test_by_a_file_what_is_saved_while_it_is_read_stays(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_policy(rules=DEFAULT_RULES)
    file = tmp_path / "policy.yaml"
    file.write_text(policy_files.write({**DEFAULT_RULES, "expires_after_s": 900.0}), encoding="utf-8")
    monkeypatch.setattr(by_hand, "save_policy", first(by_hand.save_policy))
    with pytest.raises(CommandError, match="Somebody else saved version 2"):
        call_command("policy", "apply", str(file), "--reason", "mine", "--base", "1")
    assert newest().reason == "meanwhile"


def test_at_the_page_what_is_saved_in_that_moment_stays(
    admin: User, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_policy(rules=DEFAULT_RULES)
    monkeypatch.setattr(by_hand, "save_policy", first(by_hand.save_policy))
    client.force_login(admin)
    text = policy_files.write({**DEFAULT_RULES, "expires_after_s": 900.0})
    given = {"rules": text, "reason": "mine", "base": "1", "do": "save", "save": "1"}
    assert client.post("/policies/advanced/", given).status_code == 422
    assert newest().reason == "meanwhile"


def test_a_demotion_goes_on_top_of_what_was_saved_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    write(mode="auto")
    past(DecisionKind.AUTO)
    wrong = past(DecisionKind.AUTO, Outcome.FALSE_ALARM)
    monkeypatch.setattr(earned, "with_mode", first(earned.with_mode))
    earned.review(wrong, now=timezone.now())
    made = newest()
    assert (made.number, made.author, made.rules["rules"][0]["mode"]) == (3, "Recovery Desk", Mode.APPROVE)
    assert made.rules["expires_after_s"] == 600.0


def test_a_rule_that_asks_already_by_then_is_not_demoted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    write(mode="auto")
    wrong = past(DecisionKind.AUTO, Outcome.FALSE_ALARM)
    asks = {**newest().rules, "rules": [{**newest().rules["rules"][0], "mode": "approve"}]}

    def meanwhile(*given: Any) -> Any:
        if newest().number == 1:
            make_policy(rules=asks, created_at=timezone.now())
        return with_mode(*given)

    with_mode = earned.with_mode
    monkeypatch.setattr(earned, "with_mode", meanwhile)
    earned.review(wrong, now=timezone.now())
    assert newest().number == 2


def test_a_promotion_is_not_put_on_top_of_what_nobody_looked_at(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    write()
    cases = [past() for _ in range(5)]
    earned.review(cases[-1], now=timezone.now())
    monkeypatch.setattr(earned, "with_mode", first(earned.with_mode))
    with pytest.raises(Invalid, match="Somebody else saved version 2"):
        earned.accept(earned.open_promotions()[0].pk, reason="go", actor=actor_for(admin), now=timezone.now())
    assert newest().rules["rules"][0]["mode"] == "approve"
