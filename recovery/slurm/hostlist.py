"""Slurm's notation for sets of nodes (gpu-[01-04,07]) to tuples of names; ClusterShell does the work."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError

MAX_NODES = 100_000  # ten times the biggest machine there is; a longer range is a mistake or an attack on our memory

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,253}")
# ClusterShell knows more than Slurm does (@groups, unions by !, &, ^): none of it may come in.
_LIST = re.compile(r"[A-Za-z0-9._,\[\]-]*")
_RANGE = re.compile(r"(\d+)-(\d+)")
_BRACKETS_OR_COMMA = re.compile(r"\[([^\[\]]*)\]|,")
_ELEMENT = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_WORD_NUMBER = re.compile(r"(\D*)(\d{1,9}|$)")
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
    if _is_too_long(text):
        raise BadHostlist(f"{text[:200]!r} names more than {MAX_NODES} nodes")
    elements = _ELEMENT.findall(text)
    if ",".join(elements) != text:
        raise BadHostlist(f"{text[:200]!r} is not a list of nodes")
    try:
        names = {name for element in elements for name in _names(element)}
    except (NodeSetParseError, ValueError) as error:
        raise BadHostlist(f"{text[:200]!r} is not a list of nodes: {error}") from error
    return tuple(sorted(names, key=_in_order))


def _names(element: str) -> Iterable[str]:
    """One by one: ClusterShell folds many names with two numbers (rack3-node7) in more than quadratic time."""
    return NodeSet(element, resolver=RESOLVER_NOGROUP) if "[" in element else (element,)


def _in_order(name: str) -> list[tuple[str, int]]:
    """n9 before n10, and n1 before n01."""
    return [(word, int(number or 0)) for word, number in _WORD_NUMBER.findall(name)] + [(name, 0)]


def _is_too_long(text: str) -> bool:
    """Counted before anything is expanded: several brackets in one name multiply (rack[0-9]n[0-9])."""
    total, product = 0, 1
    for found in _BRACKETS_OR_COMMA.finditer(text):
        if found[0] == ",":
            total, product = total + product, 1
        else:
            product *= sum(map(_width, found[1].split(",")))
        if total + product > MAX_NODES:
            return True
    return False


def _width(part: str) -> int:
    """How many names "01-16" stands for; of one that is no range ClusterShell judges."""
    ends = _RANGE.fullmatch(part)
    if ends is None:
        return 1
    first, last = ends.groups()
    return MAX_NODES + 1 if len(last) > 9 or len(first) > 9 else max(1, int(last) - int(first) + 1)
