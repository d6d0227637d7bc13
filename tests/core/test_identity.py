"""Slurm reuses job ids and overwrites submit times: which execution does a record speak of?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from recovery.core.identity import Fingerprint, Identity, identify

KNOWN = Fingerprint(submitted_at=datetime(2026, 1, 1, tzinfo=UTC), restart_count=1, user="ada", name="llama")
LATER = KNOWN.submitted_at + timedelta(hours=1)


def test_an_unseen_id_is_a_new_job() -> None:
    assert identify(None, KNOWN) is Identity.NEW_JOB


def test_the_same_submission_is_the_same_attempt() -> None:
    assert identify(KNOWN, KNOWN) is Identity.SAME_ATTEMPT


def test_a_requeue_is_a_new_attempt_of_the_same_job() -> None:
    assert identify(KNOWN, replace(KNOWN, submitted_at=LATER, restart_count=2)) is Identity.NEW_ATTEMPT


def test_a_restart_counted_while_the_old_execution_completes_is_not_yet_a_new_attempt() -> None:
    assert identify(KNOWN, replace(KNOWN, restart_count=2), completing=True) is Identity.REQUEUING


def test_a_requeue_whose_submit_time_never_moved_is_a_new_attempt() -> None:
    assert identify(KNOWN, replace(KNOWN, restart_count=2)) is Identity.NEW_ATTEMPT


def test_several_requeues_between_two_polls_are_still_the_same_job() -> None:
    assert identify(KNOWN, replace(KNOWN, submitted_at=LATER, restart_count=4)) is Identity.NEW_ATTEMPT


@pytest.mark.parametrize(
    "seen",
    [
        replace(KNOWN, submitted_at=LATER, restart_count=0),
        replace(KNOWN, submitted_at=LATER, restart_count=1),
        replace(KNOWN, submitted_at=LATER, restart_count=2, user="bob"),
        replace(KNOWN, submitted_at=LATER, restart_count=2, name="other"),
    ],
)
def test_a_reused_job_id_is_a_new_job(seen: Fingerprint) -> None:
    assert identify(KNOWN, seen) is Identity.NEW_JOB


def test_a_record_older_than_what_is_known_is_ignored() -> None:
    seen = replace(KNOWN, submitted_at=KNOWN.submitted_at - timedelta(seconds=1))
    assert identify(KNOWN, seen) is Identity.OLD_NEWS


@pytest.mark.parametrize("unique_ids", [("", ""), ("s1", "s2")])
def test_a_requeue_after_the_controllers_clock_was_put_back_is_a_new_attempt(unique_ids: tuple[str, str]) -> None:
    known, seen = (replace(KNOWN, unique_id=unique_id) for unique_id in unique_ids)
    seen = replace(seen, submitted_at=KNOWN.submitted_at - timedelta(hours=1), restart_count=2)
    assert identify(known, seen) is Identity.NEW_ATTEMPT
    assert identify(known, replace(seen, user="bob")) is Identity.OLD_NEWS


def test_a_restart_count_that_goes_backwards_is_old_news() -> None:
    assert identify(KNOWN, replace(KNOWN, restart_count=0)) is Identity.OLD_NEWS


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (replace(KNOWN, unique_id="s1", name="renamed"), Identity.SAME_ATTEMPT),
        (replace(KNOWN, unique_id="s1", name="renamed", submitted_at=LATER, restart_count=2), Identity.NEW_ATTEMPT),
        (replace(KNOWN, unique_id="s2"), Identity.NEW_JOB),
        (replace(KNOWN, unique_id="s2", submitted_at=LATER), Identity.NEW_JOB),
        (replace(KNOWN, unique_id="s2", submitted_at=LATER, restart_count=2, user="bob"), Identity.NEW_JOB),
        # As Slurm 26.05 does with every requeue.
        (replace(KNOWN, unique_id="s2", submitted_at=LATER, restart_count=2), Identity.NEW_ATTEMPT),
        (replace(KNOWN, submitted_at=LATER), Identity.NEW_JOB),  # one of the two has none: as before
    ],
)
def test_slurms_own_identity_decides_where_both_have_it(seen: Fingerprint, expected: Identity) -> None:
    assert identify(replace(KNOWN, unique_id="s1"), seen) is expected
