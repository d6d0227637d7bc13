"""Part of account: what is stored of a run becomes the history that its ledger is kept from.

What a ledger needs of samples and signals is taken into the attempt's trace an hour after it happened, thinned. From
then on nothing here depends on samples or signals any more, so their retention takes nothing from a ledger.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from recovery.core.ledger import (
    AttemptSpan,
    BlindSpan,
    CaseChange,
    CaseClocks,
    CheckpointDone,
    History,
    PhaseSpan,
    Restored,
    SlowSpan,
    StepSeen,
    replay_phases,
)
from recovery.core.ledger.slices import Since
from recovery.core.ledger.spans import to_datetime, to_us
from recovery.core.ledger.thin import Mark, grid_of, thin
from recovery.core.lifecycle import IncidentState
from recovery.core.types import CheckpointState, FailureClass, FindingKind, JobState, Outcome, SignalKind
from recovery.models import (
    Attempt,
    AttemptTrace,
    BlindSpell,
    Checkpoint,
    Event,
    Finding,
    Incident,
    PolicyVersion,
    Sample,
    Signal,
)
from recovery.pipeline.ledger_glance import HELD_ONCE, LAG
from recovery.pipeline.slow_spells import quick_again

KINDS = frozenset(SignalKind) - {SignalKind.PROGRESS, SignalKind.FAILURE}  # what tells phases and restores


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """Rows of one run: all that its ledger depends on, but for samples and signals."""

    attempts: list[Attempt]  # each with its job
    incidents: list[Incident]
    checkpoints: list[Checkpoint]
    policies: list[Since]


def facts_of(run_id: int) -> RunFacts:
    """Four queries."""
    attempts = list(Attempt.objects.filter(job__run_id=run_id).select_related("job").order_by("pk"))
    incidents = list(Incident.objects.filter(run_id=run_id).order_by("pk"))
    checkpoints = list(Checkpoint.objects.filter(run_id=run_id).order_by("pk"))
    policies = PolicyVersion.objects.order_by("created_at", "number").values_list("created_at", "number")
    return RunFacts(
        attempts=attempts, incidents=incidents, checkpoints=checkpoints,
        policies=[(to_us(at), number) for at, number in policies],
    )  # fmt: skip


def is_settled(attempt: Attempt, now: datetime) -> bool:
    """It ended, was read to its end, and whatever was late has come."""
    return attempt.closed_at is not None and max(attempt.closed_at, attempt.ended_at or attempt.closed_at) < now - LAG


def gpus_of(attempt: Attempt) -> int:
    """Of its own allocation; where no picture showed that, what its job was counted with."""
    return attempt.job.gpus if attempt.gpus is None else attempt.gpus


# --- traces ----------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Told:
    """What a trace and what came behind it say of one attempt. `changed`: the trace is to be written."""

    trace: AttemptTrace
    marks: list[Mark]
    signals: list[tuple[int, str, int | None]]
    changed: bool


def traces_of(facts: RunFacts, *, now: datetime) -> list[Told]:
    """One of each attempt that started. Final traces cost nothing more; of another its newest samples are read."""
    started = [attempt for attempt in facts.attempts if attempt.started_at is not None]
    stored = AttemptTrace.objects.in_bulk([attempt.pk for attempt in started])
    findings: dict[int, list[Finding]] = defaultdict(list)
    slow = [incident.pk for incident in facts.incidents]
    for finding in Finding.objects.filter(incident__in=slow, kind=FindingKind.SLOWDOWN).select_related("incident"):
        findings[finding.incident.attempt_id].append(finding)
    told = []
    for attempt in started:
        trace = stored.get(attempt.pk) or AttemptTrace(attempt=attempt)
        if trace.final:
            told.append(Told(trace, [(at, step) for at, step in trace.marks], _signals(trace.signals), changed=False))
        else:
            told.append(_follow(attempt, trace, findings[attempt.pk], facts, now=now))
    return told


def _follow(attempt: Attempt, trace: AttemptTrace, slow: list[Finding], facts: RunFacts, *, now: datetime) -> Told:
    before = (trace.rank, trace.until_us, trace.marks, trace.signals, trace.slow, trace.final)
    _choose_rank(attempt, trace)
    since = to_datetime(trace.until_us)
    samples = Sample.objects.filter(attempt=attempt, rank=trace.rank or 0, at__gte=since).values_list("at", "step")
    marks = sorted({*((at, step) for at, step in trace.marks), *((to_us(at), step) for at, step in samples)})
    rows = Signal.objects.filter(attempt=attempt, kind__in=KINDS, at__gte=since).values_list("at", "kind", "step")
    seen = {*_signals(trace.signals), *((to_us(at), kind, step) for at, kind, step in rows)}
    signals = sorted(seen, key=lambda each: (each[0], each[1], each[2] or 0))
    trace.final = is_settled(attempt, now)
    horizon = to_us(now if trace.final else now - LAG)
    until = max((at for at, _ in marks if at <= horizon), default=trace.until_us)
    sealed = [mark for mark in marks if mark[0] <= until]
    pins = [*(at for at, _, _ in signals), *_moments(facts, attempt)]
    sealed = thin(sealed, grid=grid_of(until - sealed[0][0] if sealed else 0), pins=pins)
    marks = [*sealed, *(mark for mark in marks if mark[0] > until)]
    trace.until_us, trace.marks = until, [list(mark) for mark in sealed]
    trace.signals = [list(each) for each in signals if trace.final or each[0] <= until]
    trace.slow = [_slow_spell(finding, trace) for finding in slow]
    after = (trace.rank, trace.until_us, trace.marks, trace.signals, trace.slow, trace.final)
    return Told(trace, marks, signals, changed=after != before or trace._state.adding)


def _choose_rank(attempt: Attempt, trace: AttemptTrace) -> None:
    """The lowest that reports; where a lower one appears, its word replaces what another said."""
    lowest = Sample.objects.filter(attempt=attempt).order_by("rank").values_list("rank", flat=True).first()
    if lowest is not None and (trace.rank is None or lowest < trace.rank):
        trace.rank, trace.until_us, trace.marks = lowest, 0, []


def _moments(facts: RunFacts, attempt: Attempt) -> list[int]:
    """Around which every sample counts: a restore goes to a checkpoint, a case ends with the next step."""
    saves = [to_us(c.completed_at) for c in facts.checkpoints if c.completed_at is not None]
    own = [incident for incident in facts.incidents if incident.attempt_id == attempt.pk]
    return [*saves, *(to_us(at) for incident in own for at in (incident.failed_at, incident.detected_at))]


def _signals(stored: list[list[object]]) -> list[tuple[int, str, int | None]]:
    return [(int(str(at)), str(kind), None if step is None else int(str(step))) for at, kind, step in stored]


def _slow_spell(finding: Finding, trace: AttemptTrace) -> list[int | None]:
    """From the first slow report to the first that was quick again, which is told once the case is closed."""
    since = to_us(finding.since)
    known: dict[int, int | None] = dict(trace.slow)
    if known.get(since) is not None or finding.incident.closed_at is None:
        return [since, known.get(since)]
    return [since, to_us(quick_again(finding, rank=trace.rank))]


# --- the history -----------------------------------------------------------------------------------------------------
def history_of(facts: RunFacts, traces: list[Told]) -> History:
    """Two queries more."""
    starts = {attempt.pk: attempt for attempt in facts.attempts}
    return History(
        attempts=tuple(_span(attempt) for attempt in facts.attempts),
        phases=tuple(span for told in traces for span in _phases(starts[told.trace.attempt_id], told)),
        blind=_blind(facts),
        slow=tuple(_slow(told.trace.attempt_id, spell) for told in traces for spell in told.trace.slow),
        steps=tuple(
            StepSeen(attempt=told.trace.attempt_id, at=to_datetime(at), step=step)
            for told in traces for at, step in told.marks
        ),
        restores=tuple(restore for told in traces for restore in _restores(told)),
        checkpoints=tuple(_checkpoint(row) for row in facts.checkpoints if _was_complete(row)),
        cases=_cases(facts.incidents),
        sees_checkpoints=any(row.state != CheckpointState.UNKNOWN for row in facts.checkpoints),
    )  # fmt: skip


def _span(attempt: Attempt) -> AttemptSpan:
    ended = attempt.ended_at
    if ended is None and attempt.state == JobState.UNKNOWN:
        ended = attempt.job.vanished_at or attempt.closed_at
    return AttemptSpan(
        attempt=attempt.pk, job=attempt.job_id, number=attempt.number, submitted_at=attempt.submitted_at,
        started_at=attempt.started_at, ended_at=ended, gpus=gpus_of(attempt), state=JobState(attempt.state),
    )  # fmt: skip


def _phases(attempt: Attempt, told: Told) -> tuple[PhaseSpan, ...]:
    """Nothing where the attempt never spoke: then it was not observed."""
    marks = [(to_datetime(at), SignalKind.PROGRESS) for at, _ in told.marks]
    marks += [(to_datetime(at), SignalKind(kind)) for at, kind, _ in told.signals]
    if attempt.started_at is None or not (marks or attempt.read_at):
        return ()
    return replay_phases(attempt.pk, started_at=attempt.started_at, ended_at=attempt.ended_at, marks=marks)


def _blind(facts: RunFacts) -> tuple[BlindSpan, ...]:
    rows = BlindSpell.objects.filter(attempt__in=[attempt.pk for attempt in facts.attempts])
    return tuple(BlindSpan(attempt=row.attempt_id, start=row.started_at, end=row.ended_at) for row in rows)


def _slow(attempt: int, spell: list[int | None]) -> SlowSpan:
    start, end = spell
    return SlowSpan(attempt=attempt, start=to_datetime(start or 0), end=None if end is None else to_datetime(end))


def _restores(told: Told) -> list[Restored]:
    kinds = {SignalKind.LOADED.value, SignalKind.FRESH_START.value}
    return [
        Restored(attempt=told.trace.attempt_id, at=to_datetime(at), step=step or 0)
        for at, kind, step in told.signals
        if kind in kinds and (step is not None or kind == SignalKind.FRESH_START)
    ]


def _was_complete(row: Checkpoint) -> bool:
    return row.completed_at is not None and row.state in HELD_ONCE


def _checkpoint(row: Checkpoint) -> CheckpointDone:
    return CheckpointDone(step=row.step, completed_at=row.completed_at or row.first_seen_at, attempt=row.attempt_id)


def _cases(incidents: list[Incident]) -> tuple[CaseClocks, ...]:
    changes: dict[int, list[CaseChange]] = defaultdict(list)
    keys = [incident.pk for incident in incidents]
    known = {state.value for state in IncidentState}
    events = Event.objects.filter(incident_id__in=keys, subject_kind="incident", new__in=known)
    for incident_id, at, new in events.values_list("incident_id", "at", "new"):
        changes[incident_id or 0].append(CaseChange(at=at, state=IncidentState(new)))
    return tuple(clocks_of(incident, tuple(changes[incident.pk])) for incident in incidents)


def clocks_of(incident: Incident, changes: tuple[CaseChange, ...] = ()) -> CaseClocks:
    """The moments of one incident as the ledger takes them."""
    return CaseClocks(
        incident=incident.pk, attempt=incident.attempt_id, kind=FindingKind(incident.kind),
        failed_at=incident.failed_at, detected_at=incident.detected_at, recommended_at=incident.recommended_at,
        decided_at=incident.decided_at, acted_at=incident.acted_at, restored_at=incident.restored_at,
        checkpoint_at=incident.checkpoint_at, closed_at=incident.closed_at, failed_step=incident.failed_step,
        restored_step=incident.restored_step, changes=changes,
        failure_class=FailureClass(incident.failure_class) if incident.failure_class else None,
        outcome=Outcome(incident.outcome) if incident.outcome else None,
    )  # fmt: skip
