"""Rules that can never decide, because earlier ones take every case that they would match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from recovery.core.policy.match import NAMES, RANGES
from recovery.core.types import FailureClass


def unreachable(rules: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """(index of the rule, sentence) for each rule that is surely never reached.

    Surely: each of its classes is taken by one earlier rule that matches at least the same jobs. Several rules that
    only together leave nothing over are not found.
    """
    for index, rule in enumerate(rules["rules"]):
        earlier = rules["rules"][:index]
        takers = [_taker(earlier, rule, failure_class) for failure_class in _classes(rule)]
        if all(takers):
            names = " and ".join(dict.fromkeys(str(name) for name in takers))
            yield index, f"{rule['name']} is never reached: {names} decides before it; move it up or remove it."


def _classes(rule: Mapping[str, Any]) -> Sequence[str]:
    return list(FailureClass) if rule["classes"] == "*" else rule["classes"]


def _taker(earlier: Sequence[Mapping[str, Any]], rule: Mapping[str, Any], failure_class: str) -> str:
    """The first earlier rule that takes all jobs of `rule` with that class; "" if none does."""
    for other in earlier:
        if (other["classes"] == "*" or failure_class in other["classes"]) and _covers(
            other.get("match", {}), rule.get("match", {})
        ):
            return str(other["name"])
    return ""


def _covers(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Whether every job that `narrow` matches is one that `wide` matches."""
    if "labels" in wide:
        return False  # such a rule doesn't always decide where it matches (ruling.py)
    names = all(_covers_names(wide[key], narrow.get(key) or ["*"]) for key in NAMES if wide.get(key))
    ranges = all(_covers_range(wide[key], narrow.get(key, {})) for key in (*RANGES, "confidence") if key in wide)
    return names and ranges and ("hours" not in wide or wide["hours"] == narrow.get("hours"))


def _covers_names(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    return all(any(_covers_name(one, each) for one in wide) for each in narrow)


def _covers_name(wide: str, narrow: str) -> bool:
    if wide in (narrow, "*"):
        return True
    return not any(sign in narrow for sign in "*?[") and fnmatchcase(narrow, wide)


def _covers_range(wide: Mapping[str, float], narrow: Mapping[str, float]) -> bool:
    low = "min" not in wide or narrow.get("min", float("-inf")) >= wide["min"]
    return low and ("max" not in wide or narrow.get("max", float("inf")) <= wide["max"])
