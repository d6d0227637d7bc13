"""Part of act: reasons not to begin that the scheduler's answer on the job does not show."""

from __future__ import annotations

from datetime import datetime, timedelta

from recovery.core.eligible import Eligible
from recovery.core.plans import Next, Step
from recovery.core.plans.base import refuse
from recovery.core.policy import frozen_by
from recovery.core.speech import steps
from recovery.core.types import PUT_BACK, ActionKind, DecisionKind, FindingKind, JobState
from recovery.models import Action, Attempt, Cluster, Decision, Incident, Job, Node, Run
from recovery.pipeline.decide import halted
from recovery.pipeline.eligible import eligible_nodes
from recovery.pipeline.facts import current_rules
from recovery.pipeline.fleet import why_held
from recovery.pipeline.observe import as_read
from recovery.pipeline.others import in_records, in_the_way
from recovery.pipeline.recommend import shown_hash
from recovery.pipeline.subject import held_by_us, submitted_id
from recovery.selectors import current_policy
from recovery.slurm.base import HELD_BY_PEOPLE, JobRecord, SlurmClient, SlurmError

LEFT_FOR_UNDO = timedelta(minutes=5)  # a limit is not set back where the job would reach it at once
IN_HEALTH = timedelta(minutes=1)  # so long a node must have been seen without a fault before it is resumed


def veto(
    action: Action, attempt: Attempt, record: JobRecord | None, *, client: SlurmClient, now: datetime
) -> Next | None:
    """Reasons not to begin. Once begun, an action is brought to its end."""
    cluster = attempt.job.cluster
    cluster.refresh_from_db()
    attempt.refresh_from_db()
    if record is not None and record.submitted_at != attempt.submitted_at:
        return other_job(begun=False)
    if cluster.is_stale(now):
        return Next(step=Step.WAIT, reason="The picture of the cluster is too old to act on.")
    if record is not None and record.origin and (wait := _out_of_step(record.origin, client)):
        return wait
    if why := why_stopped(action, now=now):
        return refuse(why)
    why = _moves(action, attempt, record) or _is_held(action, record) or why_held(action)
    if why:
        return refuse(why)
    if shown_hash(action.recommendation, attempt) != action.recommendation.hash:
        return refuse("the job is not as it was when this was decided")
    return _special(action, attempt, record, now=now) or _taken_up(action, attempt, client=client)


def _out_of_step(origin: str, client: SlurmClient) -> Next | None:
    """What is asked of a job is done by the cluster where it was submitted. Asked when that one is just starting, 22.05
    put the job back on neither of the two, and it stayed so (seen there).
    """
    try:
        health = client.health()
    except SlurmError:
        return Next(step=Step.WAIT, reason="The scheduler gives no trustworthy answer.")
    if origin not in health.unsynced:
        return None
    where = f"Cluster {origin} of the federation, where the job was submitted,"
    return Next(step=Step.WAIT, reason=f"{where} is down or not yet in step with this one.")


def midway(action: Action, attempt: Attempt, record: JobRecord | None, step: Step, *, now: datetime) -> Next | None:
    """Reasons not to go on with what was begun: what the next call rests on is asked again."""
    if action.kind == ActionKind.RESUBMIT and step is Step.CANCEL:
        attempt.refresh_from_db()
        if why := _moves(action, attempt, record):
            stays = f"the new job {submitted_id(action)} waits, held: cancel it"
            return Next(step=Step.FAIL, reason=f"It was begun, but {why}; {stays}.")
    if step is Step.SET_EXCLUDED_NODES and record is not None:
        return _exclusion_midway(action, as_read(attempt.job, record), now=now)
    return None


def _exclusion_midway(action: Action, job: Job, *, now: datetime) -> Next | None:
    """While the old attempt was completing, nodes may have gone, too."""
    places, few = _places_left(action, job, now=now)
    if places.nodes is None:
        return Next(step=Step.WAIT, reason=f"How many nodes would remain is not known. {places.reason}")
    return Next(step=Step.FAIL, reason=f"Nothing was excluded: {few}.") if few else None


def why_stopped(action: Action, *, now: datetime) -> str:
    """What people, or the policy, have said since it was decided that keeps it from being begun; "" where nothing."""
    decision = Decision.objects.select_related("recommendation").get(recommendation=action.recommendation_id)
    cluster, automatic = action.incident.run.cluster, decision.kind == DecisionKind.AUTO
    if automatic and (reason := halted(cluster)) is not None:
        return f"automation is paused ({reason})"
    run = Run.objects.get(pk=action.incident.run_id)
    if automatic and run.hands_off_at is not None:
        return f"{run.hands_off_by} has taken over"
    if automatic and (policy := current_policy()) is not None and policy.pk != decision.recommendation.policy_id:
        return f"policy version {policy.number} holds by now"
    freeze = frozen_by(current_rules(), cluster=cluster.name, now=now)
    if freeze is not None and freeze.name != decision.overrode:
        return f"{freeze.name} has begun, a freeze until {freeze.ends:%Y-%m-%d %H:%M} UTC"
    return ""


