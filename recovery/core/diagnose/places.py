"""Where a clue belongs: from names, ranks and Slurm's node lists to the attempt's own nodes, and to no others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from recovery.core.types import Signal

_PART = re.compile(r"([A-Za-z0-9._-]{1,100})(?:\[([\d,-]{1,200})\])?(?:,|$)")
_TASKS = re.compile(r"^srun: error: (?P<node>[\w.-]{1,80}): tasks? (?P<tasks>[\d,\[\]-]{1,200}): ")


class Places:
    """Names of one attempt's nodes. A log can claim anything, so no other name ever leaves here."""

    def __init__(self, nodes: Sequence[str], signals: Sequence[Signal] = ()) -> None:
        self._nodes = tuple(nodes)
        self._by_short = {short(node): node for node in nodes}
        self._tasks = list(self._srun_tasks(signals))

    def named(self, expression: str) -> tuple[str, ...]:
        """Those of the attempt's nodes that a name or a node list (`n[2-3,7],m1`) holds."""
        if node := self._by_short.get(short(expression)):
            return (node,)
        if "[" not in expression and "," not in expression:
            return ()
        parts = [(m[1].lower(), m[2]) for m in _PART.finditer(expression)]
        return tuple(n for n in self._nodes if any(_holds(prefix, ranges, short(n)) for prefix, ranges in parts))

    def of(self, node: str, rank: int | None) -> tuple[str, ...]:
        """The node that a line names or that its rank runs on; of a one-node attempt always that node."""
        if found := self.named(node):
            return found
        if rank is not None:
            for name, first, last in self._tasks:
                if first <= rank <= last:
                    return (name,)
        return self._nodes if len(self._nodes) == 1 else ()

    def _srun_tasks(self, signals: Sequence[Signal]) -> Iterator[tuple[str, int, int]]:
        """Task ranges by node, from srun's own error lines (`srun: error: n2: tasks 8-15: …`)."""
        for signal in signals:
            if (found := _TASKS.match(signal.text)) and (names := self.named(found["node"])):
                for first, last in _ranges(found["tasks"].strip("[]")):
                    yield names[0], first, last


def short(name: str) -> str:
    """A host's name without its domain: Slurm, torch and the kernel don't agree on which they write."""
    return name.partition(".")[0].lower()


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            yield int(first), int(last or first)


def _holds(prefix: str, ranges: str | None, name: str) -> bool:
    if ranges is None:
        return prefix == name
    digits = name.removeprefix(prefix)
    if digits == name or not digits.isdigit():
        return False
    for part in ranges.split(","):
        width = len(part.partition("-")[0])
        if len(digits) >= width and any(a <= int(digits) <= b for a, b in _ranges(part)):
            return True
    return False
