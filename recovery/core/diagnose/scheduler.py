"""What the scheduler's own record says of an end. It is the one witness that a job's output can't imitate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from recovery.core.diagnose.clues import Clue, Clues
from recovery.core.diagnose.verdict import Verdict, of_clue
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
# A job that stood still this long before its time limit was not stopped by the limit.
STOOD_STILL_S = 1800.0
STOOD_STILL_SHARE = 5  # … and this many times its longest interval between two reports


def cancelled(facts: AttemptFacts, clues: Clues) -> Verdict | None:
    """A person, or a program in a person's name, ended the job: it is never restarted, whatever else is true."""
    by_record = facts.state is JobState.CANCELLED or (
        bool(facts.cancelled_by) and facts.state not in (JobState.COMPLETED, JobState.RUNNING, JobState.REQUEUED)
    )
    if by_record:
        who = f" by {facts.cancelled_by}" if facts.cancelled_by else ""
        return Verdict(
            failure_class=C.EXTERNAL_CANCEL,
            restart=Restart.NO,
            confidence=0.98 if facts.cancelled_by else 0.95,
            reason=f"Slurm says that the job was cancelled{who}.",
        )
    if facts.state is not JobState.UNKNOWN:
        return None
    said = [c for c in clues.causes if c.rule.failure_class is C.EXTERNAL_CANCEL]
    return of_clue(said[0]) if said else None


def ended_by_slurm(facts: AttemptFacts, clues: Clues) -> Verdict | None:
    """Time limit, preemption, node failure, memory limit, nodes that did not boot; None for any other end."""
    match facts.state:
        case JobState.TIMEOUT | JobState.DEADLINE:
            return _out_of_time(facts, clues)
        case JobState.PREEMPTED:
            return Verdict(
                failure_class=C.PREEMPTION, restart=Restart.YES, confidence=0.97, reason="Slurm preempted the job."
            )
        case JobState.NODE_FAIL:
            return node_failure(facts, clues)
        case JobState.OUT_OF_MEMORY:
            return Verdict(
                failure_class=C.HOST_OOM,
                restart=Restart.AFTER_CHANGE,
                confidence=0.95,
                reason="Slurm ended the job at its memory limit.",
                clue=_first(clues.causes, C.HOST_OOM),
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


# --- time limit -------------------------------------------------------------------------------------------------------


def _out_of_time(facts: AttemptFacts, clues: Clues) -> Verdict | None:
    if facts.state is JobState.DEADLINE:
        return Verdict(
            failure_class=C.WALLTIME, restart=Restart.NO, reason="The job ran into the deadline that it was given."
        )
    if still := stood_still_s(facts):
        return _hung_into_limit(clues, still)
    advanced = advanced_to(facts)
    if advanced is not None:
        text = f"The job reached its time limit; step {steps(advanced)} is saved, so it can go on from there."
        return Verdict(failure_class=C.WALLTIME, restart=Restart.YES, confidence=0.97, reason=text)
    if facts.checkpoints or facts.last_step is not None:
        text = "The job reached its time limit and saved no new checkpoint: the same again would end the same way."
        return Verdict(failure_class=C.WALLTIME, restart=Restart.AFTER_CHANGE, confidence=0.9, reason=text)
    text = "The job reached its time limit; whether it saved a checkpoint is not known."
    return Verdict(failure_class=C.WALLTIME, restart=Restart.ONCE, confidence=0.8, reason=text)


def _hung_into_limit(clues: Clues, still_s: float) -> Verdict | None:
    """It stood still long before: the limit only ended it. None lets the log's own cause speak."""
    if any(c.rule.failure_class is not C.WALLTIME for c in clues.causes):
        return None
    collective = _first(clues.consequences, C.HANG_COLLECTIVE)
    return Verdict(
        failure_class=C.HANG_COLLECTIVE if collective else C.HANG_SILENT,
        restart=Restart.ONCE,
        exclude=Exclude.IF_REPEATED if collective else Exclude.NONE,
        confidence=0.75,
        reason=f"The job made no step in its last {duration(still_s)}; its time limit only ended a hang.",
        clue=collective,
    )


def stood_still_s(facts: AttemptFacts) -> float:
    """Seconds without a step before the end, where that is far beyond the attempt's own rhythm; else 0."""
    end = facts.ended_at or facts.now
    if facts.last_progress_at is None or facts.blind_reason:
        return 0.0
    still = (end - facts.last_progress_at).total_seconds()
    gaps = [(b.at - a.at).total_seconds() for a, b in pairwise(facts.samples)]
    return still if gaps and still > max(STOOD_STILL_S, STOOD_STILL_SHARE * max(gaps)) else 0.0


def advanced_to(facts: AttemptFacts) -> int | None:
    """The newest checkpoint that this attempt made, None where it made none that is known.

    It made one if its log says so, or if the newest complete one is later than where it began.
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
    where = f" {listed(failed)}" if failed else "; which one is not known"
    return Verdict(
        failure_class=C.NODE_FAULT,
        restart=Restart.YES,
        exclude=Exclude.NODES if failed else Exclude.IF_REPEATED,
        nodes=failed,
        confidence=0.97 if failed else 0.85,
        reason=f"Slurm ended the job because it lost a node{':' if failed else ''}{where}.",
        clue=clue,
    )


def lost_nodes(clues: Clues) -> tuple[str, ...]:
    """The nodes that Slurm or srun says failed, in order, each once."""
    named = (n for c in clues.causes if c.rule.failure_class is C.NODE_FAULT for n in c.nodes)
    return tuple(dict.fromkeys(named))


def is_fabric(failed: Sequence[str], nodes: Sequence[str]) -> bool:
    """Half of the nodes and at least three, together: no coincidence of single machines."""
    return len(failed) >= 3 and 2 * len(failed) >= len(nodes)


def _first(clues: Sequence[Clue], failure_class: FailureClass) -> Clue | None:
    return next((c for c in clues if c.rule.failure_class is failure_class), None)
