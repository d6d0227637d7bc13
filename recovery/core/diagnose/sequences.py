"""How far each rank came in its collective operations, where the ranks print it: who is out of step?

PyTorch's watchdog numbers the operations of a process group. If all ranks wait in the same one, the network or a GPU
is to blame; if one rank enqueued fewer (or more) than all others, the ranks do not agree on what to do: code or data.
If no rank had any in flight, the processes themselves stood still, as they do where a file system does not answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from recovery.core.diagnose.clues import Clue, Clues
from recovery.core.diagnose.verdict import Verdict
from recovery.core.speech import listed
from recovery.core.types import Exclude, FailureClass

MOST_NAMED = 4  # ranks; more are no exception any more
LEAST_RANKS = 3  # of two that differ nobody can say which one is wrong
OTHERS = 4  # so many times as many ranks must have spoken before the silence of one tells something
NONE_IN_FLIGHT = -1

_WORK = re.compile(r"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,12}), last completed (?:NCCL )?work: (-?\d{1,12})")
_GROUP = re.compile(r"\[PG (?:ID )?(.{1,80}?) Rank (\d{1,7})\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """The last operation that one rank enqueued and completed, and the node that it runs on ("" where not known)."""

    enqueued: int
    completed: int
    node: str


def reaches(clues: Clues) -> Mapping[int, Reach]:
    """By rank, of the process group of which most ranks report; each rank's first report counts."""
    groups: dict[str, dict[int, Reach]] = {}
    for clue in clues.consequences:
        work = _WORK.search(clue.evidence.text)
        if work is None:
            continue
        group, rank = _group(clue)
        if rank is not None:
            reach = Reach(enqueued=int(work[1]), completed=int(work[2]), node=clue.evidence.node)
            groups.setdefault(group, {}).setdefault(rank, reach)
    return max(groups.values(), key=len, default={})


def how_far(clue: Clue) -> str:
    """The number of operations that a rank says it enqueued; "" where it says nothing of it."""
    work = _WORK.search(clue.evidence.text)
    return work[1] if work else ""


def _group(clue: Clue) -> tuple[str, int | None]:
    """The process group that a line speaks of, and the rank within it."""
    if found := _GROUP.search(clue.evidence.text):
        return found[1], int(found[2])
    return "", clue.evidence.rank


def in_step(verdict: Verdict, clues: Clues) -> Verdict:
    """`verdict` on a hang, with what the ranks' own counts add to it. It may spare nodes, never blame one."""
    if verdict.failure_class not in (FailureClass.HANG_COLLECTIVE, FailureClass.HANG_SILENT):
        return verdict
    if silent := _silent(clues):
        verdict = _with(verdict, f"only {listed([f'rank {rank}' for rank in silent])} did not report")
    ranks = reaches(clues)
    if len(ranks) < LEAST_RANKS:
        return verdict
    counts = Counter(reach.enqueued for reach in ranks.values())
    usual, holders = counts.most_common(1)[0]
    odd = sorted(rank for rank, reach in ranks.items() if reach.enqueued != usual)
    if not odd and usual == NONE_IN_FLIGHT:
        text = "no rank had a collective operation in flight, so the processes stood still: look at the file system"
        return _with(verdict, text, spare=True, failure_class=FailureClass.HANG_SILENT)
    if not odd:
        return _with(verdict, f"all {len(ranks)} ranks that report came equally far ({usual})")
    if len(odd) > MOST_NAMED or 2 * holders <= len(ranks):
        return verdict
    whose = listed([_named(rank, ranks[rank]) for rank in odd])
    return _with(verdict, f"{whose}, the others {usual}: out of step, which is code or data", spare=True)


def _silent(clues: Clues) -> list[int]:
    """The few ranks that did not report the time-out that all others did; [] where many are silent, or none."""
    told = {c.evidence.rank for c in clues.consequences if c.rule.failure_class is FailureClass.HANG_COLLECTIVE}
    ranks = {rank for rank in told if rank is not None}
    silent = sorted(set(range(max(ranks, default=-1) + 1)) - ranks)
    return silent if len(silent) <= MOST_NAMED and len(ranks) >= OTHERS * len(silent) else []


def _named(rank: int, reach: Reach) -> str:
    return f"rank {rank}{f' on {reach.node}' if reach.node else ''} had enqueued {reach.enqueued} operations"


def _with(verdict: Verdict, text: str, *, spare: bool = False, failure_class: FailureClass | None = None) -> Verdict:
    return replace(
        verdict,
        failure_class=failure_class or verdict.failure_class,
        exclude=Exclude.NONE if spare else verdict.exclude,
        reason=f"{verdict.reason.rstrip('.')}; {text}.",
    )
