"""Which node a rank runs on, learned from lines that say so.

Four kinds of line tell: `[rank3]: host n2 pid 4711` (and `12: host n2 pid 4711` under srun's labels), the failure
report of torchelastic (`host : n2`, then `rank : 3`), NCCL's (`n2:4711:4800 [0] NCCL INFO … rank 3 nranks 16`), and
what a job prints of Slurm's variables in one line (`SLURM_PROCID=3 … SLURMD_NODENAME=n2`, in any order).
How many ranks there are at least is kept as well: NCCL's lines, DeepSpeed's launcher and Lightning tell.
A log can claim anything: where the attempt's nodes are known, no other name is believed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Memory

MAX_RANKS = 4096  # remembered; of a greater job the ranks beyond have no node

_NAME = r"([A-Za-z0-9][A-Za-z0-9._-]{0,79})"
_HOST_PID = re.compile(r"host:? " + _NAME + r" pid:? ?[0-9]{1,10}\b")
_BARE_NAME = re.compile(_NAME + r"$")
_NCCL = re.compile(_NAME + r":[0-9]{1,10}:[0-9]{1,10} \[[0-9]{1,4}\] NCCL ")
_NCCL_RANK = re.compile(r" rank ([0-9]{1,7}) nranks ([0-9]{1,7})\b")  # begins with text: found fast
_WORLD = re.compile(r"(?: dist_world_size=|, MEMBER: [0-9]{1,7}/)([0-9]{1,7})$")
_WORLDS = (" dist_world_size=", ", MEMBER: ")
TELLING = (" nranks ", "host", "SLURM_PROCID", *_WORLDS)
_PROCID = re.compile(r"\bSLURM_PROCID ?[=:] ?([0-9]{1,7})\b")
_NODENAME = re.compile(r"\b(?:SLURMD_NODENAME|HOSTNAME|host(?:name)?) ?[=:] ?" + _NAME + r"(?![A-Za-z0-9._-])")
_BLOCK_FIELD = re.compile(r" {0,16}(time|host|rank|exitcode|error_file|traceback) {0,12}: (\S{1,300})")
_BLOCK_RANK = re.compile(r"([0-9]{1,7})$")


class Place(NamedTuple):
    """Where a line comes from, as far as it is known."""

    rank: int | None = None
    node: str = ""


NOWHERE = Place()


class RankMap:
    """Rank → node, in `memory` so that it survives from one look at a log to the next."""

    def __init__(self, memory: Memory, nodes: Sequence[str] = ()) -> None:
        self._memory = memory
        self._map: dict[str, str] = memory.setdefault("map", {})
        self._block: dict[str, str] = memory.setdefault("block", {})  # the torchelastic failure being read
        self._nodes = {short(node): node for node in nodes}

    @property
    def in_block(self) -> bool:
        """Whether the next line may be part of a torchelastic block, and must be shown to us, whatever it says."""
        return bool(self._block)

    def pass_by(self, line: CleanLine) -> Place:
        """The place of a line from which nothing can be learned, and that has no node in it."""
        if self._block:
            self.interrupt()
        return NOWHERE if line.rank is None else Place(rank=line.rank, node=self.node_of(line.rank))

    def interrupt(self) -> None:
        """A line that is no part of a torchelastic block ends it."""
        self._block.clear()

    def read(self, line: CleanLine) -> Place:
        """Learn from `line`, and tell its place."""
        if found := _NCCL.match(line.text):
            self.interrupt()
            return self._nccl(line, found)
        if found := _HOST_PID.match(line.text):
            self.interrupt()
            self._learn(line.rank, found[1])
        elif "SLURM_PROCID" in line.text:
            self.interrupt()
            return self._variables(line)
        elif found := _WORLD.search(line.text):
            self.interrupt()
            self._note_world(found[1])
        elif self._nodes and line.task is not None and (found := _BARE_NAME.match(line.text)):
            self.interrupt()
            self._learn(line.rank, found[1])  # srun -l hostname; without known nodes any single word would do
        elif place := self._in_block(line.text):
            return place
        return Place(rank=line.rank, node=self.node_of(line.rank))

    def node_of(self, rank: int | None) -> str:
        return "" if rank is None else self._map.get(str(rank), "")

    def known(self, name: str) -> str:
        """`name` as the scheduler writes it; "" where the attempt has no such node."""
        return self._nodes.get(short(name), "") if self._nodes else name

    def _learn(self, rank: int | None, name: str) -> None:
        node = self.known(name)
        if rank is not None and node and (len(self._map) < MAX_RANKS or str(rank) in self._map):
            self._map[str(rank)] = node

    def _note_world(self, size: str) -> None:
        self._memory["world"] = max(int(size), self._memory.get("world", 0))

    def _variables(self, line: CleanLine) -> Place:
        rank, node = _PROCID.search(line.text), _NODENAME.search(line.text)
        if rank is None or node is None:
            return Place(rank=line.rank, node=self.node_of(line.rank))
        self._learn(int(rank[1]), node[1])
        return Place(rank=int(rank[1]), node=self.known(node[1]))

    def _nccl(self, line: CleanLine, found: re.Match[str]) -> Place:
        rank = line.rank
        if rank_said := _NCCL_RANK.search(line.text):
            rank = int(rank_said[1])
            self._learn(rank, found[1])
            self._note_world(rank_said[2])
        return Place(rank=rank, node=self.known(found[1]))

    def _in_block(self, text: str) -> Place | None:
        """A torchelastic block lists `time host rank exitcode …`, one per line; any other line ends it."""
        found = _BLOCK_FIELD.match(text)
        if found is None:
            self._block.clear()
            return None
        if found[1] == "host":
            self._block.clear()
            self._block["host"] = found[2]
        elif found[1] == "rank" and "host" in self._block and (number := _BLOCK_RANK.match(found[2])):
            self._block["rank"] = number[1]
            self._learn(int(number[1]), self._block["host"])
        if "rank" not in self._block:
            return None
        return Place(rank=int(self._block["rank"]), node=self.known(self._block["host"]))


def may_tell(text: str, *, labelled: bool) -> bool:
    """Whether something could be learned from a line by itself; `labelled` by srun. Digits may be exchanged for others.

    It holds one of TELLING, or is a single word with a label.
    """
    if (" nranks " in text and " NCCL " in text) or "SLURM_PROCID" in text or any(each in text for each in _WORLDS):
        return True
    if "host" in text and (_HOST_PID.match(text) or _BLOCK_FIELD.match(text)):
        return True
    return labelled and " " not in text


def has_place(text: str) -> bool:
    """Whether a line tells by itself, or in a torchelastic block, where it comes from."""
    return " NCCL " in text or _BLOCK_FIELD.match(text) is not None


def short(name: str) -> str:
    """A host's name without its domain: Slurm, torch and NCCL don't agree on which they print."""
    return name.partition(".")[0].lower()
