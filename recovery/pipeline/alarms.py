"""Part of detect: what people should know of an attempt that goes on, waits, or ended like the ones before it.

An alarm opens no case and does nothing. It is raised when a detector first finds it, and ends when a later look no
longer does, or when the run goes on in another attempt.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.detectors import AlarmLimits, alarms
from recovery.core.detectors.alarm import Alarm as Found
from recovery.core.types import JobState
from recovery.models import Alarm, Attempt
from recovery.pipeline.facts import as_json
from recovery.pipeline.silence import full_facts
from recovery.pipeline.surroundings import surroundings

EVERY = timedelta(minutes=10)  # alarms are no emergencies: what needs us at once is a finding


def alarms_are_due(attempt: Attempt, *, now: datetime) -> bool:
    """Every ten minutes while it lives, and once more when it has ended."""
    if attempt.alarms_at is None:
        return True
    if JobState(attempt.state).is_terminal:
        return attempt.ended_at is None or attempt.alarms_at < attempt.ended_at
    return now - attempt.alarms_at >= EVERY


def look_for_alarms(attempt: Attempt, *, now: datetime) -> None:
    """Ask the detectors, and store what begins and what ends. Nothing is told by an old picture."""
    if attempt.job.vanished_at is not None or attempt.job.cluster.is_stale(now):
        return
    facts = full_facts(attempt, now=now)
    around = surroundings(attempt, facts, now=now)
    settle(attempt, alarms(facts, around, AlarmLimits(), stale_after_s=settings.STALE_AFTER_S), now=now)
    attempt.alarms_at = now
    Attempt.objects.filter(pk=attempt.pk).update(alarms_at=now)


def settle(attempt: Attempt, found: list[Found], *, now: datetime) -> None:
    """Make the stored alarms what was found now."""
    rows = list(Alarm.objects.filter(run=attempt.job.run_id, ended_at=None).select_related("attempt__job"))
    own = {row.kind: row for row in rows if row.attempt_id == attempt.pk}
    now_true = {alarm.kind for alarm in found}
    with transaction.atomic():
        for row in rows:
            if row.attempt_id != attempt.pk and _is_over(row.attempt, attempt):
                _end(row, f"The run went on in attempt {attempt.number} of job {attempt.job.job_id}.", now=now)
            elif row.attempt_id == attempt.pk and row.kind not in now_true:
                _end(row, "A later look no longer finds it.", now=now)
        for alarm in found:
            if alarm.kind in own:
                _again(own[alarm.kind], alarm, now=now)
            else:
                _raise(attempt, alarm, now=now)


def _is_over(earlier: Attempt, attempt: Attempt) -> bool:
    """Whether `earlier` has ended and `attempt` is the run's later one; what runs beside it speaks for itself."""
    if earlier.ended_at is None or attempt.started_at is None:
        return False
    return attempt.started_at >= earlier.ended_at


def _raise(attempt: Attempt, alarm: Found, *, now: datetime) -> None:
    try:
        with transaction.atomic():
            Alarm.objects.create(
                run_id=attempt.job.run_id, attempt=attempt, kind=alarm.kind, since=min(alarm.since, now), raised_at=now,
                seen_at=now, reason=alarm.reason[:500], remedy=alarm.remedy[:300], evidence=as_json(alarm.evidence),
            )  # fmt: skip
            _record("alarm.raised", attempt, alarm.reason, kind=alarm.kind, now=now)
    except IntegrityError:
        return  # another worker raised it in the same moment


def _again(row: Alarm, alarm: Found, *, now: datetime) -> None:
    Alarm.objects.filter(pk=row.pk).update(
        seen_at=now, reason=alarm.reason[:500], remedy=alarm.remedy[:300], evidence=as_json(alarm.evidence)
    )


def _end(row: Alarm, why: str, *, now: datetime) -> None:
    if Alarm.objects.filter(pk=row.pk, ended_at=None).update(ended_at=now):
        _record("alarm.ended", row.attempt, why, kind=row.kind, now=now)


def _record(verb: str, attempt: Attempt, reason: str, *, kind: str, now: datetime) -> None:
    audit.record(
        verb, actor=SYSTEM, at=now, subject_kind="attempt", subject_id=attempt.pk, reason=reason, kind=kind,
        run=attempt.job.run_id,
    )  # fmt: skip
