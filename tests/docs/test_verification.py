from __future__ import annotations

import re

from recovery.core.plans import RULES
from recovery.core.speech import duration
from recovery.core.types import ActionKind, Outcome
from recovery.core.verify import deadlines
from recovery.core.words import OUTCOME_WORDS
from recovery.pipeline.verify import SUBMITTED_ANEW
from tests.docs.pages import read, tables

PAGE = read("docs/verification.md")


def test_the_deadlines_are_those_of_the_code() -> None:
    _, rows, _ = tables(PAGE)
    call, restore, first_step, checkpoint = rows
    usual, longer = sorted({rules.time_s / 60 for rules in RULES.values()})
    assert call["without history"] == f"{usual:g} min (a resubmission {longer:g})"
    assert RULES[ActionKind.RESUBMIT].time_s == longer * 60
    assert (call["at least"], call["at most"]) == ("the same", duration(deadlines.CALL_CEILING_S))
    assert {row["at least"] for row in rows[1:]} == {f"{deadlines.FLOOR_S:g} s"}
    assert restore["at most"] == first_step["at most"] == duration(deadlines.START_CEILING_S)
    assert checkpoint["at most"] == duration(deadlines.CHECKPOINT_CEILING_S)
    assert checkpoint["without history"] == duration(deadlines.CHECKPOINT_UNKNOWN_S)


def test_every_outcome_that_asks_for_something_is_told() -> None:
    *_, rows = tables(PAGE)
    told = {row["outcome"] for row in rows}
    assert told == {"restarted from scratch", "restored older", "no progress", "no checkpoint", "same failure"}
    assert {name.replace(" ", "_") for name in told} <= set(Outcome)
    assert len({OUTCOME_WORDS[Outcome(name.replace(" ", "_"))].label for name in told}) == len(told)


def test_the_time_for_a_new_job_is_that_of_the_code() -> None:
    assert SUBMITTED_ANEW.total_seconds() == 300
    assert re.search(r"waits five minutes for another job", PAGE)
