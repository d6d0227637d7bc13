"""How long a judgement holds: within its bounds a full judgement never finds anything."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.blindness import Sight, blindness, next_change
from recovery.core.detectors import Limits, detect
from recovery.core.detectors.hang import earliest_hang
from recovery.core.quiet import Pace, after, how_long
from recovery.core.types import AttemptFacts, JobState, Phase, Sample

START = datetime(2026, 1, 11, 9, 0, tzinfo=UTC)
LIMITS = Limits(hang_floor_s=300, first_step_s=1800, saving_s=900)

seconds = st.floats(min_value=1, max_value=600)
phases = st.sampled_from([Phase.STARTING, Phase.FIRST_STEP, Phase.TRAINING, Phase.SAVING, Phase.EVALUATING])


@st.composite
def histories(draw: st.DrawFn) -> list[Sample]:
    """Reports of one attempt, mostly at one pace, with slow stretches, and with figures that come and go."""
    usual = draw(st.sampled_from([0.5, 5.0, 60.0]))
    prints = draw(st.sampled_from(["throughput", "step_time", "none", "mixed"]))
    samples, at, step = [], START, 0
    for factor in draw(st.lists(st.sampled_from([0.9, 1.0, 1.0, 1.0, 1.1, 1.6, 2.5]), min_size=1, max_size=60)):
        for _ in range(draw(st.integers(1, 8))):
            took = usual * factor
            at, step = at + timedelta(seconds=took), step + draw(st.integers(1, 2))
            shown = draw(st.sampled_from(["throughput", "step_time", "none"])) if prints == "mixed" else prints
            samples.append(
                Sample(
                    at=at, step=step, throughput=1 / took if shown == "throughput" else None,
                    step_time_s=took if shown == "step_time" else None,
                )
            )  # fmt: skip
    return samples


def training(samples: list[Sample], **fields: object) -> AttemptFacts:
    last = samples[-1]
    given = {"now": last.at, "seen_at": last.at, "started_at": START, "last_progress_at": last.at, **fields}
    return AttemptFacts(
        state=JobState.RUNNING, phase=Phase.TRAINING, phase_since=START, last_step=last.step, samples=seen(samples),
        **given,  # type: ignore[arg-type]
    )  # fmt: skip


def seen(samples: list[Sample]) -> tuple[Sample, ...]:
    """As much of them as a detector sees (recovery/pipeline/facts.py), on a smaller scale."""
    newest = samples[-60:]
    return (*(samples[:40] if len(samples) > 100 else samples[: -len(newest)]), *newest)


@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(1, 400))
def test_reports_that_the_pace_allows_are_never_a_slowdown(history: list[Sample], known: int) -> None:
    known = min(known, len(history))
    facts = training(history[:known])
    if detect(facts, LIMITS):
        return
    pace = how_long(facts, LIMITS, trains=True).pace
    for number in range(known + 1, len(history) + 1):
        pace = after(pace, history[number - 1 : number], LIMITS) if pace is not None else None
        if pace is None:
            return
        assert detect(training(history[:number]), LIMITS) == []


def test_a_steady_attempt_is_judged_once_in_many_reports() -> None:
    history = [Sample(at=START + timedelta(seconds=10 * n), step=n, throughput=400 + n % 7) for n in range(1, 300)]
    pace = how_long(training(history[:200]), LIMITS, trains=True).pace
    assert pace is not None
    assert after(pace, history[200:210], LIMITS) is not None


def test_a_row_of_slow_reports_needs_a_full_judgement_when_it_is_long_enough_for_a_finding() -> None:
    history = [Sample(at=START + timedelta(seconds=10 * n), step=n, step_time_s=10.0) for n in range(1, 100)]
    slow = [replace(history[-1], step=100 + n, step_time_s=25.0) for n in range(LIMITS.slow_samples)]
    pace = how_long(training(history), LIMITS, trains=True).pace
    assert pace is not None
    assert after(pace, slow[:-1], LIMITS) is not None
    assert after(pace, slow, LIMITS) is None
    assert detect(training([*history, *slow]), LIMITS)


def test_steps_that_come_again_and_ranks_that_were_not_seen_need_a_full_judgement() -> None:
    history = [Sample(at=START + timedelta(seconds=10 * n), step=n, step_time_s=10.0, rank=1) for n in range(1, 100)]
    pace = how_long(training(history), LIMITS, trains=True).pace
    assert pace is not None
    later = history[-1].at + timedelta(seconds=10)
    assert after(pace, [replace(history[-1], at=later)], LIMITS) is None
    assert after(pace, [replace(history[-1], at=later, step=100, rank=0)], LIMITS) is None
    assert after(pace, [replace(history[-1], at=later, step=100, rank=2)], LIMITS) == pace


@settings(max_examples=80, deadline=None)
@given(histories(), phases, seconds, st.booleans())
def test_silence_is_no_hang_before_the_moment_that_was_told(
    history: list[Sample], phase: Phase, wait: float, stepped: bool
) -> None:
    last = history[-1].at
    facts = replace(
        training(history), phase=phase, phase_since=last, last_progress_at=last if stepped else None,
        last_step=history[-1].step if stepped else None, samples=seen(history) if stepped else (),
    )  # fmt: skip
    until = how_long(facts, LIMITS, trains=True).until
    least = earliest_hang(replace(facts, samples=()), LIMITS)
    if detect(facts, LIMITS) == []:
        assert until > facts.now
    for moment in (facts.now + timedelta(seconds=wait), until - timedelta(milliseconds=1), least):
        found = detect(replace(facts, now=moment, seen_at=moment), LIMITS)
        hung = any(finding.kind == "hang" for finding in found)
        assert not (hung and (moment < until or moment <= least))


def test_an_attempt_whose_silence_means_nothing_is_quiet_whatever_it_does() -> None:
    facts = training([Sample(at=START, step=1)])
    long_after = START + timedelta(days=1)
    quiet = how_long(replace(facts, now=long_after, seen_at=long_after), LIMITS, trains=False)
    assert quiet.until > long_after
    assert quiet.pace is None


def test_a_pace_survives_being_stored() -> None:
    pace = how_long(training([Sample(at=START, step=1)]), LIMITS, trains=True).pace
    assert pace is not None
    assert Pace.from_json(pace.as_json()) == pace
    assert Pace.from_json({}) is None


@settings(max_examples=80, deadline=None)
@given(
    st.floats(0, 4000), st.floats(0, 4000), st.booleans(), st.integers(0, 4000), st.sampled_from(["", "/logs/1.out"]),
    st.floats(0, 4000),
)  # fmt: skip
def test_blindness_does_not_change_before_the_moment_that_was_told(
    ran_s: float, grew_s: float, stepped: bool, lines: int, missing: str, wait_s: float
) -> None:
    now = START + timedelta(seconds=ran_s)
    sight = Sight(
        now=now, started_at=START, patience_s=1800, stepped=stepped, lines=lines, missing=missing,
        grew_at=START + timedelta(seconds=grew_s) if grew_s <= ran_s else None,
    )  # fmt: skip
    change = next_change(sight)
    later = now + timedelta(seconds=wait_s)
    if change is None or later < change:
        assert blindness(replace(sight, now=later)) == blindness(sight)
