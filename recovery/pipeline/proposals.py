"""What people can propose on a case: each action with its parameters, checked, said and exact. Nothing is stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recovery.core.diagnose.exits import HELD
from recovery.core.instead import Instead, restoring
from recovery.core.lifecycle import ActionState
from recovery.core.recommend import OF_ORIGIN
from recovery.core.speech import duration, listed, steps
from recovery.core.types import ActionKind, CheckpointState, JobState
from recovery.models import Action, Attempt, Checkpoint, Cluster, Incident, Job, Node
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.job_facts import restorable
from recovery.pipeline.scripts import check_environment, why_not_resubmitted
from recovery.pipeline.subject import MARK, held_by_us
from recovery.selectors import jobs_on_node
from recovery.slurm.base import HELD_BY_REQUEUE, SlurmClient

EXCLUDING = (ActionKind.REQUEUE_EXCLUDING, ActionKind.RESUBMIT)
LONGEST_S = 364 * 86_400.0  # Slurm takes a year for unlimited
TOO_GREAT = 1e15  # for any number that an action takes; a whole number of JSON may be too great for a float


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a person asks for. `attempt` is where the job stands now; `given` the parameters as they were typed."""

    incident: Incident
    attempt: Attempt
    given: Mapping[str, Any]
    exclude_nodes: tuple[str, ...]
    reason: str  # why the person wants it
    client: SlurmClient
    now: datetime

    @property
    def cluster(self) -> Cluster:
        return self.attempt.job.cluster

    @property
    def without(self) -> str:
        return f" without {listed(self.exclude_nodes)}" if self.exclude_nodes else ""


def build(action: ActionKind, asked: Asked) -> Instead:
    """The action as it will be shown and hashed. Raises Invalid, with sentences that name the field and the remedy."""
    known = {*_FIELDS.get(action, ())}
    errors = [f"parameters.{name}: {_why_unknown(action, name)}" for name in sorted({*asked.given} - known)]
    if asked.exclude_nodes and action not in EXCLUDING:
        errors.append(f"exclude_nodes: {action} excludes no nodes.")
    errors += _unknown_nodes(asked.cluster, asked.exclude_nodes)
    if errors:
        raise Invalid(errors)
    if why := _why_not_in_federation(action, asked.attempt):
        raise Invalid([f"action: {why}"])
    return _BUILDERS[action](asked)


def _why_not_in_federation(action: ActionKind, attempt: Attempt) -> str:
    """As core/plans judges it again before each call; "" where nothing speaks against it."""
    job = attempt.job
    if job.origin and action in OF_ORIGIN:
        return (
            f"the job was submitted on cluster {job.origin} of the federation; holds and exclusions are set there, by "
            "that cluster's own desk or by hand."
        )
    if action is ActionKind.HOLD and job.cluster.federation and attempt.state != JobState.PENDING:
        return "in a federation a job that runs is not held: when it is released Slurm starts it a second time."
    return ""


def _why_unknown(action: ActionKind, name: str) -> str:
    if name == "exclude_nodes" and action in EXCLUDING:
        return "nodes to exclude are named in exclude_nodes, beside parameters."
    return f"{action} has no such parameter."


def offered(attempt: Attempt) -> list[ActionKind]:
    """What makes sense where the job stands now, by what is stored: `build` has the last word."""
    job, state = attempt.job, JobState(attempt.state)
    waits, runs = state is JobState.PENDING, state is JobState.RUNNING
    ended = state in _ENDED
    held = job.state_reason in HELD or job.state_reason in ("JobHeldAdmin", HELD_BY_REQUEUE)
    rows = Node.objects.filter(cluster=job.cluster_id, name__in=attempt.nodes)
    ours = any(MARK in reason for reason in rows.values_list("reason", flat=True))
    fits = {
        ActionKind.REQUEUE: (runs or ended) and job.requeueable,
        ActionKind.REQUEUE_EXCLUDING: (runs or ended) and job.requeueable,
        ActionKind.RELEASE: waits and held,
        ActionKind.HOLD: runs or (waits and not job.held),
        ActionKind.CANCEL: runs or waits,
        ActionKind.RESUBMIT: runs or waits or ended,
        ActionKind.EXTEND_TIME_LIMIT: (runs or waits) and job.time_limit_s is not None,
        ActionKind.DRAIN: bool(attempt.nodes),
        ActionKind.RESUME: ours,
        ActionKind.RESTORE_OLDER: waits or ended,
        ActionKind.NOTHING: True,
    }
    return [kind for kind, fit in fits.items() if fit and not _why_not_in_federation(kind, attempt)]


def _unknown_nodes(cluster: Cluster, names: Sequence[str]) -> list[str]:
    known = set(Node.objects.filter(cluster=cluster, name__in=names).values_list("name", flat=True))
    return [f"exclude_nodes: {cluster.name} has no node {name[:50]}." for name in names if name not in known]


