"""Stage 3, detect: a fault of an attempt becomes a finding, and a finding an open incident on its run."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.detectors import detect
from recovery.core.diagnose import diagnose
from recovery.core.diagnose.exits import HELD
from recovery.core.lifecycle import TRANSITIONS, ActionState, IncidentState
from recovery.core.series import typical_stride
from recovery.core.speech import steps
from recovery.core.types import AttemptFacts, FailureClass, Finding, FindingKind, JobState, Outcome
from recovery.core.verify import advise
from recovery.models import Attempt, Incident
from recovery.pipeline.beside import keep_for_later, store_finding, turn_to, was_overtaken
from recovery.pipeline.facts import limits
from recovery.pipeline.silence import full_facts
from recovery.pipeline.subject import ended_by_us
from recovery.pipeline.successor import follows
from recovery.pipeline.transition import LostRace, advance, advance_action

SEVERITY = {
    FindingKind.CRASH: 3,
    FindingKind.HANG: 2,
    FindingKind.SLOWDOWN: 1,
    FindingKind.LIMIT_NEAR: 1,
    FindingKind.UNDOING: 0,
}
VERB = {
    FindingKind.CRASH: "stopped", FindingKind.HANG: "hangs", FindingKind.SLOWDOWN: "runs slow",
    FindingKind.LIMIT_NEAR: "nears its time limit", FindingKind.UNDOING: "is to be undone",
}  # fmt: skip


def detect_attempt(attempt: Attempt, *, now: datetime) -> Incident | None:
    """Judge one attempt. Returns its open incident where a fault was found."""
    if attempt.job.cluster.is_stale(now):
        return None  # old news is no news
    if ended_by_us(attempt):
        return None  # its end was our doing
    if attempt.state == JobState.REQUEUED and attempt.job.state_reason in HELD:
        return None  # Slurm could not launch it, put it back and holds it: that is told of the one that waits
    facts = full_facts(attempt, now=now)
    findings = detect(facts, limits())
    if not is_training(attempt):
        findings = [finding for finding in findings if finding.kind is FindingKind.CRASH]
    if not findings:
        return None
    worst = max(findings, key=lambda finding: SEVERITY[finding.kind])
    known = Incident.objects.filter(run=attempt.job.run).exclude(state=IncidentState.CLOSED).first()
    if known is not None:
        return _during(known, attempt, worst, facts, now=now)
    if _already_judged(attempt, worst) or was_overtaken(attempt, worst.kind):
        return None
    return _open(attempt, worst, previous=None, now=now)


def _during(
    known: Incident, attempt: Attempt, worst: Finding, facts: AttemptFacts, *, now: datetime
) -> Incident | None:
    """A fault while a case on the run is open: on its own execution, on a restart of it, or on one beside it."""
    if known.attempt_id == attempt.pk:
        return _add(known, worst, now=now)
    if not worst.kind.is_stop:
        return None  # it runs: the open case goes on waiting for the checkpoint
    if attempt.started_at is None and _was_cancelled(worst, facts):
        return None  # it never ran: what became of the failed one is not told by it
    if follows(attempt, known) and known.acted_at is not None and _was_cancelled(worst, facts):
        return None  # verification notices: its run may be submitted anew
    if follows(attempt, known) and known.kind != FindingKind.UNDOING:
        return _follow_up(known, attempt, worst, facts, now=now)
    turned = turn_to(known, attempt, worst, headline=_headline(attempt, worst), now=now)
    if turned is None:
        keep_for_later(known, attempt, worst, now=now)
    return turned


def is_training(attempt: Attempt) -> bool:
    """Whether silence can mean anything: the job opted in, or its log showed a trainer at work."""
    return bool(attempt.job.options) or attempt.last_step is not None or attempt.restored_at is not None


def _already_judged(attempt: Attempt, finding: Finding) -> bool:
    """A closed case on this very attempt: a crash is reported once, a hang again only after new progress.

    A slowdown is reported again only where the earlier one had passed; one that a person closed stays closed. A limit
    that is near is told again only after a newer checkpoint.
    """
    closed = Incident.objects.filter(attempt=attempt, kind=finding.kind).order_by("-detected_at").first()
    if closed is None:
        return False
    if finding.kind is FindingKind.CRASH:
        return True
    if finding.kind is FindingKind.LIMIT_NEAR:
        saved = finding.evidence[0].at
        return saved is None or saved < (closed.closed_at or saved)
    if finding.kind is FindingKind.SLOWDOWN:
        return closed.outcome != Outcome.RECOVERED
    return closed.failed_step == attempt.last_step


def _headline(attempt: Attempt, finding: Finding) -> str:
    return f"{attempt.job.run.name} {VERB[finding.kind]}"[:300]


def _open(attempt: Attempt, finding: Finding, *, previous: Incident | None, now: datetime) -> Incident | None:
    run = attempt.job.run
    try:
        with transaction.atomic():
            incident = Incident.objects.create(
                run=run, attempt=attempt, previous=previous, state=IncidentState.DETECTED, kind=finding.kind,
                headline=_headline(attempt, finding), reason=finding.reason[:500],
                failed_at=min(finding.since, now), detected_at=now, failed_step=attempt.last_step, next_look_at=now,
            )  # fmt: skip
            store_finding(incident, finding, now=now)
            audit.record_incident(
                incident, "incident.detected", actor=SYSTEM, at=now, new=IncidentState.DETECTED, reason=finding.reason
            )
    except IntegrityError:
        return None  # another worker opened it in the same moment: one open incident per run
    return incident


def _add(incident: Incident, finding: Finding, *, now: datetime) -> Incident:
    """A worse finding on the attempt of an open case: a job that hung or ran slow has now crashed, say."""
    worse = SEVERITY[finding.kind] > SEVERITY[FindingKind(incident.kind)]
    if not worse or IncidentState.DETECTED not in TRANSITIONS[IncidentState(incident.state)]:
        return incident
    try:
        with transaction.atomic():
            _give_up_intents(incident, finding, now=now)
            store_finding(incident, finding, now=now)
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


def _follow_up(
    known: Incident, attempt: Attempt, finding: Finding, facts: AttemptFacts, *, now: datetime
) -> Incident | None:
    """The restarted run failed again before its next checkpoint: that case ends without success, a new one follows.

    While a call of ours is under way its effect must be seen first: the failure is kept, and judged after it.
    """
    if known.state == IncidentState.ACTING and known.actions.filter(state=ActionState.CALLED).exists():
        keep_for_later(known, attempt, finding, now=now)
        return None
    again = _is_the_same_again(known, attempt, finding, facts)
    outcome = Outcome.SAME_FAILURE if again else Outcome.NO_PROGRESS
    reason = f"Attempt {attempt.number} of job {attempt.job.job_id} failed before its next checkpoint was complete."
    if again:
        where = f"at step {steps(attempt.last_step)}, as before at {steps(known.failed_step)}"
        reason = f"Attempt {attempt.number} of job {attempt.job.job_id} was restored, and failed alike {where}."
    advice = advise(outcome, expected_step=known.expected_step, step=attempt.last_step)
    try:
        with transaction.atomic():
            _give_up_intents(known, finding, now=now)
            advance(
                known, IncidentState.CLOSED, now=now, why=reason, closed_at=now, next_look_at=None, alarm="",
                outcome=outcome, outcome_reason=reason, new_attempt=attempt, trouble=outcome, advice=advice[:500],
            )  # fmt: skip
            return _open(attempt, finding, previous=known, now=now)
    except LostRace:
        return None


def _was_cancelled(finding: Finding, facts: AttemptFacts) -> bool:
    return diagnose(facts, finding, []).failure_class is FailureClass.EXTERNAL_CANCEL


def _is_the_same_again(known: Incident, attempt: Attempt, finding: Finding, facts: AttemptFacts) -> bool:
    """Whether the restored run failed with the same class at the same step, as far as its log interval can tell."""
    if known.restored_at is None or known.failed_step is None or attempt.last_step is None:
        return False
    near = abs(attempt.last_step - known.failed_step) <= (typical_stride(facts.samples) or 1)
    classes = {diagnose(facts, finding, []).failure_class, known.failure_class}
    return near and len(classes - {FailureClass.UNKNOWN, ""}) <= 1
