"""Upkeep may be killed before and after any of its statements: the next pass ends where an undisturbed one does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.models import Model

from recovery.models import MinuteRollup, RollupDue, Sample, Signal, TenMinuteRollup, Upkeep
from recovery.pipeline import upkeep
from recovery.pipeline.samples import store_samples
from tests.factories import make_attempt, make_signal

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
LATER = timedelta(hours=1)  # every lease of a dead worker has run out
KEPT: tuple[type[Model], ...] = (Sample, MinuteRollup, TenMinuteRollup, RollupDue, Signal, Session)
WRITES = ("INSERT", "UPDATE", "DELETE")


class Killed(BaseException):
    """The process dies here: what is not committed is gone."""


class Points:
    """Counts the moments before and after each statement that writes, and dies at one of them."""

    def __init__(self, die_at: int | None = None) -> None:
        self.passed, self.die_at = 0, die_at

    def here(self) -> None:
        if self.passed == self.die_at:
            raise Killed
        self.passed += 1

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.lstrip().startswith(WRITES):
            return execute(sql, params, many, context)
        self.here()
        result = execute(sql, params, many, context)
        self.here()
        return result


def furnish() -> None:
    """Samples to be rolled up, and some of each kind that is too old."""
    attempt = make_attempt()
    old = NOON - (settings.KEEP_SAMPLES_DAYS + 2) * DAY
    moments = [at + step * MINUTE / 2 for at in (NOON, old) for step in range(1, 30)]
    store_samples([Sample(attempt=attempt, step=step, at=at, loss=2.0) for step, at in enumerate(moments)])
    ended = NOON - (settings.KEEP_FAILURE_LINES_DAYS + 1) * DAY
    make_signal(attempt=make_attempt(closed_at=ended, ended_at=ended))
    for model, days in ((MinuteRollup, settings.KEEP_MINUTES_DAYS), (TenMinuteRollup, settings.KEEP_TEN_MINUTES_DAYS)):
        at = NOON - (days + 1) * DAY
        model.objects.create(attempt=attempt, rank=-1, at=at, last_at=at, step=1, samples=1)
    Session.objects.create(session_key="old", session_data="", expire_date=NOON - DAY)


def one_pass(now: datetime) -> None:
    for pk in upkeep.due(now):
        upkeep.keep(pk, clock=lambda: now)


def stored() -> dict[str, list[dict[str, Any]]]:
    return {model.__name__: list(model._default_manager.order_by("pk").values()) for model in KEPT}


def killed_at(point: int | None) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """How many points a pass has that dies at one of them, and what is stored after the next ones. Nothing stays."""
    with transaction.atomic():
        furnish()
        points = Points(point)
        with connection.execute_wrapper(points):
            try:
                one_pass(NOON + LATER)
            except Killed:
                assert point is not None
                transaction.set_rollback(False)  # what was committed by itself stays: the next process finds it
        for number in (2, 3):
            one_pass(NOON + number * LATER)
        assert Upkeep.objects.get().error == ""
        found = stored()
        transaction.set_rollback(True)
    return points.passed, found


def _values(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[list[Any]]]:
    """Without the keys, which count on."""
    keys = ("id", "pk", "attempt_id", "job_id")
    return {
        name: [[value for key, value in row.items() if key not in keys] for row in rows] for name, rows in found.items()
    }


@pytest.mark.django_db
def test_killed_at_any_point_the_next_pass_ends_where_an_undisturbed_one_does() -> None:
    count, whole = killed_at(None)
    assert (len(whole["MinuteRollup"]) > 0, whole["RollupDue"], whole["Signal"], whole["Session"]) == (True, [], [], [])
    assert all(row["at"] >= NOON for row in whole["Sample"])
    assert count > 20
    for point in range(count):
        assert _values(killed_at(point)[1]) == _values(whole), f"killed at point {point} of {count}"
