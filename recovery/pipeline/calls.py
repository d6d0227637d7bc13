"""Part of act: the calls themselves, and how each is shown before and after it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from recovery.core.plans import Step
from recovery.core.speech import duration, listed
from recovery.core.types import ActionKind, JobState
from recovery.models import Action, Attempt, Job
from recovery.pipeline.observe import as_read
from recovery.pipeline.scripts import submission_of
from recovery.pipeline.subject import MARK, submitted_id
from recovery.slurm.base import JobRecord, Operation, SlurmClient, SlurmRefused
from recovery.sources.beneath import NotThere, Refused
from recovery.sources.trackers import read_tracker, write_tracker

MAX_ADMIN_COMMENT = 1000  # characters that back ends take


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What the calls of one action are made on: `job`, and its admin comment `comment`, as they were just read."""

    kind: ActionKind
    job: Job
    parameters: Mapping[str, Any]
    exclude_nodes: tuple[str, ...]
    comment: str = ""
    new_id: str = ""  # of the job that a resubmission made

    @property
    def nodes(self) -> tuple[str, ...]:
        return merged_exclusion(self.job.excluded_nodes, self.exclude_nodes)

    def released(self) -> str:
        return (self.new_id or "NEW-JOB") if self.kind is ActionKind.RESUBMIT else self.job.job_id


def target_of(action: Action, attempt: Attempt, record: JobRecord | None) -> Target:
    """`record`: the job as it was just read. What its user or an admin changed since our picture is not undone."""
    return Target(
        kind=ActionKind(action.kind), job=as_read(attempt.job, record), parameters=action.parameters,
        new_id=submitted_id(action), exclude_nodes=tuple(action.exclude_nodes),
        comment=record.admin_comment if record is not None else "",
    )  # fmt: skip


def merged_exclusion(present: Sequence[str], added: Sequence[str]) -> tuple[str, ...]:
    """The job's own exclusions stay; ours come on top."""
    return tuple(sorted({*present, *added}))


def marked(comment: str, key: str) -> str:
    """The admin comment with our key: what others wrote there stays, an older key of ours goes. "" where it is full."""
    kept = [word for word in comment.split(" ") if word and not word.startswith(MARK)]
    text = " ".join([*kept, f"{MARK}{key}"])
    return text if len(text) <= MAX_ADMIN_COMMENT else ""


# --- making calls -----------------------------------------------------------------------------------------------------


def make(step: Step, target: Target, client: SlurmClient) -> str:
    """Make one call; what it answers (of a submission: the new job's id), else "". Raises SlurmError."""
    return _CALLS[step](target, client) or ""


def _write(target: Target, client: SlurmClient) -> None:
    given, tried = target.parameters, f"write {target.parameters['folder']}/{target.parameters['tracker']}"
    tracker = read_tracker(given["folder"], roots=settings.CHECKPOINT_ROOTS)
    if tracker is None or tracker.content != given["old"]:
        raise SlurmRefused("it is not what it was", tried=tried, permanent=True)
    try:
        write_tracker(tracker, given["write"], keep_as=kept_as(given), roots=settings.CHECKPOINT_ROOTS)
    except (Refused, NotThere, OSError) as error:
        raise SlurmRefused(str(error) or "it is not there", tried=tried, permanent=True) from error


def kept_as(parameters: Mapping[str, Any]) -> str:
    return f"{parameters['tracker']}.before-{parameters['key']}"


_CALLS: dict[Step, Callable[[Target, SlurmClient], str | None]] = {
    Step.REQUEUE: lambda target, client: client.requeue(target.job.job_id, hold=False),
    Step.REQUEUE_HOLD: lambda target, client: client.requeue(target.job.job_id, hold=True),
    Step.SET_EXCLUDED_NODES: lambda target, client: client.set_excluded_nodes(target.job.job_id, target.nodes),
    Step.RELEASE: lambda target, client: client.release(target.released()),
    Step.HOLD: lambda target, client: client.hold(target.job.job_id),
    Step.CANCEL: lambda target, client: client.cancel(target.job.job_id),
    Step.SET_TIME_LIMIT: lambda target, client: client.set_time_limit(target.job.job_id, target.parameters["seconds"]),
    Step.SET_ADMIN_COMMENT: lambda target, client: client.set_admin_comment(
        target.job.job_id, marked(target.comment, target.parameters["key"])
    ),
    Step.DRAIN_NODE: lambda target, client: client.drain_node(target.parameters["node"], drain_reason(target)),
    Step.RESUME_NODE: lambda target, client: client.resume_node(target.parameters["node"]),
    Step.SUBMIT: lambda target, client: client.submit(
        submission_of(target.job, target.parameters, target.exclude_nodes)
    ),
    Step.WRITE_TRACKER: _write,
}


