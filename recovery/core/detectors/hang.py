"""Hang: progress was due and did not come.

What is due depends on the phase. While training it is learned from the attempt's own intervals between reports, and
from the longest silence that the run came back from: an evaluation that nobody announces, a log that is flushed now and
then. The first step, a save, an evaluation and the end of the program have limits of their own. Of earlier attempts
only that silence is carried over, as a prior that fades: other nodes, other data. Whatever was learned, there is a
floor below which no silence is a hang; it is lower where something else says so, too (witness.py).

Never: for a blind attempt, in any state but RUNNING, on a picture taken before progress was due.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from recovery.core.detectors.gpu import busy_gpus, idle_gpus
from recovery.core.detectors.limits import Limits, Spans
from recovery.core.detectors.witness import Floor, floor_of
from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.series import intervals, quantile
from recovery.core.speech import duration
from recovery.core.types import (
    AttemptFacts,
    Evidence,
    FailureClass,
    Finding,
    FindingKind,
    JobState,
    Phase,
    Role,
    SignalKind,
)

SUREST = 0.98
AGAINST = 0.2  # what GPUs that compute leave less of the confidence
HALVED_S = 86400.0  # a silence that the run came back from counts half after so long


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """Since when the attempt is silent, and how long it may be; `least_s`: where something else told of a hang."""

    since: datetime
    limit_s: float
    least_s: float
    sentence: str  # what was expected, with the reason of the limit
    evidence: tuple[Evidence, ...] = ()  # of what makes the limit so low


def detect_hang(facts: AttemptFacts, limits: Limits) -> Finding | None:
    """A finding if progress is overdue now; None where it is not, or where that can't be told."""
    if facts.state is not JobState.RUNNING or facts.blind_reason:
        return None
    if (facts.now - facts.seen_at).total_seconds() > limits.stale_after_s:
        return None
    if facts.seen_at <= earliest_hang(facts, limits):
        return None  # most looks end here: no limit is so low, whatever the intervals were
    due = next_due(facts, limits)
    if due is None:
        return None
    # The scheduler must have called it running after progress was due: a job that ended meanwhile is silent too.
    if (facts.seen_at - due.since).total_seconds() <= due.limit_s:
        return None
    silent = (facts.now - due.since).total_seconds()
    reason = f"No progress for {duration(silent)}: {due.sentence}."
    overdue = Evidence(text=reason, source="job log", role=Role.CONFIRMATION, rule="hang.overdue", at=due.since)
    surer, gpus = idle_gpus(facts)
    if busy := busy_gpus(facts):
        surer, gpus = -AGAINST, (busy,)
    return Finding(
        kind=FindingKind.HANG,
        since=due.since,
        reason=reason,
        confidence=min(SUREST, _confidence(facts, silent / due.limit_s) + surer),
        evidence=(overdue, *due.evidence, *gpus),
    )


def is_silent(facts: AttemptFacts, limits: Limits) -> bool:
    """Whether it would hang if something else said so: then whatever could is to be asked."""
    if facts.state is not JobState.RUNNING or facts.blind_reason or facts.seen_at <= earliest_hang(facts, limits):
        return False
    due = next_due(facts, limits)
    return due is not None and (facts.seen_at - due.since).total_seconds() > due.least_s


def next_due(facts: AttemptFacts, limits: Limits) -> Due | None:
    """What the attempt owes next; None where nothing is known that could be due."""
    due = _due_by_phase(facts, limits)
    if due is None or facts.written_at is None or facts.written_at <= due.since:
        return due
    # Of what is written no more counts than one save may take: what saves for ever and makes no step is no training.
    return replace(due, since=min(facts.written_at, due.since + timedelta(seconds=limits.saving_s)))


def _due_by_phase(facts: AttemptFacts, limits: Limits) -> Due | None:
    if facts.phase in (Phase.SAVING, Phase.EVALUATING, Phase.FINISHING):
        return _due_in_pause(facts, limits)
    if facts.last_progress_at is not None:
        return _due_in_training(facts, limits, facts.last_progress_at)
    since = _latest(facts.phase_since, facts.started_at)
    if since is None or facts.phase is Phase.QUEUED:
        return None
    least = _first_step_limit(facts, limits)
    more = 0.0 if facts.longest_start_s else (limits.first_step_unknown - 1) * limits.first_step_s
    floor = floor_of(facts, Spans(least, least + more, least + more), since, gpus_train=False)
    return _with_floor(floor, since, "the first step is due within", " of the start")


def waits_for_a_start(facts: AttemptFacts) -> bool:
    """Whether what is due is a first step, so that the run's earlier starts tell how long it may take."""
    return facts.last_progress_at is None or facts.phase is Phase.FIRST_STEP


def _first_step_limit(facts: AttemptFacts, limits: Limits) -> float:
    """An earlier start of the run loaded, compiled and skipped as much: this one may take as long, and longer. What its
    log shows late in training, since it is flushed now and then, it shows late at the start, too."""
    usual = max(limits.first_step_s, min(limits.hang_longest * facts.longest_start_s, limits.hang_ceiling_s))
    return usual + facts.longest_wait_s