def _state(asked: Asked, *states: JobState) -> None:
    state = JobState(asked.attempt.state)
    if state not in states:
        raise Invalid([f"action: the job is {state} now; that is only for one that is {' or '.join(states)}."])


_ENDED = tuple(state for state in JobState if state.is_terminal and state not in (JobState.CANCELLED, JobState.REVOKED))


def _requeue(asked: Asked) -> Instead:
    _state(asked, JobState.RUNNING, *_ENDED)
    if not asked.attempt.job.requeueable:
        raise Invalid(["action: Slurm may not requeue this job (--no-requeue); resubmit it instead."])
    verb = "Stop and requeue" if asked.attempt.state == JobState.RUNNING else "Requeue"
    kind = ActionKind.REQUEUE_EXCLUDING if asked.exclude_nodes else ActionKind.REQUEUE
    return Instead(action=kind, headline=f"{verb} the job{asked.without}.")


def _requeue_excluding(asked: Asked) -> Instead:
    if not asked.exclude_nodes:
        raise Invalid(["exclude_nodes: name at least one node, or requeue without an exclusion."])
    return _requeue(asked)


def _release(asked: Asked) -> Instead:
    _state(asked, JobState.PENDING)
    job = asked.attempt.job
    if job.state_reason in HELD:
        return Instead(
            action=ActionKind.RELEASE, headline="Release the job, which Slurm itself holds.", parameters={"of": "slurm"}
        )
    if held_by_us(job):
        return Instead(action=ActionKind.RELEASE, headline="Release the job, which we hold.", parameters={"of": "us"})
    raise Invalid(["action: the job is not held by Slurm or by us; a hold of somebody else is never released."])


def _hold(asked: Asked) -> Instead:
    _state(asked, JobState.PENDING, JobState.RUNNING)
    late = " when it is put back into the queue" if asked.attempt.state == JobState.RUNNING else ""
    return Instead(action=ActionKind.HOLD, headline=f"Hold the job{late}.")


def _cancel(asked: Asked) -> Instead:
    _state(asked, JobState.PENDING, JobState.RUNNING)
    return Instead(action=ActionKind.CANCEL, headline="Cancel the job for good.")


def _extend(asked: Asked) -> Instead:
    _state(asked, JobState.PENDING, JobState.RUNNING)
    present, seconds = asked.attempt.job.time_limit_s, _number(asked.given.get("seconds"), "seconds")
    if present is None:
        raise Invalid(["action: the job has no time limit."])
    if not present < seconds <= LONGEST_S:
        raise Invalid([f"parameters.seconds: must be more than the present limit of {present:g} s, and below a year."])
    wanted = 60.0 * math.ceil(seconds / 60)
    return Instead(
        action=ActionKind.EXTEND_TIME_LIMIT,
        headline=f"Extend the time limit by {duration(wanted - present)} to {duration(wanted)}.",
        reasons=("Slurm lets only its operators extend a limit; where we are none it refuses, and says so.",),
        parameters={"seconds": wanted, "from_s": present},
    )


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < TOO_GREAT:
        raise Invalid([f"parameters.{name}: must be a number."])
    return float(value)


def _node(asked: Asked) -> Node:
    name = asked.given.get("node", "")
    found = Node.objects.filter(cluster=asked.cluster, name=name).first() if _is_word(name) else None
    if found is None:
        raise Invalid([f"parameters.node: {asked.cluster.name} has no node {str(name)[:50]!r}."])
    return found


def _is_word(value: Any) -> bool:
    """Whether a database can be asked for it: no NUL, no half of a character pair."""
    return isinstance(value, str) and value.isprintable()


def _drain(asked: Asked) -> Instead:
    node = _node(asked)
    if node.name not in {*asked.incident.attempt.nodes, *asked.attempt.nodes}:
        raise Invalid([f"parameters.node: the job of this case did not run on {node.name}."])
    if "DRAIN" in node.raw_state.upper():
        raise Invalid([f"parameters.node: {node.name} is drained already: {node.reason or 'without a reason'}"])
    return draining(node, asked.attempt.job, why=asked.reason[:200])


def draining(node: Node, job: Job, *, why: str, again: str = "") -> Instead:
    """With who is on the node by the last picture; that is asked anew when it is done."""
    reasons = [f"It takes no new job then. Not done while jobs of others run on {node.name}."]
    others = jobs_on_node(node.name, cluster_id=node.cluster_id, besides=job.job_id)
    if others and (seen_at := node.cluster.seen_at) is not None:
        there = listed(f"job {other}" for other in others)
        reasons.append(f"At {seen_at:%H:%M:%S} UTC Slurm showed {there} on it: until they end it would be refused.")
    return Instead(
        action=ActionKind.DRAIN, headline=f"Take {node.name} out of service{again} (drain).",
        reasons=tuple(reasons), parameters={"node": node.name, "why": why},
    )  # fmt: skip


