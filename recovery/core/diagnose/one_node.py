"""A path that is missing on one node while the others have it: the node's mount, not the job's script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from recovery.core.diagnose.clues import Clue
from recovery.core.diagnose.verdict import Verdict
from recovery.core.types import Exclude, FailureClass, Restart

EXITED, ENDED = "Exited with exit code", "Terminated"  # srun's words for tasks that failed, and for those it took down


def missing_there_only(verdict: Verdict, causes: Sequence[Clue], consequences: Sequence[Clue]) -> Verdict:
    """One try: that the others had it is concluded from srun's having to end them, which is likely, not certain."""
    clue = verdict.clue
    if clue is None or clue.rule.id != "launch.script_missing":
        return verdict
    there = _nodes(c for c in causes if c.rule.id == clue.rule.id)
    exits = [c for c in consequences if c.rule.id == "srun.task_exit"]
    failed = _nodes(c for c in exits if EXITED in c.evidence.text)
    others = _nodes(c for c in exits if ENDED in c.evidence.text)
    if len(there) != 1 or failed != there or not others - there:
        return verdict
    (node,) = there
    return replace(
        verdict,
        failure_class=FailureClass.NODE_FAULT,
        restart=Restart.ONCE,
        exclude=Exclude.IF_REPEATED,
        confidence=0.6,
        reason=f"A path of the job is missing on {node} and not on the others: a file system is not mounted there.",
    )


def _nodes(clues: Iterable[Clue]) -> set[str]:
    return {node for clue in clues for node in clue.nodes}
