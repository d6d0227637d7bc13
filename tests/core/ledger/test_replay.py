"""Phases from stored marks are those that were seen as the log was read."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.ledger import replay_phases, unseen_since
from recovery.core.phases import next_phase
from recovery.core.types import Phase, Signal, SignalKind
from tests.core.ledger.stories import at, minutes

K = SignalKind
MARKS = [
    (3, K.LOADED), (5, K.PROGRESS), (6, K.PROGRESS), (8, K.PROGRESS), (8, K.SAVE_STARTED), (9, K.SAVE_DURABLE),
    (10, K.PROGRESS), (15, K.FINISHED),
]  # fmt: skip


def replayed(marks: list[tuple[int, SignalKind]], ended: int | None = 20) -> list[tuple[str, float, float | None]]:
    spans = replay_phases(
        10, started_at=at(0), ended_at=None if ended is None else at(ended), marks=[(at(m), kind) for m, kind in marks]
    )
    return [(str(s.phase), minutes(s.start), None if s.end is None else minutes(s.end)) for s in spans]


def test_the_phases_of_a_whole_attempt() -> None:
    assert replayed(MARKS) == [
        ("starting", 0, 3),
        ("first_step", 3, 5),
        ("training", 5, 8),
        ("saving", 8, 9),
        ("training", 9, 15),
        ("finishing", 15, 20),
    ]


def test_the_last_phase_of_a_running_attempt_is_open() -> None:
    assert replayed(MARKS[:2], ended=None)[-1] == ("training", 5, None)
    assert replayed([], ended=None) == [("starting", 0, None)]


def test_order_and_repetition_of_marks_change_nothing() -> None:
    assert replayed([*MARKS[::-1], *MARKS]) == replayed(MARKS)


def test_marks_beyond_the_attempt_count_at_its_edge() -> None:
    assert replayed([(-4, K.PROGRESS), (30, K.FINISHED)]) == [("training", 0, 20)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 19), st.sampled_from(SignalKind)), max_size=12, unique_by=lambda mark: mark[0])
)
def test_at_every_moment_the_phase_is_the_one_that_reading_the_log_gave(marks: list[tuple[int, SignalKind]]) -> None:
    spans = replayed(marks)
    assert spans[0][1] == 0
    assert all(a[2] == b[1] for a, b in pairwise(spans))
    phase = Phase.STARTING
    for minute in range(20):
        for _, kind in (mark for mark in marks if mark[0] == minute):
            phase = next_phase(phase, Signal(kind=kind, file="", line=0, offset=0, text="", rule=""))
        (name,) = [name for name, start, end in spans if start <= minute and (end is None or minute < end)]
        assert name == phase


def test_what_cannot_be_observed_is_in_no_known_phase_from_then_on() -> None:
    spans = replay_phases(10, started_at=at(0), ended_at=None, marks=[(at(3), K.LOADED), (at(5), K.PROGRESS)])
    assert [(s.phase, s.start, s.end) for s in unseen_since(spans, at(9))[-2:]] == [
        (Phase.TRAINING, at(5), at(9)),
        (Phase.UNKNOWN, at(9), None),
    ]
    assert [s.phase for s in unseen_since(spans, at(5))] == [Phase.STARTING, Phase.FIRST_STEP, Phase.UNKNOWN]


def test_the_phases_of_an_attempt_that_ended_stay_as_they_were_read() -> None:
    spans = replay_phases(10, started_at=at(0), ended_at=at(20), marks=[(at(5), K.PROGRESS)])
    assert unseen_since(spans, at(9)) == spans
