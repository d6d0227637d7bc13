"""The phases of a run's newest attempt on its page."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from recovery.core.types import JobState, Phase, SignalKind
from recovery.models import Attempt, AttemptTrace, Sample, Signal
from recovery.selectors.phase_reads import attempt_phases
from tests.factories import ago, make_attempt, make_job, make_run

pytestmark = pytest.mark.django_db


def started(**fields: object) -> Attempt:
    job = make_job(run=make_run(), state=JobState.RUNNING)
    return make_attempt(
        job=job, state=JobState.RUNNING, started_at=ago(1000), ended_at=None, **{"read_at": ago(1), **fields}
    )


def say(attempt: Attempt, kind: SignalKind, seconds: float) -> None:
    place = {"file": "/l", "line": 1, "offset": int(seconds * 10), "text": "x", "rule": f"x.{kind}"}
    Signal.objects.create(attempt=attempt, kind=kind, at=ago(seconds), **place)


def step(attempt: Attempt, number: int, seconds: float) -> None:
    Sample.objects.create(attempt=attempt, step=number, at=ago(seconds), rank=-1)


def test_every_phase_of_an_attempt_is_told_again_from_what_is_stored(read: Callable[[str], str]) -> None:
    attempt = started()
    say(attempt, SignalKind.LOADED, 900)
    step(attempt, 1, 700)
    say(attempt, SignalKind.SAVE_STARTED, 500)
    say(attempt, SignalKind.SAVE_DURABLE, 400)
    step(attempt, 2, 390)
    say(attempt, SignalKind.EVAL_STARTED, 300)
    say(attempt, SignalKind.EVAL_FINISHED, 200)
    phases = attempt_phases(attempt, now=ago(0))
    names = [span.phase for span in phases.spans]
    assert names == [
        Phase.STARTING, Phase.FIRST_STEP, Phase.TRAINING, Phase.SAVING, Phase.TRAINING, Phase.EVALUATING,
        Phase.TRAINING,
    ]  # fmt: skip
    seconds = {phase: (round(lasted), count) for phase, lasted, count in phases.seconds}
    assert seconds[Phase.FIRST_STEP] == (200, 1)
    assert seconds[Phase.TRAINING] == (500, 3)
    page = re.sub(r"\s+", " ", read(f"/runs/{attempt.job.run_id}/"))
    assert "Phases of the newest attempt" in page
    assert "in 3 times" in page


def test_what_was_kept_before_the_first_report_hides_none() -> None:
    """The ledger keeps a trace within the first minute, when no rank has reported yet."""
    attempt = started()
    AttemptTrace.objects.create(attempt=attempt)
    step(attempt, 1, 700)
    assert [span.phase for span in attempt_phases(attempt, now=ago(0)).spans] == [Phase.STARTING, Phase.TRAINING]


def test_the_phases_of_an_attempt_that_was_never_read_are_unknown() -> None:
    phases = attempt_phases(started(read_at=None), now=ago(0))
    assert [span.phase for span in phases.spans] == [Phase.UNKNOWN]


def test_an_attempt_that_waits_has_none_yet() -> None:
    assert attempt_phases(make_attempt(started_at=None), now=ago(0)).spans == ()


def test_only_the_last_are_listed_and_all_are_counted() -> None:
    attempt = started()
    for number in range(30):
        say(attempt, SignalKind.SAVE_STARTED, 900 - number * 10)
        step(attempt, number, 899 - number * 10)
    phases = attempt_phases(attempt, now=ago(0))
    assert len(phases.newest) == 20
    assert phases.earlier == len(phases.spans) - 20
    assert phases.newest[0][1] is None
