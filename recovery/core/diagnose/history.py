"""What is remembered changes a verdict: the same node twice, the same step twice, a node that is suspect anyway.

A failure of an outbreak says nothing of the run's code or of its nodes: whatever failed with it had another cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.diagnose.verdict import Verdict
from recovery.core.series import typical_stride
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


def with_history(
    verdict: Verdict, facts: AttemptFacts, history: Sequence[PastFailure], suspects: Mapping[str, str]
) -> Verdict:
    """`verdict` in the light of the run's earlier failures, and of what its nodes did to others.

    `suspects`: those of the attempt's nodes that are suspects, each with why, as a clause.
    """
    alone = [past for past in history if not past.shared]
    verdict = _same_node(verdict, alone) or _suspect_node(verdict, suspects) or verdict
    return _second_time(_same_step(verdict, facts, alone), alone)


def _suspected(verdict: Verdict) -> str:
    """The one node that the verdict suspects without proof. Who reports what it suffered from others is none."""
    if verdict.exclude is not Exclude.IF_REPEATED or verdict.clue is None or len(verdict.clue.nodes) != 1:
        return ""
    return verdict.clue.nodes[0] if verdict.clue.rule.accuses else ""


def _same_node(verdict: Verdict, history: Sequence[PastFailure]) -> Verdict | None:
    """A suspect that is suspected again is excluded; so many faces a bad node may have, if all are of machines."""
    node = _suspected(verdict)
    alike = [past for past in history if _alike(past.failure_class, verdict.failure_class)]
    before = [past for past in alike if node in past.nodes and _accused(past)]
    if not node or not before:
        return None
    moved = ", and after the first time the run went on elsewhere" if any(past.elsewhere for past in before) else ""
    return _without(verdict, node, f"it is the second time on {node}{moved}")


def _accused(past: PastFailure) -> bool:
    """Whether its nodes were suspects: who only told of what others did to it was none."""
    rule = RULES_BY_ID.get(past.rule)
    return rule is None or rule.accuses


def _alike(one: FailureClass, other: FailureClass) -> bool:
    return one is other or {one, other} <= _MACHINES


def _suspect_node(verdict: Verdict, suspects: Mapping[str, str]) -> Verdict | None:
    """What would be excluded if it were repeated is excluded where other jobs have seen the repetition."""
    node = _suspected(verdict)
    if not node or node not in suspects:
        return None
    return _without(verdict, node, f"{node} is a suspect ({suspects[node].rstrip('.')})")


def _without(verdict: Verdict, node: str, why: str) -> Verdict:
    return replace(verdict, exclude=Exclude.NODES, nodes=(node,), reason=f"{verdict.reason.rstrip('.')}; {why}.")


def _same_step(verdict: Verdict, facts: AttemptFacts, history: Sequence[PastFailure]) -> Verdict:
    """Hardware doesn't know which step it is, within what a report can tell; one node both times explains it too."""
    step = facts.last_step
    if step is None or verdict.failure_class not in _MACHINES or verdict.restart is not Restart.YES:
        return verdict
    near = typical_stride(facts.samples) or 0
    here = set(verdict.nodes) | set(verdict.clue.nodes if verdict.clue else ())
    same = [p for p in history if p.step is not None and abs(p.step - step) <= near and not p.checkpoint_since]
    if not same or any(here & set(past.nodes) for past in same):
        return verdict
    others = ", on other nodes" if here and all(past.nodes for past in same) else ""
    doubt = f"the run failed at step {steps(step)} before{others}: the same place twice points at code or data"
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