def drain_reason(target: Target) -> str:
    return f"{MARK}{target.parameters['key']} {target.parameters.get('why', '')}".strip()


# --- showing them -----------------------------------------------------------------------------------------------------

# The calls of each action in their order; that of the key comes where Slurm lets us leave it.
_ORDER: dict[ActionKind, tuple[Step, ...]] = {
    ActionKind.REQUEUE: (Step.REQUEUE,),
    ActionKind.REQUEUE_EXCLUDING: (Step.REQUEUE_HOLD, Step.SET_EXCLUDED_NODES, Step.RELEASE),
    ActionKind.RELEASE: (Step.RELEASE,),
    ActionKind.HOLD: (Step.HOLD,),
    ActionKind.CANCEL: (Step.CANCEL,),
    ActionKind.RESUBMIT: (Step.SUBMIT, Step.CANCEL, Step.RELEASE),
    ActionKind.EXTEND_TIME_LIMIT: (Step.SET_TIME_LIMIT,),
    ActionKind.DRAIN: (Step.DRAIN_NODE,),
    ActionKind.RESUME: (Step.RESUME_NODE,),
    ActionKind.RESTORE_OLDER: (Step.WRITE_TRACKER, Step.REQUEUE),
    ActionKind.NOTHING: (),
}


def lacking(kind: ActionKind, client: SlurmClient) -> str:
    """Which of the action's calls the cluster has none of, with the remedy; "" where it has all."""
    asked = (client.can(Operation(step)) for step in _ORDER[kind] if step is not Step.WRITE_TRACKER)
    return next((f"{can.reason} {can.remedy}".strip() for can in asked if not can), "")


def preview(target: Target, client: SlurmClient) -> list[str]:
    """The exact operations of an action, in order. Raises SlurmError for what can't be."""
    steps = list(_ORDER[target.kind])
    if target.kind is ActionKind.RESUBMIT and JobState(target.job.state).is_terminal:
        steps.remove(Step.CANCEL)
    if target.kind is ActionKind.RESTORE_OLDER and target.parameters.get("then") != "requeue":
        steps.remove(Step.REQUEUE)
    return [command(step, target, client) for step in steps]


def command(step: Step, target: Target, client: SlurmClient) -> str:
    """One call as it is run, in a line."""
    job_id, given = target.job.job_id, target.parameters
    match step:
        case Step.SET_EXCLUDED_NODES:
            return client.preview(Operation.SET_EXCLUDED_NODES, job_id, nodes=target.nodes)
        case Step.RELEASE:
            return (
                client.preview(Operation.RELEASE, target.released())
                if target.new_id or not _is_new(target)
                else "release, of the new job: its id is not known yet"
            )
        case Step.SET_TIME_LIMIT:
            return client.preview(Operation.SET_TIME_LIMIT, job_id, value=str(given["seconds"]))
        case Step.SET_ADMIN_COMMENT:
            return client.preview(Operation.SET_ADMIN_COMMENT, job_id, value=marked(target.comment, given["key"]))
        case Step.DRAIN_NODE:
            return client.preview(Operation.DRAIN_NODE, given["node"], value=drain_reason(target))
        case Step.RESUME_NODE:
            return client.preview(Operation.RESUME_NODE, given["node"])
        case Step.SUBMIT:
            return _submission(target)
        case Step.WRITE_TRACKER:
            where = f"{given['folder']}/{given['tracker']}"
            return (
                f"write {given['write']} to {where}, as {given['writer']}; {given['old']} is kept as {kept_as(given)}"
            )
    return client.preview(Operation(step.value), job_id)


def _is_new(target: Target) -> bool:
    return target.kind is ActionKind.RESUBMIT


def _submission(target: Target) -> str:
    """What is handed to sbatch, in words: the script is too long for a line."""
    what = submission_of(target.job, target.parameters, target.exclude_nodes)
    changes = [f"without {listed(what.excluded_nodes)}" if what.excluded_nodes else ""]
    changes.append(f"with a time limit of {duration(what.time_limit_s)}" if what.time_limit_s else "")
    changes += [f"{name}={value}" for name, value in what.environment.items()]
    said = ", ".join(filter(None, changes))
    task = f", task {target.job.job_id.partition('_')[2]} alone" if "_" in target.job.job_id else ""
    head = f"sbatch --hold, as {what.user} in {what.work_dir}: the script of job {target.job.job_id}{task}"
    return f"{head}, {said}" if said else head
