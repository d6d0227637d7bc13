"""What the run's earlier failures change in a verdict: the same node twice, the same step twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recovery.core.diagnose.verdict import Verdict
from recovery.core.speech import steps
from recovery.core.types import AttemptFacts, Exclude, FailureClass, PastFailure, Restart

# Classes whose repetition at one step speaks against the machines: hardware doesn't know which step it is.
_MACHINES = frozenset(
    {
        FailureClass.GPU_HARDWARE,
        FailureClass.NODE_FAULT,
        FailureClass.NETWORK_FABRIC,
        FailureClass.HANG_COLLECTIVE,
        FailureClass.HANG_SILENT,
    }
)


def with_history(verdict: Verdict, facts: AttemptFacts, history: Sequence[PastFailure]) -> Verdict:
    """`verdict` in the light of the run's earlier failures."""
    verdict = _same_node(verdict, history)
    return _second_time(_same_step(verdict, facts, history), history)


def _same_node(verdict: Verdict, history: Sequence[PastFailure]) -> Verdict:
    """A suspect that is suspected again is excluded."""
    if verdict.exclude is not Exclude.IF_REPEATED or verdict.clue is None or len(verdict.clue.nodes) != 1:
        return verdict
    node = verdict.clue.nodes[0]
    if not any(node in past.nodes and past.failure_class is verdict.failure_class for past in history):
        return verdict
    return replace(
        verdict,
        exclude=Exclude.NODES,
        nodes=(node,),
        reason=f"{verdict.reason.rstrip('.')}; it is the second time on {node}.",
    )


def _same_step(verdict: Verdict, facts: AttemptFacts, history: Sequence[PastFailure]) -> Verdict:
    step = facts.last_step
    if step is None or verdict.failure_class not in _MACHINES or verdict.restart is not Restart.YES:
        return verdict
    if not any(past.step == step and not past.checkpoint_since for past in history):
        return verdict
    doubt = f"the run failed at step {steps(step)} before: the same place twice points at code or data"
    return replace(verdict, restart=Restart.ONCE, doubts=(*verdict.doubts, doubt))


def _second_time(verdict: Verdict, history: Sequence[PastFailure]) -> Verdict:
    """`once` means once: after a restart that brought no new checkpoint, a failure alike needs a person."""
    if verdict.restart is not Restart.ONCE:
        return verdict
    tried = any(p.acted and not p.checkpoint_since and p.failure_class is verdict.failure_class for p in history)
    if not tried:
        return verdict
    reason = f"{verdict.reason.rstrip('.')}; a restart after the same failure brought no new checkpoint."
    return replace(verdict, restart=Restart.AFTER_CHANGE, reason=reason)
