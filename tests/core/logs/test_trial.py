from __future__ import annotations

from recovery.core.logs.trial import MOST_CHARS, MOST_LINES, NO_MATCH, NO_SAMPLE, try_pattern
from tests.core.logs.lines import megatron

PATTERN = r"upd (?P<step>\d+) l=(?P<loss>\S+)"


def test_a_trial_says_what_is_read_from_each_line_and_what_is_known_without_the_pattern() -> None:
    trial = try_pattern(PATTERN, f"3: upd 7 l=2.5\nnothing\n{megatron(5)}\n")
    assert [(line.own, line.progress and (line.progress.step, line.progress.loss)) for line in trial.lines] == [
        (True, (7, 2.5)),
        (False, None),
        (False, (5, 2.61)),
    ]
    assert (trial.matches, trial.problem) == (1, "")


def test_a_trial_says_why_a_pattern_must_not_be_used() -> None:
    assert try_pattern(PATTERN, "step 7").problem == NO_MATCH
    assert try_pattern(PATTERN, " \r\n").problem == NO_SAMPLE
    assert "is not allowed here" in try_pattern("(a|b)", "step 7").problem


def test_a_trial_is_bounded() -> None:
    trial = try_pattern(PATTERN, "upd 7 l=1\n" * MOST_CHARS)
    assert len(trial.lines) == MOST_LINES
