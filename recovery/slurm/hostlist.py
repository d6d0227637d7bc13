"""Slurm's notation for sets of nodes (gpu-[01-04,07]) to tuples of names; ClusterShell does the work."""

from __future__ import annotations

import re
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError

MAX_NODES = 100_000  # ten times the biggest machine there is; a longer range is a mistake or an attack on our memory

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,253}")
# ClusterShell knows more than Slurm does (@groups, unions by !, &, ^): none of it may come in.
_LIST = re.compile(r"[A-Za-z0-9._,\[\]-]*")
_RANGE = re.compile(r"(\d+)-(\d+)(?=[,\]])")
_NONE = frozenset({"", "(null)", "None", "None assigned", "N/A", "n/a"})


class BadHostlist(ValueError):
    """Not a list of nodes in Slurm's notation."""


def is_node_name(name: str) -> bool:
    """True for a single plain name: what may stand in an argument for Slurm."""
    return _NAME.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def expand(text: str) -> tuple[str, ...]:
    """Names in ascending order, each once; () for Slurm's words for none. Raises BadHostlist."""
    if text in _NONE:
        return ()
    if not _LIST.fullmatch(text):
        raise BadHostlist(f"{text[:200]!r} is not a list of nodes")
    if any(len(last) > 9 or int(last) - int(first) >= MAX_NODES for first, last in _RANGE.findall(text)):
        raise BadHostlist(f"{text[:200]!r} names more than {MAX_NODES} nodes")
    try:
        return tuple(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetParseError as error:
        raise BadHostlist(f"{text[:200]!r} is not a list of nodes: {error}") from error
