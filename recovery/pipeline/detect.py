"""Stage 3, detect: a fault of an attempt becomes a finding, and a finding an open incident on its run."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.detectors import detect
from recovery.core.lifecycle import TRANSITIONS, ActionState, IncidentState
from recovery.core.types import Finding, FindingKind, Outcome
from recovery.models import Attempt, Incident
from recovery.models import Finding as FindingRow
from recovery.pipeline.facts import as_json, attempt_facts, limits
from recovery.pipeline.subject import ended_by_us
from recovery.pipeline.transition import LostRace, advance, advance_action

SEVERITY = {FindingKind.CRASH: 3, FindingKind.HANG: 2, FindingKind.SLOWDOWN: 1}
VERB = {FindingKind.CRASH: "stopped", FindingKind.HANG: "hangs", FindingKind.SLOWDOWN: "runs slow"}


def detect_attempt(attempt: Attempt, *, now: datetime) -> Incident | None:
    """Judge one attempt. Returns its open incident where a fault was found."""
    if attempt.job.cluster.is_stale(now):
        return None  # old news is no news
    if ended_by_us(attempt):
        return None  # its end was our doing
    findings = detect(attempt_facts(attempt, now=now), limits())
    if not is_training(attempt):
        findings = [finding for finding in findings if finding.kind is FindingKind.CRASH]
    if not findings:
        return None
    worst = max(findings, key=lambda finding: SEVERITY[finding.kind])
    known = Incident.objects.filter(run=attempt.job.run).exclude(state=IncidentState.CLOSED).first()
    if known is None:
        if _already_judged(attempt, worst):
            return None
        return _open(attempt, worst, previous=None, now=now)
    if known.attempt_id == attempt.pk:
        return _add(known, worst, now=now)
    if _is_later(attempt, known):
        return _follow_up(known, attempt, worst, now=now)
    return None


def is_training(attempt: Attempt) -> bool:
    """Whether silence can mean anything: the job opted in, or its log showed a trainer at work."""
    return bool(attempt.job.options) or attempt.last_step is not None or attempt.restored_at is not None


def _already_judged(attempt: Attempt, finding: Finding) -> bool:
    """A closed case on this very attempt: a crash is reported once, a hang again only after new progress.

    A slowdown is reported again only where the earlier one had passed; one that a person closed stays closed.
    """
    closed = Incident.objects.filter(attempt=attempt).order_by("-detected_at").first()
    if closed is None:
        return False
    if finding.kind is FindingKind.CRASH:
        return closed.kind == FindingKind.CRASH
    if finding.kind is FindingKind.SLOWDOWN:
        return closed.kind == FindingKind.SLOWDOWN and closed.outcome != Outcome.RECOVERED
    return closed.kind == finding.kind and closed.failed_step == attempt.last_step


def _is_later(attempt: Attempt, known: Incident) -> bool:
    return (attempt.job.first_submitted_at, attempt.number) > (
        known.attempt.job.first_submitted_at,
        known.attempt.number,
    )


def _open(attempt: Attempt, finding: Finding, *, previous: Incident | None, now: datetime) -> Incident | None:
    run = attempt.job.run
    try:
        with transaction.atomic():
            incident = Incident.objects.create(
                run=run, attempt=attempt, previous=previous, state=IncidentState.DETECTED, kind=finding.kind,
                headline=f"{run.name} {VERB[finding.kind]}"[:300], reason=finding.reason[:500],
                failed_at=min(finding.since, now), detected_at=now, failed_step=attempt.last_step, next_look_at=now,
            )  # fmt: skip
            _store(incident, finding, now=now)
            audit.record_incident(
                incident, "incident.detected", actor=SYSTEM, at=now, new=IncidentState.DETECTED, reason=finding.reason
            )
    except IntegrityError:
        return None  # another worker opened it in the same moment: one open incident per run
    return incident


def _store(incident: Incident, finding: Finding, *, now: datetime) -> None:
    FindingRow.objects.create(
        incident=incident, kind=finding.kind, at=now, since=finding.since, reason=finding.reason[:500],
        confidence=finding.confidence, evidence=as_json(finding.evidence),
    )  # fmt: skip


def _add(incident: Incident, finding: Finding, *, now: datetime) -> Incident:
    """A worse finding on the attempt of an open case: a job that hung or ran slow has now crashed, say."""
    worse = SEVERITY[finding.kind] > SEVERITY[FindingKind(incident.kind)]
    if not worse or IncidentState.DETECTED not in TRANSITIONS[IncidentState(incident.state)]:
        return incident
    try:
        with transaction.atomic():
            _give_up_intents(incident, finding, now=now)
            _store(incident, finding, now=now)
            return advance(
                incident, IncidentState.DETECTED, now=now, why=finding.reason, kind=finding.kind,
                headline=f"{incident.run.name} {VERB[finding.kind]}"[:300], failed_at=min(finding.since, now),
                next_look_at=now,
            )  # fmt: skip
    except LostRace:
        return incident


def _give_up_intents(incident: Incident, finding: Finding, *, now: datetime) -> None:
    """What was decided on the earlier finding and not begun is not done; LostRace where it is being begun."""
    for action in incident.actions.filter(state=ActionState.INTENDED):
        why = f"Nothing was done: {finding.reason}"
        advance_action(action, ActionState.REFUSED, now=now, why=why, observed_at=now, detail=why[:500])
    if incident.actions.filter(state=ActionState.CALLED).exists():
        raise LostRace(f"An action of incident {incident.pk} is under way.")


def _follow_up(known: Incident, attempt: Attempt, finding: Finding, *, now: datetime) -> Incident | None:
    """The restarted run failed again before its next checkpoint: that case ends without success, a new one follows."""
    if finding.kind is FindingKind.SLOWDOWN:
        return None  # it runs: the open case goes on waiting for the checkpoint
    reason = f"Attempt {attempt.number} of job {attempt.job.job_id} failed before its next checkpoint was complete."
    try:
        with transaction.atomic():
            advance(
                known, IncidentState.CLOSED, now=now, why=reason, closed_at=now, next_look_at=None,
                outcome=Outcome.NO_PROGRESS, outcome_reason=reason, new_attempt=attempt,
            )  # fmt: skip
            return _open(attempt, finding, previous=known, now=now)
    except LostRace:
        return None
