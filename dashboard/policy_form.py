"""The policy as a table with one row per failure class, and back: what was not changed in the table stays as it is.

The table is about rules for every job; those with a `match` keep their words and their places, and stand beside it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recovery.core.policy import DEFAULT_MAX_RESTARTS, DEFAULT_RULES
from recovery.core.types import FailureClass, Mode
from recovery.core.words import FAILURE_LABELS

SAID = {"name", "classes", "mode", "max_restarts"}  # of a rule, in the table
# name, label, unit, whether a whole number is wanted
LIMITS: tuple[tuple[str, str, str, bool], ...] = (
    ("max_actions_per_hour", "Actions in an hour", "actions", True),
    ("max_excluded_nodes", "Nodes excluded at once", "nodes", True),
    ("max_excluded_percent", "Nodes excluded at once", "% of the cluster", False),
    ("fleet_failures", "Failures that make an incident of the fabric or storage", "failures", True),
    ("fleet_window_s", "… within", "seconds", False),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What holds for one failure class. `max_restarts` None: the usual number."""

    mode: str
    max_restarts: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassRow:
    """One row of the table as it is shown: with what was typed, also where that is wrong."""

    key: str
    label: str
    meaning: str
    mode: str
    max_restarts: str
    rule: str  # name of the rule that decides
    shadow: bool = False
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitRow:
    key: str
    label: str
    unit: str
    value: str
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """The whole form. `rules` is what it says, None where something typed can't be read."""

    rows: tuple[ClassRow, ...]
    default_mode: str
    limits: tuple[LimitRow, ...]
    expires_min: str
    expires_problem: str
    rules: dict[str, Any] | None
    special: tuple[str, ...] = ()  # names of the rules for some jobs only, which the table can't say

    @property
    def problems(self) -> list[str]:
        found = [f"{row.label}: {row.problem}" for row in self.rows if row.problem]
        found += [f"{row.label}: {row.problem}" for row in self.limits if row.problem]
        return found + ([f"Expiry: {self.expires_problem}"] if self.expires_problem else [])


def deciding_rule(rules: Mapping[str, Any], failure_class: FailureClass) -> dict[str, Any]:
    """The first rule for every job that holds the class, else the default."""
    place = _place(rules, failure_class)
    return dict(rules.get("default", DEFAULT_RULES["default"]) if place is None else rules["rules"][place])


def _place(rules: Mapping[str, Any], failure_class: FailureClass) -> int | None:
    for index, rule in enumerate(rules.get("rules", ())):
        if not rule.get("match") and (rule["classes"] == "*" or failure_class in rule["classes"]):
            return index
    return None


def setting_of(rules: Mapping[str, Any], failure_class: FailureClass) -> Setting:
    rule = deciding_rule(rules, failure_class)
    return Setting(mode=rule.get("mode", Mode.OBSERVE), max_restarts=rule.get("max_restarts"))


def table_of(rules: Mapping[str, Any]) -> Table:
    """The table for a stored policy."""
    typed = {"default_mode": rules.get("default", {}).get("mode", Mode.OBSERVE)}
    typed["expires_min"] = _number_text(rules.get("expires_after_s", DEFAULT_RULES["expires_after_s"]) / 60)
    breaker = {**DEFAULT_RULES["breaker"], **rules.get("breaker", {})}
    typed |= {key: _number_text(breaker[key]) for key, *_ in LIMITS}
    for failure_class in FailureClass:
        setting = setting_of(rules, failure_class)
        typed[f"mode_{failure_class}"] = setting.mode
        typed[f"max_{failure_class}"] = "" if setting.max_restarts is None else str(setting.max_restarts)
    return read(rules, typed)


def read(base: Mapping[str, Any], typed: Mapping[str, str]) -> Table:
    """The table with what was typed on top of the policy `base`; nothing typed is lost, whatever is wrong with it."""
    rows = tuple(_row(base, typed, failure_class) for failure_class in FailureClass)
    limits = tuple(_limit(typed, *limit) for limit in LIMITS)
    expires_min, default_mode = typed.get("expires_min", "").strip(), typed.get("default_mode", "")
    good = _number(expires_min, whole=False)
    expires_problem = "" if good is not None and good >= 1 else "give minutes, 1 or more."
    broken = expires_problem or any(r.problem for r in rows) or any(r.problem for r in limits)
    rules = None if broken else _rules(base, rows, default_mode, limits, expires_min)
    return Table(
        rows=rows,
        default_mode=default_mode,
        limits=limits,
        expires_min=expires_min,
        expires_problem=expires_problem,
        rules=rules,
        special=tuple(rule["name"] for rule in base.get("rules", ()) if rule.get("match")),
    )


