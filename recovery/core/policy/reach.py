"""Rules that can never decide, because earlier ones take every case that they would match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from recovery.core.policy.match import NAMES, RANGES
from recovery.core.types import FailureClass

MOST_COMPARED = 100_000  # names with patterns


def unreachable(rules: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """(index of the rule, sentence) for each rule that is surely never reached.

    Surely: each of its classes is taken by one earlier rule that matches at least the same jobs. Several rules that
    only together leave nothing over are not found.
    """
    budget = _Budget(MOST_COMPARED)
    for index, rule in enumerate(rules["rules"]):
        takers = _takers(rules["rules"][:index], rule, budget)
        if len(takers) == len(set(_classes(rule))):
            names = " and ".join(dict.fromkeys(takers[each] for each in _classes(rule)))
            yield index, f"{rule['name']} is never reached: {names} decides before it; move it up or remove it."


def _classes(rule: Mapping[str, Any]) -> Sequence[str]:
    return list(FailureClass) if rule["classes"] == "*" else rule["classes"]


class _Budget:
    """How many patterns are still compared with names: nobody waits for a document that was written to be slow."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, count: int) -> bool:
        self.left -= count
        return self.left >= 0


def _takers(earlier: Sequence[Mapping[str, Any]], rule: Mapping[str, Any], budget: _Budget) -> dict[str, str]:
    """By class of `rule`: the first earlier rule that takes all its jobs with that class, where there is one."""
    found: dict[str, str] = {}
    wanted = set(_classes(rule))
    for other in earlier:
        taken = wanted.intersection(_classes(other)) - found.keys()
        if taken and _covers(other.get("match", {}), rule.get("match", {}), budget):
            found |= dict.fromkeys(taken, str(other["name"]))
    return found


def _covers(wide: Mapping[str, Any], narrow: Mapping[str, Any], budget: _Budget) -> bool:
    """Whether every job that `narrow` matches is one that `wide` matches."""
    if "labels" in wide:
        return False  # such a rule doesn't always decide where it matches (ruling.py)
    names = all(_covers_names(wide[key], narrow.get(key) or ["*"], budget) for key in NAMES if wide.get(key))
    ranges = all(_covers_range(wide[key], narrow.get(key, {})) for key in (*RANGES, "confidence") if key in wide)
    return names and ranges and ("hours" not in wide or wide["hours"] == narrow.get("hours"))


def _covers_names(wide: Sequence[str], narrow: Sequence[str], budget: _Budget) -> bool:
    """Surely: also False where the budget is spent."""
    left = set(narrow) - set(wide)
    if not left or "*" in wide:
        return True
    if any(_is_pattern(each) for each in left):
        return False
    for pattern in filter(_is_pattern, wide):
        if not budget.take(len(left)):
            return False
        left = {each for each in left if not fnmatchcase(each, pattern)}
        if not left:
            return True
    return False


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def _covers_range(wide: Mapping[str, float], narrow: Mapping[str, float]) -> bool:
    low = "min" not in wide or narrow.get("min", float("-inf")) >= wide["min"]
    return low and ("max" not in wide or narrow.get("max", float("inf")) <= wide["max"])
