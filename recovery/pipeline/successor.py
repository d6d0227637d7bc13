"""Which execution of a run comes after a failed one, and whose doing it is."""

from __future__ import annotations

import re
from datetime import datetime

from django.db.models import Q

from recovery.core.lifecycle import ActionState
from recovery.core.types import RESTARTS, TERMINAL_STATES, ActionKind, FailureClass
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
    submitted = failed.job.first_submitted_at
    later_job = Q(job__run=incident.run, job__first_submitted_at__gt=submitted, started_at__gte=incident.failed_at)
    # a whole chain may be submitted within one second, as what runs side by side
    chained = Q(job__run=incident.run, job__first_submitted_at=submitted, started_at__gte=incident.failed_at)
    chained &= Q(started_at__gt=failed.started_at or failed.submitted_at) & ~_together(failed.job)
    return (
        Attempt.objects.filter(later_attempt | later_job | chained)
        .exclude(started_at=None)  # the next job of a chain may wait behind the restarted one
        .select_related("job__cluster", "job__run")
        .order_by("-job__first_submitted_at", "-number")
        .first()
    )


def _together(job: Job) -> Q:
    """The job itself, tasks of its array, components of its heterogeneous job."""
    lead = re.split(r"[_+]", job.job_id)[0]
    return Q(job=job.pk) | Q(job__job_id__startswith=f"{lead}_") | Q(job__job_id__startswith=f"{lead}+")


def follows(attempt: Attempt, incident: Incident) -> bool:
    """Whether `attempt` is a restart after the failure of the case, not one that ran beside it."""
    failed = incident.attempt
    if attempt.job_id == failed.job_id:
        return attempt.number > failed.number
    later = attempt.job.first_submitted_at > failed.job.first_submitted_at
    return later and attempt.started_at is not None and attempt.started_at >= incident.failed_at


def is_ours(attempt: Attempt, incident: Incident) -> bool:
    """Whether a scheduler call of this case, rather than somebody else, started `attempt`.

    What we put back into the queue comes back as the next attempt of that job, and what we released starts itself; a
    resubmission tells the id of its job.
    """
    ours = incident.actions.filter(kind__in=RESTARTS, state__in=[ActionState.CALLED, ActionState.CONVERGED])
    for action in ours:
        subject = Attempt.objects.filter(pk=action.parameters.get("attempt", incident.attempt_id)).first()
        put_back = action.kind != ActionKind.RELEASE
        if subject is not None and (attempt.job_id, attempt.number) == (subject.job_id, subject.number + put_back):
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