def _taken_up(action: Action, attempt: Attempt, *, client: SlurmClient) -> Next | None:
    """Whether the run was submitted anew meanwhile, perhaps since our last picture: all jobs are read once more."""
    kind, job = ActionKind(action.kind), attempt.job
    if not kind.restarts:
        return None
    try:
        others = in_records(action, job, client.jobs())
    except SlurmError:
        return Next(step=Step.WAIT, reason="The scheduler gives no trustworthy answer.")
    found = in_the_way(kind, job, others, action.incident)
    return refuse(found.why) if found is not None else None


def other_job(*, begun: bool) -> Next:
    what = "the job id now belongs to another submission"
    if begun:
        return Next(step=Step.FAIL, reason=f"It was begun, but {what}: nothing more is done.")
    return refuse(what)


def _moves(action: Action, attempt: Attempt, record: JobRecord | None) -> str:
    """A job that hung and moves again is left alone: what was decided on is over."""
    incident = action.incident
    if record is None or record.state is not JobState.RUNNING or attempt.pk != incident.attempt_id:
        return ""
    stops = ActionKind(action.kind).ends_attempt and incident.kind != FindingKind.SLOWDOWN
    if stops and moved_since(incident, attempt):
        return f"the job moves again, at step {steps(attempt.last_step)}"
    return ""


def moved_since(incident: Incident, attempt: Attempt) -> bool:
    """Whether a step was read after the fault began, at whatever number: a restart within the attempt goes back."""
    return attempt.last_progress_at is not None and attempt.last_progress_at > incident.failed_at


def _is_held(action: Action, record: JobRecord | None) -> str:
    """Somebody else's hold would be in the way of a job that is put back."""
    put_back = ActionKind(action.kind) in PUT_BACK and record is not None
    if put_back and record is not None and record.state_reason in HELD_BY_PEOPLE:
        return "somebody holds the job, and that hold is not ours"
    return ""


def _special(action: Action, attempt: Attempt, record: JobRecord | None, *, now: datetime) -> Next | None:
    kind = ActionKind(action.kind)
    if action.exclude_nodes and record is not None:
        return _exclusion(action, as_read(attempt.job, record), now=now)
    if kind is ActionKind.RELEASE and action.parameters["of"] == "us" and not held_by_us(as_read(attempt.job, record)):
        return refuse("the job is held, but not by us: that hold is not ours to release")
    if kind is ActionKind.EXTEND_TIME_LIMIT and record is not None:
        return _too_short(action, record, now=now)
    if kind is ActionKind.RESUME:
        return _unhealthy(action.parameters["node"], attempt.job.cluster, now=now)
    return None


def _exclusion(action: Action, job: Job, *, now: datetime) -> Next | None:
    """An exclusion never leaves the job fewer nodes than it needs; nodes may have gone since it was proposed."""
    wanted = set(action.exclude_nodes) & set(job.required_nodes)
    if wanted:
        reason = f"The job was submitted for {', '.join(sorted(wanted))} by name: without it, it could never start."
        return Next(step=Step.FAIL, reason=reason)
    places, few = _places_left(action, job, now=now)
    if places.nodes is None:
        reason = f"Nothing was done: how many nodes would remain is not known. {places.reason}"
        return Next(step=Step.REFUSE, reason=reason)
    return refuse(few) if few else None


def _places_left(action: Action, job: Job, *, now: datetime) -> tuple[Eligible, str]:
    """Where the job could start without what is to be excluded, and why that is not enough, as a clause."""
    places = eligible_nodes(job, now=now)
    left = set(places.nodes or ()) - set(action.exclude_nodes)
    few = f"only {len(left)} eligible nodes would remain, the job needs {job.node_count}"
    return places, few if len(left) < job.node_count else ""


def _too_short(action: Action, record: JobRecord, *, now: datetime) -> Next | None:
    """Setting a limit back must not end the job."""
    if record.started_at is None or record.state is not JobState.RUNNING:
        return None
    if record.started_at + timedelta(seconds=action.parameters["seconds"]) < now + LEFT_FOR_UNDO:
        return refuse("the job has reached that limit already, or is about to: it would be ended")
    return None


def _unhealthy(name: str, cluster: Cluster, *, now: datetime) -> Next | None:
    """Its health must have been seen for a while by our own pictures too, not in one answer alone."""
    node = Node.objects.filter(cluster=cluster, name=name).first()
    if node is None or not seen_in_health(node, now=now):
        return refuse(f"{name} was not seen in health for {IN_HEALTH.seconds // 60} min yet")
    return None


def seen_in_health(node: Node, *, now: datetime) -> bool:
    """Long enough to give it back to service; the undo of a drain is offered from then on."""
    return "DOWN" not in node.raw_state.upper() and now - node.changed_at >= IN_HEALTH
