"""Who is told of what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recovery.core.notices import (
    KIND_OF_EVENT,
    SEVERITY,
    TITLES,
    About,
    NoticeKind,
    Severity,
    channels_for,
    retry_after,
)
from recovery.core.policy import DEFAULT_RULES, Traits, check_rules
from recovery.core.policy.check import SEVERITIES
from recovery.core.types import FailureClass

EVERY = ("pager", "chat")
SUNDAY_NIGHT = datetime(2026, 1, 11, 23, 0, tzinfo=UTC)


def told(
    kind: NoticeKind, *routes: dict[str, Any], failure_class: FailureClass | None = FailureClass.GPU_HARDWARE
) -> list[str]:
    rules = {**DEFAULT_RULES, "notify": list(routes)} if routes else DEFAULT_RULES
    assert check_rules(rules) == []
    about = About(
        kind=kind, traits=Traits(cluster="alpha", account="vision"), failure_class=failure_class, confidence=0.9,
        at=SUNDAY_NIGHT,
    )  # fmt: skip
    return channels_for(rules, about, every=EVERY)


def test_every_kind_has_its_severity_and_title_and_the_policy_knows_the_severities() -> None:
    assert set(SEVERITY) == set(TITLES) == set(NoticeKind)
    assert tuple(Severity) == SEVERITIES
    assert set(KIND_OF_EVENT.values()) | {NoticeKind.CHECKPOINT_IN_DANGER, NoticeKind.TEST} == set(NoticeKind)


@pytest.mark.parametrize("kind", list(NoticeKind))
def test_without_routes_only_what_needs_a_person_is_told(kind: NoticeKind) -> None:
    needs = SEVERITY[kind] in (Severity.DECISION, Severity.URGENT)
    assert told(kind) == (list(EVERY) if needs else [])


@pytest.mark.parametrize(
    ("route", "matches"),
    [
        ({}, True),
        ({"severity": "urgent"}, False),
        ({"severity": "info"}, True),
        ({"classes": ["node_fault"]}, False),
        ({"classes": ["gpu_hardware"]}, True),
        ({"match": {"accounts": ["vis*"]}}, True),
        ({"match": {"clusters": ["beta"]}}, False),
        ({"match": {"hours": {"days": ["mon", "tue"], "from": "08:00", "to": "18:00"}}}, False),
    ],
)
def test_a_route_matches_by_severity_class_job_and_hours(route: dict[str, Any], matches: bool) -> None:
    assert told(NoticeKind.DECISION_NEEDED, {"to": ["chat"], **route}) == (["chat"] if matches else [])


def test_several_routes_tell_each_channel_once_and_unknown_ones_never() -> None:
    assert told(NoticeKind.ESCALATED, {"to": ["chat", "gone"]}, {"to": ["pager", "chat"]}) == ["chat", "pager"]
    assert told(NoticeKind.ESCALATED, {"to": ["chat"], "severity": "urgent"}) == ["chat"]


def test_what_is_about_no_case_goes_by_routes_for_every_class() -> None:
    stopped = NoticeKind.AUTOMATION_STOPPED
    assert told(stopped, {"to": ["chat"], "classes": ["unknown"]}, failure_class=None) == []
    assert told(stopped, {"to": ["chat"]}, failure_class=None) == ["chat"]


def test_no_routes_at_all_is_silence() -> None:
    about = About(kind=NoticeKind.ESCALATED, traits=Traits(), failure_class=None, confidence=1.0, at=SUNDAY_NIGHT)
    assert channels_for({**DEFAULT_RULES, "notify": []}, about, every=EVERY) == []


def test_a_message_is_tried_for_a_day_less_and_less_often() -> None:
    waits: list[timedelta] = []
    while (wait := retry_after(len(waits) + 1)) is not None:
        waits.append(wait)
    assert waits == sorted(waits)
    assert timedelta(hours=12) < sum(waits, timedelta(0)) < timedelta(hours=24)
