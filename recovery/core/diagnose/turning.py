"""What would change a verdict: so that its reader knows where to look, and what to expect next time."""

from __future__ import annotations

from collections.abc import Iterator

from recovery.core.diagnose.verdict import Verdict
from recovery.core.types import AttemptFacts, Exclude, FailureClass, JobState, Restart

C = FailureClass
_BY_THE_DRIVER = frozenset({C.HANG_COLLECTIVE, C.HANG_SILENT, C.NETWORK_FABRIC, C.UNKNOWN})
_STANDING_STILL = frozenset({C.HANG_COLLECTIVE, C.HANG_SILENT})
_RESUMABLE = frozenset({C.WALLTIME, C.PREEMPTION, C.NODE_FAULT, C.GPU_HARDWARE})


def what_would_change(verdict: Verdict, facts: AttemptFacts) -> str:
    """The facts that would turn the verdict, as clauses; what no fact can turn says so."""
    if verdict.failure_class is C.EXTERNAL_CANCEL:
        return "nothing: who cancels a job decides"
    return "; ".join(_clauses(verdict, facts)) or "an earlier cause than the one that was found"


def _clauses(verdict: Verdict, facts: AttemptFacts) -> Iterator[str]:
    if facts.state is JobState.UNKNOWN:
        yield "the scheduler's record of the job"
    if facts.blind_reason:
        yield "a log that can be read"
    if verdict.failure_class in _STANDING_STILL and facts.state is JobState.RUNNING:
        yield from _of_a_hang(facts)
    rule = verdict.clue.rule.id if verdict.clue else ""
    if not facts.node_events and (verdict.failure_class in _BY_THE_DRIVER or rule.startswith("cuda.")):
        yield "an Xid or another kernel message of its nodes"
    if verdict.exclude is Exclude.IF_REPEATED:
        yield "the same on the same node again (it would be excluded)"
    if verdict.exclude is Exclude.HOLD:
        yield "the same on one node alone"
    if verdict.restart is Restart.ONCE:
        yield "the same again after a restart (it would not be restarted any more)"
    if verdict.failure_class in _RESUMABLE and verdict.restart is Restart.YES:
        yield "the same step again without a new checkpoint (code or data would be suspected)"
    if verdict.failure_class is C.WALLTIME and verdict.restart is Restart.AFTER_CHANGE:
        yield "a complete checkpoint that this attempt made"


def _of_a_hang(facts: AttemptFacts) -> Iterator[str]:
    yield "a new step, or files of a checkpoint that change"
    if facts.gpu is None:
        yield "readings of its GPUs (those that wait agree, those that compute speak against it)"
