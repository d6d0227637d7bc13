"""The policy as a table with one row per failure class, and back: what was not changed in the table stays as it is."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recovery.core.policy import DEFAULT_MAX_RESTARTS, DEFAULT_RULES
from recovery.core.types import FailureClass, Mode
from recovery.core.words import FAILURE_LABELS

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

    @property
    def problems(self) -> list[str]:
        found = [f"{row.label}: {row.problem}" for row in self.rows if row.problem]
        found += [f"{row.label}: {row.problem}" for row in self.limits if row.problem]
        return found + ([f"Expiry: {self.expires_problem}"] if self.expires_problem else [])


def deciding_rule(rules: Mapping[str, Any], failure_class: FailureClass) -> dict[str, Any]:
    """The first rule that holds the class, else the default."""
    for rule in rules.get("rules", ()):
        if rule.get("classes") == "*" or failure_class in rule.get("classes", ()):
            return dict(rule)
    return dict(rules.get("default", DEFAULT_RULES["default"]))


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
    )


def _row(base: Mapping[str, Any], typed: Mapping[str, str], failure_class: FailureClass) -> ClassRow:
    label, meaning = FAILURE_LABELS[failure_class]
    mode, restarts = typed.get(f"mode_{failure_class}", ""), typed.get(f"max_{failure_class}", "").strip()
    number = _number(restarts, whole=True)
    problem = "" if mode in list(Mode) else "choose observe, approve or auto."
    if restarts and (number is None or not 0 <= number <= 100):
        problem = "give a whole number from 0 to 100 restarts, or leave it empty."
    return ClassRow(
        key=failure_class,
        label=label,
        meaning=meaning,
        mode=mode,
        max_restarts=restarts,
        rule=str(deciding_rule(base, failure_class).get("name", "default")),
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
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _rules(
    base: Mapping[str, Any], rows: tuple[ClassRow, ...], default_mode: str, limits: tuple[LimitRow, ...], expires: str
) -> dict[str, Any]:
    """The policy with the table's changes; rules whose classes were left as they are keep their names and places."""
    found = copy.deepcopy(dict(base))
    wanted = {
        FailureClass(row.key): Setting(mode=row.mode, max_restarts=int(row.max_restarts) if row.max_restarts else None)
        for row in rows
    }
    found["default"] = {"mode": default_mode}
    whole = {key for key, _, _, is_whole in LIMITS if is_whole}
    found["breaker"] = {row.key: int(row.value) if row.key in whole else float(row.value) for row in limits}
    found["expires_after_s"] = float(expires) * 60
    kept = _without(found.get("rules", []), [c for c in FailureClass if setting_of(base, c) != wanted[c]])
    found["rules"] = kept
    added = [_own_rule(c, wanted[c], kept) for c in FailureClass if setting_of(found, c) != wanted[c]]
    found["rules"] = added + kept
    return found


def _without(rules: list[dict[str, Any]], changed: list[FailureClass]) -> list[dict[str, Any]]:
    """The rules less the changed classes; a rule for every class ("*") stays, new ones stand before it."""
    kept = [
        rule if rule["classes"] == "*" else {**rule, "classes": [c for c in rule["classes"] if c not in changed]}
        for rule in rules
    ]
    return [rule for rule in kept if rule["classes"]]


def _own_rule(failure_class: FailureClass, setting: Setting, taken: list[dict[str, Any]]) -> dict[str, Any]:
    names = {rule["name"] for rule in taken}
    name = failure_class.value if failure_class.value not in names else f"{failure_class.value}, alone"
    rule: dict[str, Any] = {"name": name, "classes": [failure_class.value], "mode": setting.mode}
    if setting.max_restarts is not None:
        rule["max_restarts"] = setting.max_restarts
    return rule


def as_text(rules: Mapping[str, Any]) -> str:
    return json.dumps(rules, indent=2, ensure_ascii=False)


USUAL_RESTARTS = DEFAULT_MAX_RESTARTS
