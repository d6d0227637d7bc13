"""The recommendation: what to do about a diagnosis, what it will cost, and why.

Pure: the pipeline adds the exact scheduler operations, stores and hashes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recovery.core.fleet import held_back
from recovery.core.instead import Around, instead_of_nothing, resubmission
from recovery.core.node_memory import avoidable
from recovery.core.speech import counted, listed, steps
from recovery.core.types import (
    ActionKind,
    AttemptFacts,
    CheckpointFact,
    CheckpointState,
    Diagnosis,
    Exclude,
    FailureClass,
    JobState,
    PastFailure,
    Proposal,
    Restart,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFacts:
    """What a proposal needs to know of the job beside the attempt.

    `eligible_nodes`: those of recovery/core/eligible.py; None where that is not known, for `eligible_reason`.
    `excluded_nodes`: its present exclusions, ours and others'. `forgotten`: the controller no longer knows the job.
    """

    job_id: str
    requeueable: bool
    node_count: int
    gpus: int
    eligible_nodes: tuple[str, ...] | None
    excluded_nodes: tuple[str, ...]
    held: bool
    step_time_s: float | None
    user: str
    requeue_delay_s: float
    eligible_reason: str = ""
    required_nodes: tuple[str, ...] = ()
    forgotten: bool = False
    delay_measured: bool = True  # else the delay is Slurm's default, not what this cluster said
    around: Around = field(default_factory=Around)
    outbreak: str = ""  # number of the open outbreak that its failure is part of: no node is left out meanwhile
    federation: str = ""  # that its cluster is in
    origin: str = ""  # the other cluster of it where the job was submitted
    avoid: tuple[str, ...] = ()  # suspects that the policy lets a restart keep away from, the worst first
    room: int = 0  # so many more nodes the breaker's caps let us exclude


def recommend(
    diagnosis: Diagnosis, facts: AttemptFacts, job: JobFacts, history: Sequence[PastFailure] = ()
) -> Proposal:
    """One proposal. NOTHING is one too, with its reason and what a person can do instead."""
    checkpoint = newest_complete(facts)
    alone = [past for past in history if not past.shared]  # what failed with others tells of no loop of its own
    if job.origin and (nothing := _why_not_from_here(diagnosis, facts, job, alone)):
        return _proposal(ActionKind.NOTHING, (), nothing, (diagnosis.reason,), checkpoint, facts, job)
    if not job.forgotten and (found := instead_of_nothing(diagnosis, facts, job.around, alone, held=job.held)):
        said = (diagnosis.reason, *found.reasons)
        return _proposal(found.action, (), found.headline, said, checkpoint, facts, job, parameters=found.parameters)
    nothing = _why_nothing(diagnosis, facts, job)
    if nothing:
        again = _resubmit(diagnosis, facts, job, checkpoint)
        return again or _proposal(ActionKind.NOTHING, (), nothing, (diagnosis.reason,), checkpoint, facts, job)
    nodes, note = _exclusion(diagnosis, job)
    suspects = _suspects(nodes, job)
    nodes += suspects
    action = ActionKind.REQUEUE_EXCLUDING if nodes else ActionKind.REQUEUE
    kept_away = f"Left out as suspects: {listed(suspects)}; failures of other runs began there." if suspects else ""
    anywhere = (
        "Slurm may start it again on any cluster of its federation that it may use; it is followed on this one alone."
    )
    reasons = [diagnosis.reason, note, kept_away, _checkpoint_reason(checkpoint, facts), _delay(job), *_past(history)]
    reasons.append(anywhere if job.federation else "")
    headline = _headline(nodes, checkpoint, facts)
    return _proposal(action, nodes, headline, tuple(filter(None, reasons)), checkpoint, facts, job)


def left_alone(proposal: Proposal, *, why: str, job_id: str) -> Proposal:
    """Nothing, instead of a restart: `why`, a clause, another job of the run goes on with it."""
    headline = f"Do nothing: {why}. Two must never write to one checkpoint folder."
    return replace(
        proposal, action=ActionKind.NOTHING, exclude_nodes=(), headline=headline, parameters={"taken_up": job_id}
    )


# --- when nothing is to be done ---------------------------------------------------------------------------------------


def _why_nothing(diagnosis: Diagnosis, facts: AttemptFacts, job: JobFacts) -> str:
    """The headline of doing nothing, with what to do instead; "" where a restart is to be proposed."""
    if job.around.held_by_us:
        return "Wait: we hold the job, as was decided. Undo the hold when it may start again."
    if facts.requeued_by_slurm or facts.state is JobState.REQUEUED:
        return "Do nothing: Slurm has already requeued it; we watch whether it restores."
    if diagnosis.failure_class is FailureClass.EXTERNAL_CANCEL or facts.state is JobState.CANCELLED:
        who = facts.cancelled_by or "somebody"
        return (
            f"Do nothing: {who} cancelled the job, and a cancelled job is never restarted. Its user can submit it anew."
        )
    if diagnosis.failure_class is FailureClass.STRAGGLER:
        return "Do nothing to the job: it runs, but slowly. Look at its nodes; a restart is a person's choice."
    if diagnosis.restart is Restart.AFTER_CHANGE:
        return "Do not restart: a person must change something first; the same again would fail the same way."
    if diagnosis.restart is Restart.NO:
        return "Do nothing: a restart would be pointless or unwanted."
    if diagnosis.exclude is Exclude.HOLD:
        return "Wait: this looks like an incident of the fabric or the storage. Requeue by hand when it is over."
    return _why_not_this_job(job)


# What holds the job on the way, or excludes nodes: in a federation its origin alone can do that and go on seeing it.
OF_ORIGIN = frozenset({ActionKind.HOLD, ActionKind.RELEASE, ActionKind.RESTORE_OLDER, ActionKind.REQUEUE_EXCLUDING})


def _why_not_from_here(diagnosis: Diagnosis, facts: AttemptFacts, job: JobFacts, history: Sequence[PastFailure]) -> str:
    found = instead_of_nothing(diagnosis, facts, job.around, history, held=job.held)
    if found is None or found.action not in OF_ORIGIN:
        return ""
    return (
        f"Do nothing from here: the job was submitted on cluster {job.origin} of the federation, and what would help "
        f"({found.action.replace('_', ' ')}) can only be done there."
    )


def _why_not_this_job(job: JobFacts) -> str:
    """What stands in the way of a requeue on the side of Slurm."""
    if job.forgotten and job.origin:
        return (
            f"Slurm no longer lists this job here. It was submitted on cluster {job.origin} of the federation, and "
            "another cluster may have it: look there before anybody submits it anew."
        )
    if job.forgotten:
        return f"Slurm no longer knows this job, so that nothing can be done with it: {job.user} must submit it anew."
    if job.held and not job.around.held_by_slurm:
        return f"Do nothing: somebody holds the job. Its holder can release it: scontrol release {job.job_id}."
    if not job.requeueable:
        return f"Slurm may not requeue this job (--no-requeue): {job.user} must submit it anew."
    return ""


def _resubmit(
    diagnosis: Diagnosis, facts: AttemptFacts, job: JobFacts, checkpoint: CheckpointFact | None
) -> Proposal | None:
    """Where Slurm may not, or can no longer, requeue the job, and its script is stored."""
    restartable = diagnosis.restart in (Restart.YES, Restart.ONCE) and diagnosis.exclude is not Exclude.HOLD
    if job.around.resubmit_why_not or not restartable or job.held or not (job.forgotten or not job.requeueable):
        return None
    nodes, note = _exclusion(diagnosis, job)
    why = "Slurm no longer knows the job." if job.forgotten else "Slurm may not requeue this job (--no-requeue)."
    found = resubmission(job.job_id, job.user, nodes, forgotten=job.forgotten, why=why, tail=_tail(checkpoint, facts))
    reasons = (diagnosis.reason, note, _checkpoint_reason(checkpoint, facts), *found.reasons)
    return _proposal(
        found.action, nodes, found.headline, tuple(filter(None, reasons)), checkpoint, facts, job,
        parameters=found.parameters,
    )  # fmt: skip


# --- exclusion --------------------------------------------------------------------------------------------------------


def _exclusion(diagnosis: Diagnosis, job: JobFacts) -> tuple[tuple[str, ...], str]:
    """The nodes to exclude anew, and what to say about nodes that should be but can't.

    An exclusion never leaves the job fewer eligible nodes than it needs, and where that can't be counted there is none.
    """
    if diagnosis.exclude is not Exclude.NODES:
        return (), ""
    nodes = tuple(n for n in dict.fromkeys(diagnosis.nodes) if n not in job.excluded_nodes)
    if not nodes:
        return (), f"{listed(diagnosis.nodes)} is already excluded."
    if job.outbreak:
        return (), held_back(nodes, job.outbreak)
    if job.origin:
        return (), (
            f"{listed(nodes)} should be left out, but the job was submitted on cluster {job.origin} of the federation, "
            "and only there exclusions can be set: not excluded, so it may land there again."
        )
    by_name = [node for node in nodes if node in job.required_nodes]
    if by_name:
        return (), f"{listed(by_name)} should be left out, but the job was submitted for it by name: not excluded."
    if job.eligible_nodes is None:
        why = f" {job.eligible_reason}" if job.eligible_reason else ""
        unknown = "should be left out, but how many nodes would remain is not known: not excluded."
        return (), f"{listed(nodes)} {unknown}{why}"
    left = set(job.eligible_nodes) - set(job.excluded_nodes) - set(nodes)
    if len(left) < job.node_count:
        return (), (
            f"{listed(nodes)} should be left out, but then only {len(left)} eligible nodes would remain and the job "
            f"needs {job.node_count}: not excluded, so it may land there again."
        )
    remain = f"{counted(len(left), 'eligible node')} remain{'s' if len(left) == 1 else ''}"
    return nodes, f"{remain}, the job needs {job.node_count}."


def _suspects(nodes: tuple[str, ...], job: JobFacts) -> tuple[str, ...]:
    """Suspects that the restart keeps away from beside `nodes`; while an outbreak is open none."""
    if job.outbreak or job.origin:
        return ()
    taken = (*job.excluded_nodes, *nodes, *job.required_nodes)
    return avoidable(
        job.avoid, eligible=job.eligible_nodes, excluded=taken, needed=job.node_count, room=job.room - len(nodes)
    )


# --- checkpoint, costs, words -----------------------------------------------------------------------------------------


def newest_complete(facts: AttemptFacts) -> CheckpointFact | None:
    """The checkpoint that a restart would restore: only a complete one counts."""
    return next((c for c in reversed(facts.checkpoints) if c.state is CheckpointState.COMPLETE), None)


def _checkpoint_reason(checkpoint: CheckpointFact | None, facts: AttemptFacts) -> str:
    if checkpoint is not None:
        spoilt = [c.step for c in facts.checkpoints if c.step > checkpoint.step]
        more = f"; step {steps(spoilt[-1])} is not complete and does not count" if spoilt else ""
        return f"The newest complete checkpoint is step {steps(checkpoint.step)}{more}."
    if facts.checkpoints:
        return "No checkpoint of the run is complete: a restart STARTS FROM SCRATCH."
    return "No checkpoint of the run is known: a restart STARTS FROM SCRATCH unless the trainer finds one itself."


def _headline(nodes: tuple[str, ...], checkpoint: CheckpointFact | None, facts: AttemptFacts) -> str:
    what = "Stop and requeue" if facts.state is JobState.RUNNING else "Requeue"
    without = f" without {listed(nodes)}" if nodes else ""
    return f"{what}{without}{_tail(checkpoint, facts)}"


def _tail(checkpoint: CheckpointFact | None, facts: AttemptFacts) -> str:
    """What a restart restores, as the end of a headline."""
    lost = _lost(checkpoint, facts)
    if checkpoint is None:
        count = f" ({_counted(lost)} lost)" if lost else ""
        return f", STARTING FROM SCRATCH: no complete checkpoint is known{count}."
    count = f" ({_counted(lost)} lost)" if lost is not None else " (steps lost: unknown)"
    return f", restoring step {steps(checkpoint.step)}{count}."


def _counted(lost: int) -> str:
    return f"{steps(lost)} step{'' if lost == 1 else 's'}"


def _lost(checkpoint: CheckpointFact | None, facts: AttemptFacts) -> int | None:
    if facts.last_step is None:
        return None
    return max(0, facts.last_step - (checkpoint.step if checkpoint else 0))


def _delay(job: JobFacts) -> str:
    if not job.requeue_delay_s:
        return ""
    by_default = "" if job.delay_measured else ", by Slurm's default; this cluster's own is not known"
    return f"Slurm starts a requeued job after {job.requeue_delay_s:g} s at the earliest{by_default}."


def _past(history: Sequence[PastFailure]) -> list[str]:
    acted = sum(past.acted for past in history)
    moved = next((past for past in reversed(history) if past.elsewhere and past.nodes), None)
    said = [f"It is restart {acted + 1} of this run by us."] if acted else []
    if moved is not None:
        said.append(f"An earlier failure on {listed(moved.nodes)} did not come back when the run went on elsewhere.")
    return said


def _proposal(
    action: ActionKind,
    nodes: tuple[str, ...],
    headline: str,
    reasons: tuple[str, ...],
    checkpoint: CheckpointFact | None,
    facts: AttemptFacts,
    job: JobFacts,
    *,
    parameters: dict[str, Any] | None = None,
) -> Proposal:
    machines = job.gpus or job.node_count
    lost = _lost(checkpoint, facts)
    hours = lost * job.step_time_s * machines / 3600 if lost is not None and job.step_time_s is not None else None
    goes_on = action in (ActionKind.NOTHING, ActionKind.EXTEND_TIME_LIMIT)
    running_well = facts.state is JobState.RUNNING and goes_on
    return Proposal(
        action=action,
        exclude_nodes=nodes,
        headline=headline,
        reasons=reasons,
        restore_step=checkpoint.step if checkpoint else None,
        restore_path=checkpoint.path if checkpoint else "",
        steps_at_stake=lost,
        gpu_hours_at_stake=hours,
        gpus_idle=0 if running_well else machines,
        operations=(),
        parameters=parameters or {},
    )
