"""Stage 9, report: the five moments of an incident, the gaps between them, and what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from recovery.core.series import typical_step_time
from recovery.models import Incident
from recovery.pipeline.facts import attempt_facts


@dataclass(frozen=True, kw_only=True, slots=True)
class IncidentReport:
    """Seconds between the moments; None where one of the two was not seen (yet)."""

    fault_to_detection_s: float
    detection_to_recommendation_s: float | None
    recommendation_to_action_s: float | None  # waiting for the decision, and the scheduler's own time
    action_to_restore_s: float | None
    restore_to_checkpoint_s: float | None
    total_s: float | None  # from the fault to the next complete checkpoint
    steps_lost: int | None  # trained, then lost: from the restored step to the last step before the fault
    gpu_hours_lost: float | None


def incident_report(incident: Incident, *, now: datetime) -> IncidentReport:
    lost = None
    if incident.failed_step is not None and incident.restored_step is not None:
        lost = max(0, incident.failed_step - incident.restored_step)
    return IncidentReport(
        fault_to_detection_s=(incident.detected_at - incident.failed_at).total_seconds(),
        detection_to_recommendation_s=_gap(incident.detected_at, incident.recommended_at),
        recommendation_to_action_s=_gap(incident.recommended_at, incident.acted_at),
        action_to_restore_s=_gap(incident.acted_at, incident.restored_at),
        restore_to_checkpoint_s=_gap(incident.restored_at, incident.checkpoint_at),
        total_s=_gap(incident.failed_at, incident.checkpoint_at),
        steps_lost=lost,
        gpu_hours_lost=_gpu_hours(incident, lost, now=now),
    )


def _gap(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start is not None and end is not None else None


def _gpu_hours(incident: Incident, steps: int | None, *, now: datetime) -> float | None:
    """Steps lost, at the failed attempt's own pace, on all of its GPUs."""
    if steps is None:
        return None
    step_time = typical_step_time(attempt_facts(incident.attempt, now=now).samples)
    if step_time is None:
        return None
    return steps * step_time * incident.attempt.job.gpus / 3600
