"""On what an action is done: which execution, which key it leaves behind, which job it made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Q

from recovery.core.lifecycle import ActionState
from recovery.core.types import PUT_BACK, ActionKind
from recovery.models import Action, Attempt, Incident, Job, Recommendation
from recovery.pipeline.call_results import begun_in
from recovery.slurm.base import HELD_BY_REQUEUE

ENDS_ATTEMPT = [kind.value for kind in ActionKind if kind.ends_attempt]
MARK = "recovery-desk:"  # what our keys begin with, where they are left
CALLS = 20  # so many of a run's newest actions are learned from


def subject_of(incident: Incident, parameters: Mapping[str, Any]) -> Attempt:
    """The execution that an action is done to: the one that failed, or the later one that its parameters name."""
    pk = parameters.get("attempt")
    if pk is None or pk == incident.attempt_id:
        return incident.attempt
    return Attempt.objects.select_related("job__cluster", "job__run").get(pk=pk, job__run=incident.run_id)


def newest_execution(incident: Incident) -> Attempt:
    """Where the case's job stands now: its newest attempt, or that of the job that took its place."""
    if incident.new_attempt is not None:
        return incident.new_attempt
    attempts = Attempt.objects.filter(job=waited_for(incident)).select_related("job__cluster", "job__run")
    return attempts.order_by("-number").first() or incident.attempt


def restarted_from(incident: Incident) -> Attempt:
    """The execution after which the case waits for a new one: that of our last restart, else the one that failed.

    A release is none in this sense: what it lets go was put back before, and is the new one.
    """
    done = incident.actions.filter(kind__in=PUT_BACK, state=ActionState.CONVERGED).order_by("pk").last()
    return subject_of(incident, done.parameters) if done is not None else incident.attempt


def waited_for(incident: Incident) -> Job:
    """The job whose new start the case waits for: the one that failed, or the one that a resubmission put there."""
    done = incident.actions.filter(kind=ActionKind.RESUBMIT, state=ActionState.CONVERGED).last()
    number = submitted_id(done) if done is not None else ""
    if not number:
        return incident.attempt.job
    jobs = Job.objects.filter(run=incident.run_id, first_submitted_at__gt=incident.attempt.job.first_submitted_at)
    return jobs.filter(Q(job_id=number) | Q(job_id__startswith=f"{number}_")).last() or incident.attempt.job


def submitted_id(action: Action) -> str:
    """The id of the job that a resubmission made; "" where it is not known (yet)."""
    answers = [str(call.get("answer", "")) for call in action.calls if call["operation"] == "submit"]
    return next((answer for answer in reversed(answers) if answer), "")


def earlier_calls(run_id: int, kind: ActionKind, *, before: datetime) -> list[float]:
    """Seconds from the first call of the run's newest actions of a kind until Slurm was seen to show their effect."""
    done = Action.objects.filter(incident__run=run_id, kind=kind, state=ActionState.CONVERGED, intended_at__lt=before)
    times = done.exclude(called_at=None).order_by("-pk").values_list("called_at", "observed_at")[:CALLS]
    return [max(0.0, (seen - called).total_seconds()) for called, seen in times if called and seen]


def new_key(incident: Incident, *, at: float) -> str:
    """One of a kind among the actions of this installation, and unlikely in any other: it is left on jobs and nodes."""
    number = Recommendation.objects.filter(incident=incident).count() + 1
    return f"incident-{incident.pk}-{number}-{int(at):x}"


def key_of(recommendation: Recommendation) -> str:
    old = f"incident-{recommendation.incident_id}-{recommendation.hash[:16]}-{recommendation.pk}"
    return str(recommendation.parameters.get("key", old))


def ended_by_us(attempt: Attempt) -> bool:
    """Whether a scheduler call of ours, rather than somebody else, ended this attempt."""
    actions = Action.objects.filter(incident__run=attempt.job.run_id, kind__in=ENDS_ATTEMPT, called_at__isnull=False)
    rows = actions.filter(incident__resolved_by_others=False).values_list("incident__attempt_id", "parameters")
    return any(parameters.get("attempt", failed) == attempt.pk for failed, parameters in rows)


def held_by_us(job: Job) -> bool:
    """Whether the job has an administrator's hold, and ours was the last thing that we did to it.

    What was started after our hold was let go by somebody: the hold that it has now is theirs. Or it waits in a held
    requeue of ours that was never released, because what was to follow failed.
    """
    if job.state_reason == HELD_BY_REQUEUE:
        return _requeued_held_by_us(job)
    if job.state_reason != "JobHeldAdmin":
        return False
    kinds = (ActionKind.HOLD, ActionKind.RELEASE)
    done = Action.objects.filter(incident__run=job.run_id, kind__in=kinds, state=ActionState.CONVERGED)
    attempts = dict(Attempt.objects.filter(job=job).values_list("pk", "started_at"))
    rows = done.order_by("-pk").select_related("incident")
    last = next((row for row in rows if row.parameters.get("attempt", row.incident.attempt_id) in attempts), None)
    if last is None or last.kind != ActionKind.HOLD or last.observed_at is None:
        return False
    return not any(started and started > last.observed_at for started in attempts.values())


def _requeued_held_by_us(job: Job) -> bool:
    """Whether a call of ours, which Slurm did not refuse, made this very requeue."""
    actions = Action.objects.filter(incident__run=job.run_id, kind=ActionKind.REQUEUE_EXCLUDING)
    last = Attempt.objects.filter(job=job, number=job.restart_count - 1).first()
    if last is None:
        return False
    return any(
        action.parameters.get("attempt", action.incident.attempt_id) == last.pk and "requeue_hold" in begun_in(action)
        for action in actions.select_related("incident")
    )