def _row(base: Mapping[str, Any], typed: Mapping[str, str], failure_class: FailureClass) -> ClassRow:
    label, meaning = FAILURE_LABELS[failure_class]
    mode, restarts = typed.get(f"mode_{failure_class}", ""), typed.get(f"max_{failure_class}", "").strip()
    number = _number(restarts, whole=True)
    problem = "" if mode in list(Mode) else "choose observe, approve or auto."
    if restarts and (number is None or not 0 <= number <= 100):
        problem = "give a whole number from 0 to 100 restarts, or leave it empty."
    rule = deciding_rule(base, failure_class)
    return ClassRow(
        key=failure_class,
        label=label,
        meaning=meaning,
        mode=mode,
        max_restarts=restarts,
        rule=str(rule.get("name", "default")),
        shadow=mode == Mode.AUTO and bool(rule.get("shadow")),
        problem=problem,
    )


def _limit(typed: Mapping[str, str], key: str, label: str, unit: str, whole: bool) -> LimitRow:
    value = typed.get(key, "").strip()
    wanted = f"give a {'whole ' if whole else ''}number of {unit}."
    return LimitRow(
        key=key, label=label, unit=unit, value=value, problem="" if _number(value, whole=whole) is not None else wanted
    )


def _number(text: str, *, whole: bool) -> float | None:
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e9 else None  # also refuses nan and inf


def _number_text(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, int | float) else str(value)


def _rules(
    base: Mapping[str, Any], rows: tuple[ClassRow, ...], default_mode: str, limits: tuple[LimitRow, ...], expires: str
) -> dict[str, Any]:
    """The policy with the table's changes; rules whose classes were left as they are keep their names and places."""
    found = copy.deepcopy(dict(base))
    found["default"] = {**found.get("default", {}), "mode": default_mode}
    whole = {key for key, _, _, is_whole in LIMITS if is_whole}
    found["breaker"] = {row.key: int(row.value) if row.key in whole else float(row.value) for row in limits}
    if expires != _number_text(base["expires_after_s"] / 60):
        found["expires_after_s"] = float(expires) * 60
    for row in rows:
        wanted = Setting(mode=row.mode, max_restarts=int(row.max_restarts) if row.max_restarts else None)
        if setting_of(found, FailureClass(row.key)) != wanted:
            _set(found, FailureClass(row.key), wanted)
    return found


def _set(rules: dict[str, Any], failure_class: FailureClass, wanted: Setting) -> None:
    """Let that hold for the class. What else its rule said of it (budgets, approval, …) is still said."""
    listed, place = rules["rules"], _place(rules, failure_class)
    if place is None:
        listed.append(_own_rule({}, failure_class, wanted, taken=_names(listed)))
        return
    old = listed[place]
    if old["classes"] == [failure_class]:
        del listed[place]
        if setting_of(rules, failure_class) != wanted or set(old) - SAID:
            listed.insert(place, _own_rule(old, failure_class, wanted, taken=_names(listed)))
        return
    if old["classes"] != "*":
        old["classes"] = [each for each in old["classes"] if each != failure_class]
    own = {key: value for key, value in old.items() if key != "name"}
    listed.insert(place, _own_rule(own, failure_class, wanted, taken=_names(listed)))


def _own_rule(
    old: Mapping[str, Any], failure_class: FailureClass, wanted: Setting, *, taken: set[str]
) -> dict[str, Any]:
    name = old.get("name", "") or _free(failure_class.value, taken)
    rule = {"name": name, "classes": [failure_class.value], "mode": wanted.mode}
    if wanted.max_restarts is not None:
        rule["max_restarts"] = wanted.max_restarts
    return {**rule, **{key: copy.deepcopy(value) for key, value in old.items() if key not in SAID}}


def _free(name: str, taken: set[str]) -> str:
    number = 2
    free = name
    while free in taken:
        free, number = f"{name} {number}", number + 1
    return free


def _names(rules: Iterable[Mapping[str, Any]]) -> set[str]:
    return {rule["name"] for rule in rules}


USUAL_RESTARTS = DEFAULT_MAX_RESTARTS
