"""What 22.05's accounting calls REQUEUED, told apart; rows made by hand after real ones."""

from __future__ import annotations

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import AttemptRecord
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.sacct import COLUMNS, DELIMITER, attempts_by_job

SUBMIT, BEFORE, END = "2026-11-29T20:00:00", "2026-11-29T20:05:00", "2026-11-29T20:06:00"


def row(name: str, state: str, *, exit_text: str = "0:0", end: str = END, index: int = 1, submit: str = SUBMIT) -> str:
    fields = (str(index), name, state, submit, submit, end, exit_text, "n[1-2]")
    assert len(fields) == len(COLUMNS)
    return DELIMITER.join(fields)


def attempt(*rows: str) -> AttemptRecord:
    (found,) = attempts_by_job("\n".join(rows) + "\n", ["12"])["12"]
    return found


def test_failed_and_then_requeued_has_failed_when_its_batch_step_ended() -> None:
    found = attempt(row("12", "REQUEUED", exit_text="7:0"), row("12.batch", "FAILED", exit_text="7:0", end=BEFORE))
    assert (found.state, found.exit_code) == (JobState.FAILED, 7)
    assert found.ended_at is not None
    assert found.ended_at.minute == 5


def test_failed_and_requeued_within_the_same_second_has_failed() -> None:
    assert attempt(row("12", "REQUEUED", exit_text="7:0"), row("12.batch", "FAILED")).state is JobState.FAILED


def test_completed_and_then_requeued_has_completed() -> None:
    assert attempt(row("12", "REQUEUED"), row("12.batch", "COMPLETED", end=BEFORE)).state is JobState.COMPLETED


@pytest.mark.parametrize("batch", ["CANCELLED", "COMPLETED", "FAILED"])
def test_put_back_while_it_ran_was_requeued_whatever_its_script_made_of_the_signal(batch: str) -> None:
    found = attempt(row("12", "REQUEUED"), row("12.batch", batch, exit_text="15:0"))
    assert (found.state, found.exit_code) == (JobState.REQUEUED, 0)


def test_without_a_batch_step_it_was_requeued() -> None:
    assert attempt(row("12", "REQUEUED", exit_text="7:0")).state is JobState.REQUEUED


def test_a_step_belongs_to_the_attempt_of_its_row_and_only_numbered_ones_count() -> None:
    later = "2026-11-29T21:00:00"
    rows = [
        row("12", "FAILED", exit_text="1:0", index=1),
        row("12.batch", "FAILED", exit_text="1:0", index=1),
        row("12.extern", "COMPLETED", index=1),
        row("12.0", "FAILED", exit_text="3:0", index=1),
        row("12", "RUNNING", index=2, submit=later, end="Unknown"),
        row("12.0", "CANCELLED", exit_text="0:9", index=2, submit=later),
        row("12.1", "RUNNING", index=2, submit=later, end="Unknown"),
    ]
    first, second = attempts_by_job("\n".join(reversed(rows)), ["12"])["12"]
    assert (first.number, first.step_exit_codes) == (0, (3,))
    assert (second.number, second.step_exit_codes, second.exit_code) == (1, (128 + 9,), None)


def test_an_unknown_state_is_unknown() -> None:
    assert attempt(row("12", "SOMETHING_NEW")).state is JobState.UNKNOWN


def test_an_uid_without_an_account_stays_a_number() -> None:
    assert attempt(row("12", "CANCELLED by 3999999999")).cancelled_by == "3999999999"


def test_an_attempt_without_a_submit_time_can_not_be_placed() -> None:
    with pytest.raises(BadAnswer, match="submit time"):
        attempt(row("12", "FAILED", submit="Unknown"))
