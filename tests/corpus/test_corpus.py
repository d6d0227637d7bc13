"""The verdicts on our labelled cases.

The cases are invented after public facts and were written beside the rules, so a perfect score proves only that nothing
has got worse; a site's own past is the honest measure. Hence the bounds: what must never happen is held at zero, while
classes may be argued about in a few cases without stopping the build.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from recovery.core.types import FailureClass
from recovery.evaluation import Score, cases_below, evaluate
from tests.core.attempts import LIMITS

CORPUS = Path(__file__).parent
LEAST_ACCURACY = 0.97  # at most three of a hundred cases may be under dispute


@pytest.fixture(scope="module")
def score() -> Score:
    return evaluate(CORPUS, LIMITS)


def test_no_case_is_restarted_wrongfully(score: Score) -> None:
    assert score.wrongful_restarts == []


def test_no_case_loses_a_node_wrongfully(score: Score) -> None:
    assert score.wrongful_exclusions == []


def test_classes_and_verdicts_are_right(score: Score) -> None:
    figures = score.as_json()
    assert min(figures[f"{kind}_accuracy"] for kind in ("class", "restart", "exclude")) >= LEAST_ACCURACY, score.wrong


def test_every_failure_class_has_a_case() -> None:
    seen = Counter(case.expected.classes[0] for case in cases_below(CORPUS))
    assert set(seen) == set(FailureClass)


def test_every_case_says_what_it_is_about() -> None:
    titles = Counter(case.title for case in cases_below(CORPUS))
    assert all(titles)
    assert max(titles.values()) == 1
