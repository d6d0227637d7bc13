"""Crash: the attempt has ended, and not because its work was done.

The scheduler's state decides. Two things hide behind COMPLETED with exit status 0: a step that failed inside a batch
script that went on (the script's status hides the step's), and a trainer that ends with status 0 after it could not
load its checkpoint (Megatron-LM has such paths).
"""

from __future__ import annotations

from datetime import datetime

from recovery.core.detectors.limits import Limits
from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.diagnose.clues import STRONG, Clue, gather
from recovery.core.diagnose.exits import HELD
from recovery.core.diagnose.tracebacks import without_bystanders
from recovery.core.types import (
    AttemptFacts,
    Evidence,
    FailureClass,
    Finding,
    FindingKind,
    JobState,
    Role,
    SignalKind,
)

_WORDS = {
    JobState.FAILED: "failed",
    JobState.TIMEOUT: "was ended at its time limit",
    JobState.NODE_FAIL: "was ended because a node failed",
    JobState.PREEMPTED: "was preempted",
    JobState.OUT_OF_MEMORY: "was ended at its memory limit",
    JobState.BOOT_FAIL: "could not start because its nodes did not boot",
    JobState.DEADLINE: "was ended at its deadline",
    JobState.REQUEUED: "was put back into the queue",
}

TRACEBACK = "python.traceback"
# What a process can't go on after, and what says that one of the training ended so.
_FINAL = frozenset({FailureClass.GPU_OOM, FailureClass.GPU_HARDWARE, FailureClass.STORAGE_FULL})
_ENDED = frozenset({"elastic.child_failed", "srun.task_exit"})


def detect_crash(facts: AttemptFacts, limits: Limits) -> Finding | None:
    """A finding for every end of an attempt that is not a plain completion; None while it lives or when it is done.

    A cancelled attempt gives a finding too, so that it is recorded; the diagnosis says that nothing is to be done. So
    does one that Slurm itself put back and holds, because it could not be launched: it starts no more by itself.
    """
    if facts.state is JobState.COMPLETED:
        sentence = _hidden_failure(facts)
    elif facts.state is JobState.REVOKED:
        sentence = ""
    elif facts.state is JobState.CANCELLED:
        sentence = f"Slurm says that the job was cancelled{f' by {facts.cancelled_by}' if facts.cancelled_by else ''}."
    elif facts.state is JobState.PENDING and facts.state_reason in HELD:
        sentence = f"Slurm could not launch the job and holds it ({facts.state_reason})."
    elif facts.state.is_terminal:
        sentence = f"Slurm says that the job {_WORDS[facts.state]}{_status(facts)}."
    else:
        sentence = ""
    if not sentence:
        return None
    evidence = Evidence(
        text=sentence, source="scheduler", role=Role.CONFIRMATION, rule=f"state.{facts.state}", at=facts.ended_at
    )
    return Finding(kind=FindingKind.CRASH, since=_since(facts), reason=sentence, confidence=0.99, evidence=(evidence,))


def _status(facts: AttemptFacts) -> str:
    """Exit code, signal and reason as a clause."""
    if facts.exit_signal:
        return f" (signal {facts.exit_signal})"
    if facts.exit_code:
        return f" (exit code {facts.exit_code})"
    return f" ({facts.state_reason})" if facts.state_reason not in ("", "None") else ""


def _hidden_failure(facts: AttemptFacts) -> str:
    """Why a COMPLETED attempt failed all the same, as a sentence; "" if it did not."""
    if facts.exit_code or facts.exit_signal:
        return f"Slurm says completed, but the job ended badly{_status(facts)}."
    if any(s.kind is SignalKind.FINISHED for s in facts.signals):
        return ""  # the trainer itself said that it was done; an odd step beside it is the script's own affair
    failed = [code for code in facts.step_exit_codes if code]
    if failed:
        return f"Slurm says completed, but a step of the job ended with exit code {failed[0]}: the script hid it."
    if _load_failed(facts):
        return "Slurm says completed, but the trainer could not load its checkpoint and ended without a step."
    if not facts.step_exit_codes and _log_ends_with_a_failure(facts):
        return "Slurm says completed, but the log ends with a failure of the training: the script hid it."
    return ""


def _log_ends_with_a_failure(facts: AttemptFacts) -> bool:
    """Whether the training died by its own log, where nobody knows the exit codes of the steps.

    An error alone is no proof: programs print many while they end. Its launcher says that it failed, or nothing could
    train on after it.
    """
    clues = gather(facts)
    sure = [c for c in without_bystanders(clues.causes, clues.confirmations) if c.rule.confidence >= STRONG]
    headed = [
        c for c in sure if any(_before(header, c) for header in clues.confirmations if header.rule.id == TRACEBACK)
    ]
    ended = [c for c in clues.consequences if c.rule.id in _ENDED]
    return any(c.rule.failure_class in _FINAL or any(_before(c, end) for end in ended) for c in headed)


def _before(one: Clue, other: Clue) -> bool:
    return one.source == other.source and (one.evidence.line or 0) < (other.evidence.line or 0)


def _load_failed(facts: AttemptFacts) -> bool:
    """Whether the log tells of a failed load after which no step was reported."""
    if facts.last_step is not None or any(s.kind is SignalKind.PROGRESS for s in facts.signals):
        return False
    rules = (RULES_BY_ID.get(s.rule) for s in facts.signals if s.kind is SignalKind.FAILURE)
    return any(rule is not None and rule.failure_class is FailureClass.CHECKPOINT_INCOMPLETE for rule in rules)


def _since(facts: AttemptFacts) -> datetime:
    """The first cause that the log dates after the last step; else the end; else now."""
    end = facts.ended_at or facts.now
    begin = facts.last_progress_at or facts.started_at
    times = [
        s.at
        for s in facts.signals
        if s.kind is SignalKind.FAILURE and s.at is not None and s.at <= end and (begin is None or s.at >= begin)
    ]
    return min(times, default=end)
