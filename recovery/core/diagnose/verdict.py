"""A verdict in the making: what one kind of evidence says, before it is weighed against the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

from recovery.core.diagnose.clues import Clue
from recovery.core.speech import listed
from recovery.core.types import Exclude, FailureClass, Restart


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """`reason` is one sentence without advice; `doubts` are contradictions, each a clause that is shown."""

    failure_class: FailureClass
    restart: Restart
    exclude: Exclude = Exclude.NONE
    nodes: tuple[str, ...] = ()
    confidence: float = 0.9
    reason: str = ""
    clue: Clue | None = None  # the line or event that decided
    doubts: tuple[str, ...] = field(default=())


def of_clue(clue: Clue, *, doubt: str = "") -> Verdict:
    """What the clue's rule says. Nodes are excluded only where the clue is placed on nodes of the attempt."""
    rule = clue.rule
    exclude, nodes = rule.exclude, clue.nodes
    if exclude is Exclude.NODES and not nodes:
        exclude = Exclude.IF_REPEATED
    return Verdict(
        failure_class=rule.failure_class,
        restart=rule.restart,
        exclude=exclude,
        nodes=nodes if exclude is Exclude.NODES else (),
        confidence=rule.confidence,
        reason=placed(rule.sentence, clue),
        clue=clue,
        doubts=(doubt,) if doubt else (),
    )


def placed(sentence: str, clue: Clue) -> str:
    """`sentence` with where it happened, "… (gpu-17, rank 136).", or who reports what happened elsewhere."""
    rank = f"rank {clue.evidence.rank}" if clue.evidence.rank is not None else ""
    where = ", ".join(filter(None, (listed(clue.nodes), rank)))
    by = "" if clue.rule.accuses else "reported by "
    return f"{sentence.rstrip('.')} ({by}{where})." if where else sentence
