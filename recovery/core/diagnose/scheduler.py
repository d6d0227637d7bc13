"""What the scheduler's own record says of an end: the one witness that a job's output can't imitate.

Where there is no record (a log alone was given), Slurm's own lines in the log take its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from recovery.core.diagnose.clues import Clue, Clues, first_cause
from recovery.core.diagnose.verdict import Verdict, of_clue
from recovery.core.series import intervals, quantile
from recovery.core.speech import duration, listed, steps
from recovery.core.types import (
    AttemptFacts,
    CheckpointState,
    Exclude,
    FailureClass,
    JobState,
    Restart,
    SignalKind,
)

C = FailureClass
# A job that stood still this long before its time limit was not stopped by the limit …
STOOD_STILL_S = 1800.0
# … nor one that stood still for this long after a line that is a strong cause,
AFTER_CAUSE_S = 120.0
# if that is also so many times what its reports usually came within.
STOOD_STILL_TIMES = 5

_STATE_SAID = {  # what the last of Slurm's lines in a log says of the job's end
    "slurm.time_limit": JobState.TIMEOUT,
    "slurm.preempted": JobState.PREEMPTED,
    "slurm.node_failure": JobState.NODE_FAIL,
    "srun.node_failure": JobState.NODE_FAIL,
}


def cancelled(facts: AttemptFacts, clues: Clues) -> Verdict | None:
    """A person, or a program in a person's name, ended the job: it is never restarted, whatever else is true."""
    ended_otherwise = (JobState.COMPLETED, JobState.RUNNING, JobState.REQUEUED, JobState.REVOKED)
    if facts.state is JobState.CANCELLED or (facts.cancelled_by and facts.state not in ended_otherwise):
        who = f" by {facts.cancelled_by}" if facts.cancelled_by else ""
        return Verdict(
            failure_class=C.EXTERNAL_CANCEL,
            restart=Restart.NO,
            confidence=0.98 if facts.cancelled_by else 0.95,
            reason=f"Slurm says that the job was cancelled{who}{_whose(facts)}.",
        )
    if facts.state is not JobState.UNKNOWN:
        return None
    said = first_of(clues.causes, C.EXTERNAL_CANCEL)
    return of_clue(said) if said else _cancelled_step(clues)


def _whose(facts: AttemptFacts) -> str:
    """Somebody else than the owner is named as such: an administrator, or a program such as a reaper of idle GPUs."""
    if not facts.cancelled_by or not facts.owner:
        return ""
    return ", its owner" if facts.cancelled_by == facts.owner else f", not by its owner {facts.owner}"


def _cancelled_step(clues: Clues) -> Verdict | None:
    """A cancelled step is srun's own doing after a failed task; only where nothing speaks of one is it a person's."""
    said = next((c for c in clues.consequences if c.rule.id == "slurm.step_cancelled"), None)
    if said is None or clues.causes or any(c.rule.id.startswith("srun.") for c in clues.consequences):
        return None
    return Verdict(
        failure_class=C.EXTERNAL_CANCEL,
        restart=Restart.NO,
        confidence=0.6,
        reason="The job's step was cancelled, and nothing says that a task had failed.",
        clue=said,
    )


def ended_by_slurm(facts: AttemptFacts, clues: Clues) -> Verdict | None:
    """Time limit, preemption, node failure, memory limit, nodes that did not boot; None for any other end."""
    state, clue = _end(facts, clues)
    match state:
        case JobState.TIMEOUT | JobState.DEADLINE:
            return out_of_time(facts, clues, clue)
        case JobState.PREEMPTED:
            text = "Slurm preempted the job."
            return Verdict(failure_class=C.PREEMPTION, restart=Restart.YES, confidence=0.97, reason=text, clue=clue)
        case JobState.NODE_FAIL:
            return node_failure(facts, clues)
        case JobState.OUT_OF_MEMORY:
            return Verdict(
                failure_class=C.HOST_OOM,
                restart=Restart.AFTER_CHANGE,
                confidence=0.95,
                reason="Slurm ended the job at its memory limit.",
                clue=first_of(clues.causes, C.HOST_OOM),
            )
        case JobState.BOOT_FAIL:
            return Verdict(
                failure_class=C.SCHEDULER_LAUNCH,
                restart=Restart.ONCE,
                exclude=Exclude.IF_REPEATED,
                reason="The job's nodes did not boot.",
            )
        case _:
            return None


def _end(facts: AttemptFacts, clues: Clues) -> tuple[JobState, Clue | None]:
    """How Slurm ended the job, and its line in the log where there is one.

    A requeued attempt has lost its own end in the record; there, too, the log's line tells.
    """
    said = [c for c in clues.causes if c.rule.id in _STATE_SAID]
    if facts.state in (JobState.UNKNOWN, JobState.REQUEUED, JobState.PENDING):
        return (_STATE_SAID[said[-1].rule.id], said[-1]) if said else (facts.state, None)
    return facts.state, next((c for c in said if _STATE_SAID[c.rule.id] is facts.state), None)


# --- time limit -------------------------------------------------------------------------------------------------------