def earliest_hang(facts: AttemptFacts, limits: Limits) -> datetime:
    """Before this no silence is a hang, whatever the attempt's own intervals, so that no samples are needed.

    The least limits that `next_due` can give.
    """
    last = facts.last_progress_at
    if facts.phase in (Phase.SAVING, Phase.EVALUATING, Phase.FINISHING):
        times, least = (facts.phase_since, last), max(limits.saving_s, limits.witnessed_floor_s)
    elif last is not None:
        least = min(limits.witnessed_floor_s, limits.hang_ceiling_s)
        times = (last, facts.phase_since if facts.phase is Phase.FIRST_STEP else None)
    else:
        times, least = (facts.phase_since, facts.started_at), limits.first_step_s
    since = max((at for at in times if at is not None), default=facts.now)
    return since + timedelta(seconds=least)


def _due_in_pause(facts: AttemptFacts, limits: Limits) -> Due | None:
    since = _latest(facts.phase_since, facts.last_progress_at)
    if since is None:
        return None
    what = {Phase.SAVING: "saving a checkpoint", Phase.EVALUATING: "an evaluation"}.get(facts.phase, "its end")
    longest = limits.hang_longest * max((*_own_intervals(facts, limits), facts.longest_wait_s))  # it may lie within
    spans = limits.spans(max(limits.saving_s, min(longest, limits.hang_ceiling_s)))
    floor = floor_of(facts, spans, since, gpus_train=False)
    return _with_floor(floor, since, f"{what} may take", "")


def _due_in_training(facts: AttemptFacts, limits: Limits, since: datetime) -> Due:
    since = max(since, _pause_ended(facts, limits, since))
    own = _own_intervals(facts, limits)
    if len(own) < limits.hang_min_intervals or facts.phase is Phase.FIRST_STEP:
        limit = max(_first_step_limit(facts, limits), limits.hang_floor_s)
        why = "after the load" if facts.phase is Phase.FIRST_STEP else f"while only {len(own)} intervals are known"
        sentence = f"the next step is due within {duration(limit)} {why}"
        return Due(since=since, limit_s=limit, least_s=limit, sentence=sentence)
    usual = quantile(own, limits.hang_quantile)
    survived = max(*own, facts.longest_wait_s)
    learned = max(limits.hang_factor * usual, limits.hang_longest * survived)
    floor = floor_of(facts, limits.spans(learned), since)
    patience, most = limits.hang_shared if facts.stalled_with else 1.0, max(limits.hang_ceiling_s, 2 * usual)
    floor = floor._replace(seconds=min(floor.seconds * patience, most), least_s=min(floor.least_s * patience, most))
    return _with_floor(floor, since, f"reports usually come within {duration(usual)}, and", " is the limit")


def _with_floor(floor: Floor, since: datetime, before: str, after: str) -> Due:
    why = f", {floor.why}" if floor.why else ""
    sentence = f"{before} {duration(floor.seconds)}{after}{why}"
    return Due(
        since=since, limit_s=floor.seconds, least_s=floor.least_s, sentence=sentence, evidence=floor.evidence
    )  # fmt: skip


def _pause_ended(facts: AttemptFacts, limits: Limits, since: datetime) -> datetime:
    """When the load, or the save or evaluation after the last report, was over; of a pause no more than one may take:
    what saves again and again and makes no step is no training."""
    if facts.phase_since is None or facts.phase is Phase.FIRST_STEP:
        return facts.phase_since or since
    return min(facts.phase_since, since + timedelta(seconds=limits.saving_s))


def remember_wait(longest_s: float, waited_s: float, passed_s: float) -> float:
    """The longest silence that a run came back from, when it has come back from another one.

    What lies back counts half after a day: a storm of the storage must not make it deaf for ever. `passed_s`: since the
    progress before.
    """
    return max(waited_s, longest_s * math.pow(0.5, passed_s / HALVED_S))


def _own_intervals(facts: AttemptFacts, limits: Limits) -> list[float]:
    """The newest intervals, where enough are known without the first one: that holds what start-up left over."""
    own = intervals(facts.samples[-limits.hang_intervals - 2 :])
    return (own[1:] if len(own) > limits.hang_min_intervals else own)[-limits.hang_intervals :]


def _confidence(facts: AttemptFacts, times_over: float) -> float:
    """Surer the longer it lasts, and where the ranks themselves say that a collective operation timed out."""
    collective = any(
        rule is not None and rule.failure_class in (FailureClass.HANG_COLLECTIVE, FailureClass.HANG_SILENT)
        for rule in (RULES_BY_ID.get(s.rule) for s in facts.signals if s.kind is SignalKind.FAILURE)
    )
    return min(SUREST, 0.8 + 0.05 * (times_over - 1) + (0.1 if collective else 0.0))


def _latest(*times: datetime | None) -> datetime | None:
    return max((t for t in times if t is not None), default=None)
