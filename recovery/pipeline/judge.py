"""Part of watch: whether an attempt must be judged now, and how long a judgement that found nothing holds.

The bounds themselves are recovery.core.quiet's. What a judgement rests on is kept as a digest: whoever changes an
attempt or its job, the next look sees that it must judge again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b

from django.conf import settings

from recovery.core.detectors import detect
from recovery.core.detectors.hang import is_silent
from recovery.core.diagnose.exits import HELD
from recovery.core.lifecycle import IncidentState
from recovery.core.quiet import ANY, Pace, Quiet, after, after_reports, how_long
from recovery.core.types import AttemptFacts, Finding, FindingKind, JobState, SignalKind
from recovery.models import Attempt, Incident
from recovery.pipeline.detect import detect_attempt, is_training
from recovery.pipeline.facts import brief_facts, limits, near_limit, newest_samples, with_rhythm
from recovery.pipeline.reading import Look
from recovery.pipeline.silence import full_facts

# What a judgement rests on: everything that the scheduler says of attempt and job shows in the first four.
RESTS_ON = (
    "state", "seen_at", "job__record_key", "job__vanished_at", "blind_reason", "phase", "phase_since", "last_step",
    "last_progress_at", "restored_at",
)  # fmt: skip
STANDING = timedelta(minutes=1)  # a finding that was dealt with is judged anew so often
STANDING_REPORTS = 20  # … or after so many more reports of a slow attempt
GO_BACK = frozenset({SignalKind.LOADED, SignalKind.FRESH_START})


def site_digest() -> str:
    """The settings on which every judgement rests."""
    return digest([limits(), settings.LOG_ROOTS, settings.CHECKPOINT_ROOTS], "")


def digest(values: Iterable[object], site: str) -> str:
    """The same for equal values, whether they come from a row or were just assigned."""
    written = [str(value.timestamp() if isinstance(value, datetime) else value) for value in values]
    return blake2b("\x1f".join([site, *written]).encode(errors="replace"), digest_size=16).hexdigest()


def holds(attempt: Attempt, site: str, *, now: datetime) -> bool:
    """Whether the last judgement of `attempt`, as it is now, still holds."""
    return attempt.quiet_until is not None and now < attempt.quiet_until and attempt.quiet_of == _digest(attempt, site)


def _digest(attempt: Attempt, site: str) -> str:
    job = attempt.job
    of_job = {"job__record_key": job.record_key, "job__vanished_at": job.vanished_at}
    return digest((of_job[name] if name in of_job else getattr(attempt, name) for name in RESTS_ON), site)


def carry_on(look: Look, *, held: bool, site: str, now: datetime) -> None:
    """Let the last judgement hold for what was read too, or say that it doesn't (`quiet_until` is None then).

    `held`: it did before the reading.
    """
    attempt = look.attempt
    attempt.quiet_until = attempt.quiet_until if held and _allows(attempt, look) else None
    if attempt.quiet_until is None:
        return
    if look.signals and is_training(attempt):
        attempt.quiet_until = after_reports(brief_facts(attempt, now=now), limits(), attempt.quiet_until)
    if look.blind_until is not None:
        attempt.quiet_until = min(attempt.quiet_until, look.blind_until)
    attempt.quiet_of = _digest(attempt, site)


def _allows(attempt: Attempt, look: Look) -> bool:
    """Whether what was read can't be what a detector would find something in."""
    if attempt.blind_reason != look.was_blind or any(signal.kind in GO_BACK for signal in look.signals):
        return False
    samples = look.samples
    if not samples:
        return True
    pace = Pace.from_json(attempt.pace)
    pace = after(pace, samples, limits()) if pace is not None else None
    if pace is None:
        return False
    attempt.pace = pace.as_json()
    return True


def _has_open_case(attempt: Attempt) -> bool:
    return Incident.objects.filter(run=attempt.job.run_id).exclude(state=IncidentState.CLOSED).exists()


def _while_it_stands(found: Sequence[Finding], facts: AttemptFacts, quiet: Quiet) -> Quiet:
    """How long a judgement holds whose findings were dealt with before, in a case that is closed.

    Progress, another state and silence show as ever. More slow reports say nothing new of a slowdown.
    """
    until = facts.now + STANDING
    pace = None
    if all(finding.kind is FindingKind.SLOWDOWN for finding in found) and facts.samples:
        last = facts.samples[-1]
        pace = Pace(measure="any", rank=last.rank, step=last.step, at=last.at, below=ANY, slow=0, left=STANDING_REPORTS)
    return replace(quiet, until=min(quiet.until, until) if quiet.until > facts.now else until, pace=pace)


def judge(attempt: Attempt, blind_until: datetime | None, *, site: str, now: datetime) -> Incident | None:
    """Judge `attempt` by all that is known. Returns its open incident where a fault was found.

    How long that holds is noted in the row, which is not stored here.
    """
    attempt.quiet_until = None
    state = JobState(attempt.state)
    if state.is_terminal:
        return detect_attempt(attempt, now=now)
    if attempt.job.vanished_at is not None or attempt.job.cluster.is_stale(now):
        return None  # nothing is judged by old news, and at the first new ones everything is
    trains = is_training(attempt)
    running = state is JobState.RUNNING and trains
    facts = brief_facts(attempt, now=now, samples=newest_samples(attempt) if running else ())
    if running and near_limit(facts, limits()):
        facts = with_rhythm(facts, attempt.job.run_id)
    found = detect(facts, limits()) if running or attempt.state_reason in HELD else []
    if running and is_silent(facts, limits()):
        facts = full_facts(attempt, now=now)
        attempt.alarms_at = None if facts.stalled_with else attempt.alarms_at  # people are told at once
        found = detect(facts, limits())
    incident = detect_attempt(attempt, now=now) if found else None
    if incident is not None or (found and _has_open_case(attempt)):
        return incident
    quiet = how_long(facts, limits(), trains=trains)
    if found:
        quiet = _while_it_stands(found, facts, quiet)
    attempt.quiet_until = quiet.until if blind_until is None else min(quiet.until, blind_until)
    attempt.quiet_of = _digest(attempt, site)
    attempt.pace = quiet.pace.as_json() if quiet.pace is not None else {}
    return None
