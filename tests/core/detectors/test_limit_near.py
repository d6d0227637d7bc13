"""Work that a time limit would take is seen before, where the run's rhythm is known."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recovery.core.detectors import Limits
from recovery.core.detectors.limit_near import detect_limit_near
from recovery.core.quiet import SAFETY, after_reports, how_long
from recovery.core.types import AttemptFacts, FindingKind, JobState

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LIMITS = Limits(hang_floor_s=300, first_step_s=900, saving_s=900)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


# Half an hour is left; it saved ten minutes ago, and saves every hour.
FACTS = AttemptFacts(
    now=NOW, seen_at=NOW, state=JobState.RUNNING, started_at=NOW - minutes(210), time_limit_s=4 * 3600.0,
    last_progress_at=NOW, last_step=100, saved_at=NOW - minutes(10), save_every_s=3600.0,
)  # fmt: skip


def test_a_checkpoint_that_is_due_after_the_limit_is_told_with_what_would_be_lost() -> None:
    found = detect_limit_near(FACTS, LIMITS)
    assert found is not None
    assert (found.kind, found.since) == (FindingKind.LIMIT_NEAR, NOW)
    assert found.reason == (
        "The time limit ends the job at 12:30 UTC, and its next checkpoint is due at 12:50 UTC: "
        "40 m of work since the last one would be lost."
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"save_every_s": 2000.0},  # it comes in time
        {"save_every_s": None},
        {"saved_at": None, "save_every_s": None},
        {"saved_at": NOW + minutes(20)},  # ten minutes would be lost: not worth a person's time
        {"time_limit_s": None},
        {"time_limit_s": 7 * 3600.0, "save_every_s": 5 * 3600.0},  # the limit is far
        {"time_limit_s": 3 * 3600.0},  # it is over already
        {"state": JobState.FAILED},
        {"blind_reason": "its log can't be read"},
        {"seen_at": NOW - minutes(2)},
        {"last_progress_at": None},
    ],
)
def test_what_says_that_there_is_nothing_to_tell(fields: dict[str, Any]) -> None:
    assert detect_limit_near(replace(FACTS, **fields), LIMITS) is None


def test_a_save_that_is_late_is_due_now() -> None:
    late = replace(FACTS, saved_at=NOW - minutes(90))
    assert detect_limit_near(late, LIMITS) is None
    assert detect_limit_near(replace(late, now=NOW + minutes(31), seen_at=NOW + minutes(31)), LIMITS) is None


def test_a_judgement_is_made_anew_as_the_limit_comes_near_however_many_reports_come() -> None:
    far = replace(FACTS, now=NOW - minutes(93), seen_at=NOW - minutes(93), last_progress_at=NOW - minutes(93))
    quiet = how_long(far, LIMITS, trains=True)
    assert quiet.until == NOW - minutes(88)  # five minutes later, within two hours of the limit
    reported = replace(far, now=far.now + minutes(1), last_progress_at=far.now + minutes(1))
    assert after_reports(reported, LIMITS, quiet.until) == quiet.until
    assert how_long(replace(FACTS, time_limit_s=None), LIMITS, trains=True).until > NOW + minutes(5)
    assert minutes(5) < SAFETY