def _resume(asked: Asked) -> Instead:
    node = _node(asked)
    drained = [a for a in _drains(asked.cluster, node.name) if f"{MARK}{a.parameters['key']}" in node.reason]
    if not drained:
        raise Invalid([f"parameters.node: {node.name} was not drained by us; whoever drained it can resume it."])
    if "DOWN" in node.raw_state.upper():
        raise Invalid([f"parameters.node: {node.name} is down: its health must be seen first."])
    return resuming(drained[-1])


def _drains(cluster: Cluster, node: str) -> list[Action]:
    rows = Action.objects.filter(incident__run__cluster=cluster, kind=ActionKind.DRAIN, state=ActionState.CONVERGED)
    return [row for row in rows.order_by("pk") if row.parameters["node"] == node]


def resuming(drain: Action) -> Instead:
    name = drain.parameters["node"]
    return Instead(
        action=ActionKind.RESUME, headline=f"Give {name} back to service (resume).",
        reasons=("Done only where Slurm reaches it, and its reason is still ours.",),
        parameters={"node": name, "drained_by": drain.parameters["key"]},
    )  # fmt: skip


def _resubmit(asked: Asked) -> Instead:
    _state(asked, JobState.PENDING, JobState.RUNNING, *_ENDED)
    job, given = asked.attempt.job, dict(asked.given)
    if why := why_not_resubmitted(job, client=asked.client):
        raise Invalid([f"action: {why}"])
    if "time_limit_s" in given and not 60 <= _number(given["time_limit_s"], "time_limit_s") <= LONGEST_S:
        raise Invalid(["parameters.time_limit_s: must be from a minute to a year."])
    if "environment" in given and (wrong := check_environment(given["environment"])):
        raise Invalid([f"parameters.environment: {wrong}"])
    verb = "Submit the job again" if asked.attempt.state in _ENDED else "Cancel the job and submit it again"
    return Instead(
        action=ActionKind.RESUBMIT, headline=f"{verb}{asked.without}.",
        reasons=(
            f"The stored batch script is submitted as {job.user}, with {job.user}'s login environment.",
            f"Jobs that wait for job {job.job_id} (--dependency) go on waiting for the old id: tell their owners.",
        ),
        parameters=given | ({"forgotten": True} if job.is_forgotten else {}),
    )  # fmt: skip


def _restore_older(asked: Asked) -> Instead:
    _state(asked, *_ENDED, JobState.PENDING)
    given = _number(asked.given.get("step"), "step")
    if not given.is_integer():
        raise Invalid(["parameters.step: must be a whole number."])
    step = int(given)
    run = asked.attempt.job.run_id
    whole = Checkpoint.objects.filter(run=run, state=CheckpointState.COMPLETE)
    if not whole.filter(step=step).exists():
        known = listed(steps(row.step) for row in whole.order_by("-step")[:3])
        raise Invalid([f"parameters.step: no complete checkpoint of step {step} is known; complete are {known}."])
    found = restorable(asked.attempt, step=step)
    if found is None:
        raise Invalid(["action: no tracker file that we know stands beside that checkpoint."])
    if found.why_not:
        by_hand = f"Its owner can do it: echo {found.write} > {found.folder}/{found.tracker}"
        raise Invalid([f"action: {found.why_not} {by_hand}"])
    if found.write == found.old:
        raise Invalid([f"parameters.step: {found.tracker} says {found.old} already; requeue the job instead."])
    proposal = restoring(found, headline=f"Restore checkpoint {steps(step)}.")
    if asked.attempt.state == JobState.PENDING:
        proposal.parameters["then"] = ""
    return proposal


def _nothing(asked: Asked) -> Instead:
    return Instead(action=ActionKind.NOTHING, headline="Do nothing to the job.")


_FIELDS: dict[ActionKind, tuple[str, ...]] = {
    ActionKind.EXTEND_TIME_LIMIT: ("seconds",),
    ActionKind.DRAIN: ("node",),
    ActionKind.RESUME: ("node",),
    ActionKind.RESUBMIT: ("time_limit_s", "environment"),
    ActionKind.RESTORE_OLDER: ("step",),
}

_BUILDERS: dict[ActionKind, Callable[[Asked], Instead]] = {
    ActionKind.REQUEUE: _requeue,
    ActionKind.REQUEUE_EXCLUDING: _requeue_excluding,
    ActionKind.RELEASE: _release,
    ActionKind.HOLD: _hold,
    ActionKind.CANCEL: _cancel,
    ActionKind.RESUBMIT: _resubmit,
    ActionKind.EXTEND_TIME_LIMIT: _extend,
    ActionKind.DRAIN: _drain,
    ActionKind.RESUME: _resume,
    ActionKind.RESTORE_OLDER: _restore_older,
    ActionKind.NOTHING: _nothing,
}
