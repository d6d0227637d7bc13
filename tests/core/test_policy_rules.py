"""Rules that match on the job, budgets, limits, freezes, shadow, and rules that are never reached."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.policy import (
    DEFAULT_RULES,
    Acted,
    OnExpiry,
    Question,
    Ruling,
    Traits,
    check_rules,
    deciding_rule,
    frozen_by,
    reach,
    rule_on,
    unreachable,
)
from recovery.core.types import ActionKind, FailureClass, Mode, PastFailure
from tests.core.attempts import at, past
from tests.core.test_policy import CALM, FAULT, REQUEUE

C = FailureClass
JOB = Traits(
    cluster="alpha", partition="train", account="vision", user="mira", qos="normal", job_name="llama-70b",
    labels={"team": "vision"}, gpus=64, nodes=8,
)  # fmt: skip
MONDAY_NOON = datetime(2026, 1, 12, 12, 0, tzinfo=UTC)


def document(*rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    made = [{"name": f"rule {n}", "classes": "*", "mode": "auto", **rule} for n, rule in enumerate(rules)]
    whole = {**DEFAULT_RULES, "rules": made, **fields}
    assert check_rules(whole) == []
    return whole


def ruling(rules: dict[str, Any], **changes: Any) -> Ruling:
    given_: dict[str, Any] = {
        "diagnosis": FAULT, "proposal": REQUEUE, "comment_mode": None, "comment_max_restarts": None, "history": (),
        "load": CALM, "failed_step": 400, "now": at(1000), "traits": JOB,
    }  # fmt: skip
    return rule_on(rules, **{**given_, **changes})


# --- what a rule matches ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("match", "why_not"),
    [
        ({"clusters": ["alpha"]}, ""),
        ({"clusters": ["beta", "gamma*"]}, "the cluster is alpha, not beta or gamma*"),
        ({"partitions": ["tr*"]}, ""),
        ({"partitions": ["debug"]}, "the partition is train, not debug"),
        ({"accounts": ["nlp"]}, "the account is vision, not nlp"),
        ({"users": ["noor"]}, "the user is mira, not noor"),
        ({"qos": ["high"]}, "the QOS is normal, not high"),
        ({"job_names": ["llama-*"]}, ""),
        ({"job_names": ["gpt-*"]}, "the job name is llama-70b, not gpt-*"),
        ({"partitions": []}, ""),
        ({"gpus": {"min": 64}}, ""),
        ({"gpus": {"min": 65}}, "it has 64 GPUs, fewer than 65"),
        ({"nodes": {"max": 7}}, "it has 8 nodes, more than 7"),
        ({"confidence": {"min": 0.98}}, "the confidence is 0.97, less than 0.98"),
        ({"hours": {"days": ["tue"]}}, "it is not tue 00:00 to 24:00 UTC"),
        ({"partitions": ["debug"], "users": ["noor"]}, "the partition is train, not debug"),
    ],
)
def test_a_rule_is_passed_over_for_a_reason(match: dict[str, Any], why_not: str) -> None:
    question = Question(traits=JOB, failure_class=C.GPU_HARDWARE, confidence=0.97, at=MONDAY_NOON)
    rule, passed = deciding_rule(document({"match": match}, {"name": "rest"}), question)
    assert rule["name"] == ("rest" if why_not else "rule 0")
    assert [each.why for each in passed] == ([why_not] if why_not else [])


@pytest.mark.parametrize(
    ("hours", "moment", "within"),
    [
        ({"from": "08:00", "to": "18:00"}, "2026-01-12T08:00:00Z", True),
        ({"from": "08:00", "to": "18:00"}, "2026-01-12T18:00:00Z", False),
        ({"from": "18:00", "to": "08:00"}, "2026-01-12T07:59:00Z", True),
        ({"from": "18:00", "to": "08:00"}, "2026-01-12T12:00:00Z", False),
        ({"days": ["fri"], "from": "18:00", "to": "08:00"}, "2026-01-17T07:00:00Z", True),  # Saturday: Friday's night
        ({"days": ["fri"], "from": "18:00", "to": "08:00"}, "2026-01-16T07:00:00Z", False),  # Friday: Thursday's
        ({"from": "08:00", "to": "09:00", "timezone": "Asia/Tokyo"}, "2026-01-12T23:30:00Z", True),
        ({"days": ["tue"], "timezone": "Asia/Tokyo"}, "2026-01-12T23:30:00Z", True),
        ({"from": "22:00", "to": "24:00"}, "2026-01-12T23:59:59Z", True),
    ],
)
def test_hours_are_those_of_the_place(hours: dict[str, Any], moment: str, within: bool) -> None:
    question = Question(traits=JOB, failure_class=C.UNKNOWN, confidence=1.0,
                        at=datetime.fromisoformat(moment))  # fmt: skip
    rule, _ = deciding_rule(document({"match": {"hours": hours}}), question)
    assert ("name" in rule) is within


def test_labels_of_the_comment_lower_and_never_raise() -> None:
    more = document({"name": "theirs", "match": {"labels": {"team": "vis*"}}}, default={"mode": "approve"})
    assert (ruling(more).mode, ruling(more).rule) == (Mode.APPROVE, "default")
    less = document({"name": "theirs", "match": {"labels": {"team": "vis*"}}, "mode": "observe"}, {"name": "all"})
    assert (ruling(less).mode, ruling(less).rule) == (Mode.OBSERVE, "theirs")
    assert ruling(less, traits=replace(JOB, labels={})).rule == "all"
    same = document(
        {"name": "theirs", "match": {"labels": {"team": "*"}}, "mode": "approve"},
        {"name": "all", "mode": "approve", "approval": {"count": 2}},
    )
    assert ruling(same).approval.count == 2


# --- what lowers auto ------------------------------------------------------------------------------------------------
def test_an_action_that_the_rule_does_not_name_is_asked_for() -> None:
    got = ruling(document({"actions": ["requeue"]}))
    assert got.mode is Mode.APPROVE
    assert "the rule lets requeue go by itself, not requeue excluding" in got.reason
    assert "lets nothing go" in ruling(document({"actions": []})).reason
    assert ruling(document({"actions": ["requeue_excluding"]})).mode is Mode.AUTO


def test_a_class_has_a_budget_of_its_own_within_its_window() -> None:
    rules = document({"budget": {"per_class": 1, "window_s": 3600}})
    before = replace(past(C.GPU_HARDWARE, step=100), at=at(0), checkpoint_since=True)
    got = ruling(rules, history=[before])
    assert got.mode is Mode.APPROVE
    assert "1 restarts for gpu_hardware within 3600 s" in got.reason
    assert ruling(rules, history=[replace(before, failure_class=C.NODE_FAULT)]).mode is Mode.AUTO
    assert ruling(rules, history=[before], now=at(0) + timedelta(hours=2)).mode is Mode.AUTO


def test_restarts_of_one_run_keep_a_distance_that_grows_until_a_new_checkpoint() -> None:
    rules = document({"budget": {"backoff_s": 600}, "max_restarts": 9})

    def ready(*failures: PastFailure) -> datetime | None:
        got = ruling(rules, history=failures)
        assert got.mode is Mode.AUTO
        return got.not_before

    one, two = (replace(past(C.NODE_FAULT, step=n), at=at(900 + n)) for n in (10, 20))
    assert ready() is None
    assert ready(one) == at(910) + timedelta(seconds=600)
    assert ready(one, two) == at(920) + timedelta(seconds=1200)
    assert ready(replace(one, checkpoint_since=True), two) == at(920) + timedelta(seconds=600)
    assert "not before" in ruling(rules, history=[one]).reason
    assert ruling(rules, history=[one], now=at(910) + timedelta(seconds=600)).not_before is None
    longer = replace(REQUEUE, action=ActionKind.EXTEND_TIME_LIMIT, exclude_nodes=())
    assert ruling(rules, history=[one], proposal=longer).not_before is None


@pytest.mark.parametrize(
    ("limits", "load", "words"),
    [
        ({"max_nodes": 0}, CALM, "1 nodes would be excluded at once, the rule allows 0"),
        ({"max_actions": 1}, replace(CALM, acted=(Acted(at=at(900), rule="rule 0", interrupted=False),)),
         "the rule has acted 1 times within 3600 s, 1 are allowed"),
        ({"max_interrupted": 1}, replace(CALM, interrupts=True,
                                         acted=(Acted(at=at(900), rule="rule 0", interrupted=True),)),
         "the rule has ended 1 running jobs within 3600 s, 1 are allowed"),
    ],
)  # fmt: skip
def test_a_rule_has_limits_of_its_own(limits: dict[str, int], load: Any, words: str) -> None:
    got = ruling(document({"limits": limits}), load=load)
    assert got.mode is Mode.APPROVE
    assert words in got.reason
    other = replace(load, acted=tuple(replace(acted, rule="another") for acted in load.acted))
    if load.acted:
        assert ruling(document({"limits": limits}), load=other).mode is Mode.AUTO
        assert ruling(document({"limits": limits}), load=load, now=at(900) + timedelta(hours=1)).mode is Mode.AUTO


def test_a_job_that_is_down_already_is_not_interrupted() -> None:
    ended = replace(CALM, acted=(Acted(at=at(900), rule="rule 0", interrupted=True),))
    assert ruling(document({"limits": {"max_interrupted": 0}}), load=ended).mode is Mode.AUTO


def test_in_a_freeze_nothing_goes_by_itself() -> None:
    end = at(2000)
    freeze = {"name": "year's end", "from": at(0).isoformat(), "to": end.isoformat(), "clusters": ["al*"]}
    rules = document({}, freezes=[freeze])
    got = ruling(rules)
    assert got.mode is Mode.APPROVE
    assert got.freeze is not None
    assert got.freeze.override == "admin"
    assert "year's end is a freeze until" in got.reason
    assert ruling(rules, now=end).mode is Mode.AUTO
    assert ruling(rules, traits=replace(JOB, cluster="beta")).mode is Mode.AUTO


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_freezes_the_one_that_takes_the_most_to_override_holds(order: int) -> None:
    """Whoever may override a lesser one does not override the other with it."""
    span = {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    freezes = [
        {"name": "quiet weeks", "override": "approver", **span},
        {"name": "launch", "override": "admin", "from": span["from"], "to": "2099-01-01T00:00:00Z"},
        {"name": "elsewhere", "override": "admin", "clusters": ["beta"], **span},
        {"name": "long launch", "override": "admin", **span},
    ][::order]
    assert check_rules({**DEFAULT_RULES, "freezes": freezes}) == []
    held = frozen_by({**DEFAULT_RULES, "freezes": freezes}, cluster="alpha", now=datetime(2026, 1, 1, tzinfo=UTC))
    assert held is not None
    assert held.name == "long launch"
    assert frozen_by({**DEFAULT_RULES}, cluster="alpha", now=datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_a_rule_in_shadow_asks_and_says_what_it_would_have_done() -> None:
    got = ruling(document({"shadow": True}))
    assert (got.mode, got.shadow) == (Mode.APPROVE, True)
    assert "it would go by itself now" in got.reason
    paused = ruling(document({"shadow": True}), load=replace(CALM, paused=True))
    assert (paused.mode, paused.shadow) == (Mode.APPROVE, False)


def test_a_rule_says_what_an_approval_takes_and_when_it_runs_out() -> None:
    rules = document({
        "mode": "approve", "approval": {"count": 2, "role": "admin", "four_eyes": True, "comment": True, "owner": True},
        "expires_after_s": 600, "on_expiry": "ask_again", "escalate": {"after_s": 300, "to": ["pager"]},
    })  # fmt: skip
    got = ruling(rules)
    assert (got.approval.count, got.approval.role, got.approval.four_eyes) == (2, "admin", True)
    assert (got.expires_after, got.on_expiry) == (timedelta(minutes=10), OnExpiry.ASK_AGAIN)
    assert got.escalate is not None
    assert (got.escalate.after, got.escalate.to) == (timedelta(minutes=5), ("pager",))
    plain = ruling(document({"mode": "approve"}))
    assert (plain.approval.count, plain.expires_after, plain.escalate) == (1, timedelta(hours=12), None)


# --- checking --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"match": {"clusters": "alpha"}}, "rules[0].match.clusters: must be a list of names; * stands for anything."),
        ({"match": {"gpus": {"min": 9, "max": 8}}}, "rules[0].match.gpus: min is more than max"),
        ({"match": {"gpus": {}}}, "rules[0].match.gpus: must have min, max or both."),
        ({"match": {"gpus": 8}}, "rules[0].match.gpus: must be an object with min and max."),
        (
            {"match": {"labels": {"team": 3}}},
            "rules[0].match.labels.team: must be a text of 1 to 200 printable signs.",
        ),
        ({"match": {"hours": {"from": "8 pm"}}}, 'rules[0].match.hours.from: must be a time of day, like "08:30".'),
        ({"match": {"hours": {"timezone": "Mars/Base"}}}, "rules[0].match.hours.timezone: must be the name of a time"),
        ({"match": {"hours": {"days": []}}}, "rules[0].match.hours.days: must be a list of days"),
        ({"approval": {"role": "viewer"}}, "rules[0].approval.role: must be one of approver, policy_admin, admin."),
        ({"approval": {"count": 0}}, "rules[0].approval.count: must be a whole number from 1 to 10."),
        ({"actions": ["explode"]}, "rules[0].actions[0]: must be one of requeue, "),
        ({"escalate": {"after_s": 60}}, "rules[0].escalate.to: is missing; add it."),
        ({"promote": {"agreement": 2}}, "rules[0].promote.agreement: must be a number from 0.5 to 1."),
        ({"on_expiry": "restart"}, "rules[0].on_expiry: must be one of watch, ask_again."),
        ({"shadow": "yes"}, "rules[0].shadow: must be true or false."),
    ],
)
def test_what_is_wrong_in_a_rule_is_named(rule: dict[str, Any], message: str) -> None:
    rules = {**DEFAULT_RULES, "rules": [{"name": "a", "classes": "*", "mode": "auto", **rule}]}
    assert [error for error in check_rules(rules) if error.startswith(message)], check_rules(rules)


@pytest.mark.parametrize(
    ("freeze", "message"),
    [
        ({"from": "2026-12-23"}, 'freezes[0].from: must be a moment with its zone, like "2026-12-23T18:00:00Z".'),
        ({"to": "2026-12-01T00:00:00Z"}, "freezes[0].to: must be later than from."),
        ({"override": "viewer"}, "freezes[0].override: must be one of approver, policy_admin, admin."),
    ],
)
def test_what_is_wrong_in_a_freeze_is_named(freeze: dict[str, Any], message: str) -> None:
    whole = {"name": "f", "from": "2026-12-02T00:00:00Z", "to": "2026-12-03T00:00:00Z", **freeze}
    assert message in check_rules({**DEFAULT_RULES, "freezes": [whole]})


# --- rules that are never reached ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("first", "second", "reached"),
    [
        ({}, {}, False),
        ({"classes": ["gpu_oom"]}, {}, True),
        ({}, {"classes": ["gpu_oom"], "match": {"users": ["mira"]}}, False),
        ({"match": {"users": ["m*"]}}, {"match": {"users": ["mira"]}}, False),
        ({"match": {"users": ["mira"]}}, {"match": {"users": ["m*"]}}, True),
        ({"match": {"users": ["mira"]}}, {}, True),
        ({"match": {"gpus": {"min": 8}}}, {"match": {"gpus": {"min": 16, "max": 32}}}, False),
        ({"match": {"gpus": {"min": 8}}}, {"match": {"gpus": {"max": 32}}}, True),
        ({"match": {"hours": {"from": "08:00"}}}, {"match": {"hours": {"from": "08:00"}}}, False),
        ({"match": {"hours": {"from": "08:00"}}}, {}, True),
        ({"match": {"labels": {"team": "*"}}}, {"match": {"labels": {"team": "*"}}}, True),
    ],
)
def test_a_rule_that_is_never_reached_is_found(first: dict[str, Any], second: dict[str, Any], reached: bool) -> None:
    found = list(unreachable(document(first, second)))
    assert [index for index, _ in found] == ([] if reached else [1])
    if not reached:
        assert found[0][1].startswith("rule 1 is never reached: rule 0 decides before it")


def test_several_rules_that_take_all_classes_together_are_named() -> None:
    rules = document({"classes": ["gpu_oom"]}, {"classes": ["host_oom"]}, {"classes": ["host_oom", "gpu_oom"]})
    ((index, why),) = unreachable(rules)
    assert index == 2
    assert "rule 1 and rule 0 decides" in why


def test_looking_for_rules_that_are_never_reached_ends_soon_whatever_the_document_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0

    def compare(name: str, pattern: str) -> bool:
        nonlocal compared
        compared += 1
        assert compared <= reach.MOST_COMPARED
        return False

    monkeypatch.setattr(reach, "fnmatchcase", compare)
    names = [[f"u{rule}-{each}" for each in range(200)] for rule in range(60)]
    rules = document(*({"match": {"users": [*own, "x*", "y*", "z*"]}} for own in names[:30]),
                     *({"match": {"users": own}} for own in names[30:]))  # fmt: skip
    assert list(unreachable(rules)) == []
    assert compared > reach.MOST_COMPARED / 2


@pytest.mark.parametrize("text", ["a\x00b", "a\nb", "\ud800", "\u202etsixe", "\u200b", "a\u2028b"])
@pytest.mark.parametrize("field", ["name", "users", "label", "freeze", "log_pattern"])
def test_what_can_not_be_shown_as_it_is_is_refused(field: str, text: str) -> None:
    """A NUL, say, which one database keeps and the other refuses; or a sign that makes a name read as another."""
    of_rules: dict[str, dict[str, Any]] = {
        "name": {"name": text},
        "users": {"match": {"users": [text]}},
        "label": {"match": {"labels": {"team": text}}},
    }
    of_document: dict[str, dict[str, Any]] = {
        "freeze": {"freezes": [{"name": text, "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}]},
        "log_pattern": {"log_pattern": f"^step={text} (?P<step>\\d+)"},
    }
    rules = [{"name": "rule 0", "classes": "*", "mode": "auto", **of_rules.get(field, {})}]
    more = of_document.get(field, {})
    assert any("printable" in error for error in check_rules({**DEFAULT_RULES, "rules": rules, **more}))


def test_classes_beyond_those_that_there_are_are_not_each_explained() -> None:
    """Looking for what was meant takes its time for each."""
    rule = {"name": "rule 0", "mode": "auto", "classes": [f"gpu_hardwar{n}" for n in range(1000)]}
    (error,) = check_rules({**DEFAULT_RULES, "rules": [rule]})
    assert error.startswith('rules[0].classes: must be "*" or a list of failure classes')


def test_a_document_of_too_many_values_is_not_looked_through() -> None:
    wide: Any = ["a"] * 40_000
    deep: Any = {}
    for _ in range(20_000):
        deep = {"a": deep}
    for value in (wide, deep):
        (error,) = check_rules({**DEFAULT_RULES, "rules": value})
        assert error == "The policy holds more than 30000 values; make it smaller."


_NAMES = st.lists(st.sampled_from(["a", "ab", "a*", "*", "b?"]), min_size=0, max_size=2)
_MATCHES = st.fixed_dictionaries(
    {},
    optional={
        "users": _NAMES,
        "partitions": _NAMES,
        "gpus": st.fixed_dictionaries({"min": st.integers(0, 5)}, optional={"max": st.integers(5, 9)}),
    },
)


@given(
    matches=st.lists(_MATCHES, min_size=2, max_size=4),
    classes=st.lists(st.sampled_from(["*", ["gpu_oom"], ["gpu_oom", "unknown"]]), min_size=4, max_size=4),
    user=st.sampled_from(["a", "ab", "bx", "c"]),
    partition=st.sampled_from(["a", "ab", "bx"]),
    gpus=st.integers(0, 10),
    failure_class=st.sampled_from([C.GPU_OOM, C.UNKNOWN, C.NUMERICS]),
)
def test_what_is_said_to_be_never_reached_never_decides(
    matches: list[dict[str, Any]], classes: list[Any], user: str, partition: str, gpus: int, failure_class: FailureClass
) -> None:
    rules = document(*({"match": match, "classes": each} for match, each in zip(matches, classes, strict=False)))
    question = Question(
        traits=Traits(user=user, partition=partition, gpus=gpus), failure_class=failure_class, confidence=1.0, at=at(0)
    )
    never = {rules["rules"][index]["name"] for index, _ in unreachable(rules)}
    assert deciding_rule(rules, question)[0].get("name") not in never
