"""Part of detect: another execution of the run fails while a case on it is open.

A case is of the run, and the newest failure leads it. Jobs of one run may run side by side, and the next of a chain may
fail while the first is still being worked on: no failure is lost, the others are kept as findings and judged after the
case.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F

from recovery.core.lifecycle import TRANSITIONS, IncidentState
from recovery.core.types import Finding, FindingKind
from recovery.models import Attempt, Incident
from recovery.models import Finding as FindingRow
from recovery.pipeline.facts import as_json
from recovery.pipeline.transition import LostRace, advance

# So far nothing was done to the run: the case can turn to another execution.
STILL_OPEN = (
    IncidentState.DETECTED, IncidentState.DIAGNOSED, IncidentState.RECOMMENDED, IncidentState.AWAITING_DECISION,
    IncidentState.WATCHING,
)  # fmt: skip


def turn_to(known: Incident, attempt: Attempt, finding: Finding, *, headline: str, now: datetime) -> Incident | None:
    """Let the case be about `attempt`, whose failure is newer. None: it can't be any more, or it is no newer."""
    state = IncidentState(known.state)
    newer = finding.since > known.failed_at
    if not newer or state not in STILL_OPEN or IncidentState.DETECTED not in TRANSITIONS[state]:
        return None
    if known.actions.exclude(called_at=None).exists():
        return None
    why = f"Attempt {attempt.number} of job {attempt.job.job_id} of the same run failed later: {finding.reason}"
    try:
        with transaction.atomic():
            known.findings.filter(attempt=None).update(attempt=known.attempt_id)
            Attempt.objects.filter(pk=known.attempt_id).update(closed_at=None, next_look_at=now)  # to be judged after
            store_finding(known, finding, now=now)
            return advance(
                known, IncidentState.DETECTED, now=now, why=why, attempt=attempt, kind=finding.kind,
                headline=headline[:300], reason=finding.reason[:500], failed_at=min(finding.since, now),
                failed_step=attempt.last_step, evidence_key="", detected_at=now, recommended_at=None,
                next_look_at=now,
            )  # fmt: skip
    except LostRace:
        return None


def keep_for_later(known: Incident, attempt: Attempt, finding: Finding, *, now: datetime) -> None:
    """Store the failure of another execution with the open case, once."""
    if not known.findings.filter(attempt=attempt, kind=finding.kind).exists():
        store_finding(known, finding, now=now, attempt=attempt)


def store_finding(incident: Incident, finding: Finding, *, now: datetime, attempt: Attempt | None = None) -> None:
    """`attempt`: the execution that it is about, where that is not the case's own."""
    FindingRow.objects.create(
        incident=incident, attempt=attempt, kind=finding.kind, at=now, since=finding.since,
        reason=finding.reason[:500], confidence=finding.confidence, evidence=as_json(finding.evidence),
    )  # fmt: skip


def waits_to_be_judged(attempt: Attempt) -> bool:
    """Whether a failure of `attempt` was kept with a case that is still open: it is looked at again until that ends."""
    kept = FindingRow.objects.filter(attempt=attempt).exclude(incident__attempt=F("attempt"))
    return kept.exclude(incident__state=IncidentState.CLOSED).exists()


def was_overtaken(attempt: Attempt, kind: FindingKind) -> bool:
    """Whether this failure of `attempt` was kept with another case, and the run has been started anew since then."""
    kept = FindingRow.objects.filter(attempt=attempt, kind=kind).exclude(incident__attempt=F("attempt"))
    last = kept.order_by("at").last()
    if last is None:
        return False
    later = Attempt.objects.filter(job__run_id=attempt.job.run_id, started_at__gt=last.since)
    return later.exclude(pk=attempt.pk).exists()