def out_of_time(facts: AttemptFacts, clues: Clues, clue: Clue | None) -> Verdict | None:
    """The time limit ended the job, or one step of it; `clue` is Slurm's line.

    None where something else had stopped the job before: then that is the failure.
    """
    if facts.state is JobState.DEADLINE:
        text = "The job ran into the deadline that it was given."
        return Verdict(failure_class=C.WALLTIME, restart=Restart.NO, reason=text)
    cause = first_cause([c for c in clues.causes if c.rule.failure_class is not C.WALLTIME])
    if cause is not None and stood_still(facts, AFTER_CAUSE_S):
        return None
    if cause is None and (still := stood_still(facts, STOOD_STILL_S)):
        return _hung_into_limit(clues, still)
    advanced = advanced_to(facts)
    if advanced is not None:
        text = f"The job reached its time limit; step {steps(advanced)} is saved, so it can go on from there."
        return Verdict(failure_class=C.WALLTIME, restart=Restart.YES, confidence=0.97, reason=text, clue=clue)
    if facts.checkpoints or facts.last_step is not None:
        text = "The job reached its time limit and saved no new checkpoint: the same again would end the same way."
        return Verdict(failure_class=C.WALLTIME, restart=Restart.AFTER_CHANGE, reason=text, clue=clue)
    text = "The job reached its time limit; whether it saved a checkpoint is not known."
    return Verdict(failure_class=C.WALLTIME, restart=Restart.ONCE, confidence=0.8, reason=text, clue=clue)


def _hung_into_limit(clues: Clues, still_s: float) -> Verdict:
    collective = first_of(clues.consequences, C.HANG_COLLECTIVE)
    return Verdict(
        failure_class=C.HANG_COLLECTIVE if collective else C.HANG_SILENT,
        restart=Restart.ONCE,
        exclude=Exclude.IF_REPEATED if collective else Exclude.NONE,
        confidence=0.75,
        reason=f"The job made no step in its last {duration(still_s)}; its time limit only ended a hang.",
        clue=collective,
    )


def stood_still(facts: AttemptFacts, least_s: float) -> float:
    """Seconds without a step before the end where that is beyond `least_s` and the attempt's own rhythm; else 0."""
    own = intervals(facts.samples)
    if facts.last_progress_at is None or facts.blind_reason or not own:
        return 0.0
    still = ((facts.ended_at or facts.now) - facts.last_progress_at).total_seconds()
    return still if still > max(least_s, STOOD_STILL_TIMES * quantile(own, 0.95)) else 0.0


def advanced_to(facts: AttemptFacts) -> int | None:
    """The newest checkpoint that this attempt made, None where it made none that is known.

    It made one if its log says so, or if the newest complete one is later than where it began. Where the run's
    checkpoints were looked at, the log's word alone does not do.
    """
    saved = [s.step for s in facts.signals if s.kind is SignalKind.SAVE_DURABLE and s.step is not None]
    complete = [c.step for c in facts.checkpoints if c.state is CheckpointState.COMPLETE]
    begun = start_step(facts)
    newer = [step for step in complete if begun is not None and step > begun]
    return max([*newer, *(step for step in saved if not facts.checkpoints or step in complete)], default=None)


def start_step(facts: AttemptFacts) -> int | None:
    """The step at which this attempt began: its load line, 0 for a fresh start, else just before its first sample."""
    for signal in reversed(facts.signals):
        if signal.kind is SignalKind.LOADED and signal.step is not None:
            return signal.step
        if signal.kind is SignalKind.FRESH_START:
            return 0
    return facts.samples[0].step - 1 if facts.samples else None


# --- node failure -----------------------------------------------------------------------------------------------------


def node_failure(facts: AttemptFacts, clues: Clues) -> Verdict:
    """Slurm lost a node. Which one is known from its own event or from srun's line, never from the step's line."""
    hardware = [c for c in clues.causes if c.rule.failure_class is C.GPU_HARDWARE and c.source == "node" and c.nodes]
    if hardware:
        return of_clue(hardware[0])
    failed = lost_nodes(clues)
    if not failed and len(facts.nodes) == 1:
        failed = facts.nodes
    if is_fabric(failed, facts.nodes):
        return Verdict(
            failure_class=C.NETWORK_FABRIC,
            restart=Restart.YES,
            exclude=Exclude.HOLD,
            confidence=0.7,
            reason=f"{len(failed)} of the job's {len(facts.nodes)} nodes were lost together: the fabric, not each.",
        )
    clue = next((c for c in clues.causes if c.rule.failure_class is C.NODE_FAULT and c.nodes), None)
    which = f": {listed(failed)}" if failed else "; which one is not known"
    return Verdict(
        failure_class=C.NODE_FAULT,
        restart=Restart.YES,
        exclude=Exclude.NODES if failed else Exclude.IF_REPEATED,
        nodes=failed,
        confidence=0.97 if failed else 0.85,
        reason=f"Slurm lost a node of the job{which}.",
        clue=clue or first_of(clues.causes, C.NODE_FAULT),
    )


def lost_nodes(clues: Clues) -> tuple[str, ...]:
    """The nodes that Slurm or srun says failed, in order, each once."""
    lost = (c for c in clues.causes if c.rule.failure_class is C.NODE_FAULT and c.rule.exclude is Exclude.NODES)
    return tuple(dict.fromkeys(node for c in lost for node in c.nodes))


def is_fabric(failed: Sequence[str], nodes: Sequence[str]) -> bool:
    """Half of the nodes and at least three, together: no coincidence of single machines."""
    return len(failed) >= 3 and 2 * len(failed) >= len(nodes)


def first_of(clues: Sequence[Clue], failure_class: FailureClass) -> Clue | None:
    return next((c for c in clues if c.rule.failure_class is failure_class), None)
