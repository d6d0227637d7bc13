"""Which execution of a run comes after a failed one, and whose doing it is."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from recovery.core.lifecycle import ActionState
from recovery.core.types import TERMINAL_STATES, FailureClass
from recovery.models import Attempt, Incident, Job
from recovery.pipeline.subject import restarted_from


def successor(incident: Incident) -> Attempt | None:
    """The newest started execution after the failed one: a later attempt of its job, or a later job of the run.

    After an action of ours: after the execution that it was done to. What Slurm could not launch comes after itself;
    no other does, whatever the clocks say: `detected_at` is of ours, which may be behind the `started_at` of Slurm's.
    """
    failed = restarted_from(incident)
    later_attempt = Q(job_id=failed.job_id, number__gt=failed.number)
    if incident.failure_class == FailureClass.SCHEDULER_LAUNCH:
        later_attempt |= Q(pk=failed.pk, started_at__gt=incident.detected_at)
    # A job of the run that ran beside the failed one is no restart of it.
    later_job = Q(
        job__run=incident.run,
        job__first_submitted_at__gte=failed.job.first_submitted_at,
        started_at__gte=incident.failed_at,
    ) & ~Q(job=failed.job_id)  # a whole chain may be submitted within one second
    return (
        Attempt.objects.filter(later_attempt | later_job)
        .exclude(started_at=None)  # the next job of a chain may wait behind the restarted one
        .select_related("job__cluster", "job__run")
        .order_by("-job__first_submitted_at", "-number")
        .first()
    )


def follows(attempt: Attempt, incident: Incident) -> bool:
    """Whether `attempt` is a restart after the failure of the case, not one that ran beside it."""
    failed = incident.attempt
    if attempt.job_id == failed.job_id:
        return attempt.number > failed.number
    later = attempt.job.first_submitted_at >= failed.job.first_submitted_at
    return later and attempt.started_at is not None and attempt.started_at >= incident.failed_at


def is_ours(attempt: Attempt, incident: Incident) -> bool:
    """Whether a scheduler call of this case, rather than somebody else, started `attempt`.

    What we put back into the queue comes back as the next attempt of that job; a resubmission tells the id of its job.
    """
    for action in incident.actions.filter(state__in=[ActionState.CALLED, ActionState.CONVERGED]):
        subject = Attempt.objects.filter(pk=action.parameters.get("attempt", incident.attempt_id)).first()
        if subject is not None and (attempt.job_id, attempt.number) == (subject.job_id, subject.number + 1):
            return True
        answers = {str(call.get("answer", "")) for call in action.calls}
        if attempt.job.job_id.partition("_")[0] in answers:
            return True
    return False


def waiting_job(incident: Incident, *, after: Job) -> Job | None:
    """A job of the run that was submitted after `after` and has not ended: somebody's own restart, still queued."""
    jobs = Job.objects.filter(run_id=incident.run_id, first_submitted_at__gt=after.first_submitted_at)
    return jobs.exclude(state__in=TERMINAL_STATES).filter(vanished_at=None).order_by("first_submitted_at").first()


def queued_s(attempt: Attempt, *, now: datetime) -> float:
    """Seconds between the submission (or requeue) of `attempt` and its start, or until now."""
    return max(0.0, ((attempt.started_at or now) - attempt.submitted_at).total_seconds())
