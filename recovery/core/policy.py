"""The policy: how far the product may go for which failure class, and what lowers it.

Rules are JSON (a version of them is stored for ever):

    {"rules": [{"name": "hardware", "classes": ["gpu_hardware", "node_fault"], "mode": "auto", "max_restarts": 3}],
     "default": {"mode": "observe"},
     "breaker": {"max_actions_per_hour": 10, "max_excluded_nodes": 4, "max_excluded_percent": 10.0,
                 "fleet_failures": 3, "fleet_window_s": 120.0},
     "expires_after_s": 43200.0,
     "log_pattern": "\\[upd\\] (?P<step>\\d+)"}

`log_pattern` may be left out: how the site's own trainers print progress (recovery/core/logs/own_pattern.py).

The first rule whose classes hold the failure class decides ("*": every class), else the default. Whatever it says,
only a requeue (with or without an exclusion), the release of a job that Slurm holds after a failed launch, and an
extension of the time limit go without a person; the other actions never do (recovery/core/plans/).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recovery.core import budget
from recovery.core.logs.own_pattern import OwnPattern, PatternError, own_pattern
from recovery.core.plans import RULES
from recovery.core.types import (
    ActionKind,
    Diagnosis,
    FailureClass,
    Mode,
    PastFailure,
    Proposal,
    Restart,
)

DEFAULT_MAX_RESTARTS = 3
DEFAULT = "default"  # what decides where no rule matches; no rule may be called so

# A fresh installation observes: automation is earned.
DEFAULT_RULES: dict[str, Any] = {
    "rules": [],
    "default": {"mode": "observe"},
    "breaker": {
        "max_actions_per_hour": 10,
        "max_excluded_nodes": 4,
        "max_excluded_percent": 10.0,
        "fleet_failures": 3,
        "fleet_window_s": 120.0,
    },
    "expires_after_s": 12 * 3600.0,
}

_ORDER = {mode: place for place, mode in enumerate(Mode)}
_TOP = {"rules", "default", "breaker", "expires_after_s"}
LOG_PATTERN = "log_pattern"
_RULE = {"name", "classes", "mode", "max_restarts"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What the product has done and sees on the whole cluster, now."""

    actions_last_hour: int
    excluded_nodes: int  # distinct nodes that our exclusions and drains hold
    total_nodes: int
    failures_in_window: int  # incidents of other runs that began within the fleet window, this one included
    paused: bool
    paused_reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    mode: Mode
    rule: str  # name of the rule that decided, or DEFAULT
    reason: str  # shown: which rule, and what lowered it


def rule_on(
    rules: dict[str, Any],
    *,
    diagnosis: Diagnosis,
    proposal: Proposal,
    comment_mode: Mode | None,
    comment_max_restarts: int | None,
    history: Sequence[PastFailure],
    load: Load,
    failed_step: int | None,
    now: datetime,
    log_interval: int | None = None,
) -> Ruling:
    """How far the product may go with `proposal`. `rules` must have passed check_rules.

    A job's comment can ask for less, never for more. Nothing here can raise the mode.
    """
    rule = _deciding(rules, diagnosis.failure_class)
    mode, name, reason = Mode(rule["mode"]), str(rule.get("name", DEFAULT)), _said(rule, diagnosis.failure_class)
    if proposal.action is ActionKind.NOTHING:
        return Ruling(mode=Mode.OBSERVE, rule=name, reason=f"{reason}; nothing is proposed.")
    if comment_mode is not None and lower(comment_mode, mode) is not mode:
        mode, reason = comment_mode, f"{reason}; the job's comment asks for {comment_mode} only"
    if mode is not Mode.AUTO:
        return Ruling(mode=mode, rule=name, reason=f"{reason}.")
    spent = budget.stop_reason(
        history,
        failed_step=failed_step,
        max_restarts=_allowed_restarts(rule, comment_max_restarts),
        now=now,
        log_interval=log_interval,
    )
    if why := spent or _not_automatic(diagnosis, proposal, history) or _breaker(rules["breaker"], proposal, load):
        return Ruling(mode=Mode.APPROVE, rule=name, reason=f"{reason}; a person must approve: {why}")
    return Ruling(mode=mode, rule=name, reason=f"{reason}.")


def lower(one: Mode, other: Mode) -> Mode:
    """The mode that goes less far."""
    return min(one, other, key=_ORDER.__getitem__)


def _deciding(rules: dict[str, Any], failure_class: FailureClass) -> dict[str, Any]:
    for rule in rules["rules"]:
        if rule["classes"] == "*" or failure_class in rule["classes"]:
            return dict(rule)
    return dict(rules["default"])


def _said(rule: dict[str, Any], failure_class: FailureClass) -> str:
    if "name" in rule:
        return f"Rule {rule['name']} says {rule['mode']} for {failure_class}"
    return f"No rule matches {failure_class}; the default is {rule['mode']}"


def _allowed_restarts(rule: dict[str, Any], asked: int | None) -> int:
    """The rule's budget, or what the job's comment asks for where that is less."""
    allowed = int(rule.get("max_restarts", DEFAULT_MAX_RESTARTS))
    return allowed if asked is None else min(allowed, max(0, asked))


def _not_automatic(diagnosis: Diagnosis, proposal: Proposal, history: Sequence[PastFailure]) -> str:
    """Why this very proposal is no automatic one, whatever the rule says."""
    if not RULES[proposal.action].automatic:
        return f"{proposal.action.replace('_', ' ')} always needs one."
    if diagnosis.failure_class is FailureClass.UNKNOWN:
        return "the cause is unknown."
    if proposal.action is ActionKind.EXTEND_TIME_LIMIT:
        return ""  # nothing is restarted by it
    if proposal.action is ActionKind.RELEASE:
        again = any(past.acted and past.failure_class is diagnosis.failure_class for past in history)
        return "it could not be launched before, either." if again else ""
    if diagnosis.restart not in (Restart.YES, Restart.ONCE):
        return f"the diagnosis says restart {diagnosis.restart}."
    if proposal.restore_step is None:
        return "no complete checkpoint is known, the job would start from scratch."
    return ""


def _breaker(breaker: dict[str, Any], proposal: Proposal, load: Load) -> str:
    """Why the blast radius stops it."""
    if load.paused:
        return f"automation is paused ({load.paused_reason})." if load.paused_reason else "automation is paused."
    if load.failures_in_window >= breaker["fleet_failures"]:
        return (
            f"{load.failures_in_window} failures within {breaker['fleet_window_s']:g} s look like an incident of "
            "the fabric or the storage, not of each job."
        )
    if load.actions_last_hour >= breaker["max_actions_per_hour"]:
        return f"{load.actions_last_hour} actions in the last hour, {breaker['max_actions_per_hour']} are allowed."
    return _exclusion_cap(breaker, len(proposal.exclude_nodes), load)


def _exclusion_cap(breaker: dict[str, Any], new: int, load: Load) -> str:
    if not new:
        return ""
    after = load.excluded_nodes + new
    if after > breaker["max_excluded_nodes"]:
        return f"{after} nodes would be excluded, {breaker['max_excluded_nodes']} are allowed."
    if load.total_nodes <= 0 or 100 * after / load.total_nodes > breaker["max_excluded_percent"]:
        return (
            f"{after} of {load.total_nodes} nodes would be excluded, "
            f"{breaker['max_excluded_percent']:g} percent are allowed."
        )
    return ""


# --- checking rules ---------------------------------------------------------------------------------------------------


def check_rules(rules: object) -> list[str]:
    """What is wrong with a policy, as sentences that name the field and the remedy; [] if it can be used."""
    if not isinstance(rules, dict):
        return ["The policy must be a JSON object with the fields rules, default, breaker and expires_after_s."]
    errors = [f"{key}: no such field; remove it." for key in sorted(map(str, set(rules) - _TOP - {LOG_PATTERN}))]
    errors += [f"{key}: is missing; add it." for key in sorted(_TOP - set(rules))]
    if "rules" in rules:
        errors += _check_list(rules["rules"])
    if "default" in rules:
        errors += _check_default(rules["default"])
    if "breaker" in rules:
        errors += _check_breaker(rules["breaker"])
    if "expires_after_s" in rules and not _EXPIRES.holds(rules["expires_after_s"]):
        errors.append(f"expires_after_s: must be {_EXPIRES}.")
    return errors + _check_log_pattern(rules.get(LOG_PATTERN, ""))


def _check_log_pattern(pattern: object) -> list[str]:
    if not isinstance(pattern, str):
        return [f"{LOG_PATTERN}: must be a text; leave it out for none."]
    try:
        log_pattern({LOG_PATTERN: pattern})
    except PatternError as error:
        return [f"{LOG_PATTERN}: {error}"]
    return []


def log_pattern(rules: Mapping[str, Any]) -> OwnPattern | None:
    """The site's own pattern for progress in logs; None where the policy has none. Raises PatternError."""
    text = rules.get(LOG_PATTERN, "")
    return own_pattern(text) if text else None


def _check_list(rules: object) -> list[str]:
    if not isinstance(rules, list):
        return ["rules: must be a list of rules; use [] for none."]
    errors: list[str] = []
    names: set[str] = set()
    for index, rule in enumerate(rules):
        where = f"rules[{index}]"
        if not isinstance(rule, dict):
            errors.append(f"{where}: must be an object with name, classes and mode.")
            continue
        errors += _check_rule(rule, where)
        name = rule.get("name")
        if isinstance(name, str) and name in names:
            errors.append(f"{where}.name: {name} is used twice; give each rule its own name.")
        names.add(str(name))
    return errors


def _check_rule(rule: dict[Any, Any], where: str) -> list[str]:
    errors = [f"{where}.{key}: no such field; remove it." for key in sorted(map(str, set(rule) - _RULE))]
    name = rule.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > 100 or name == DEFAULT:
        errors.append(f"{where}.name: must be a text of 1 to 100 characters other than default.")
    errors += _check_mode(rule.get("mode"), f"{where}.mode")
    classes = rule.get("classes")
    if classes != "*":
        if not isinstance(classes, list) or not classes:
            errors.append(f'{where}.classes: must be "*" or a list of failure classes.')
        else:
            known = list(FailureClass)
            errors += [f"{where}.classes: {c!r} is no failure class." for c in classes if c not in known]
    if not _RESTARTS.holds(rule.get("max_restarts", DEFAULT_MAX_RESTARTS)):
        errors.append(f"{where}.max_restarts: must be {_RESTARTS}.")
    return errors


def _check_default(default: object) -> list[str]:
    if not isinstance(default, dict) or set(default) != {"mode"}:
        return ['default: must be {"mode": …} and nothing else.']
    return _check_mode(default["mode"], "default.mode")


def _check_mode(mode: object, where: str) -> list[str]:
    return [] if mode in list(Mode) else [f"{where}: must be one of {', '.join(Mode)}."]


def _check_breaker(breaker: object) -> list[str]:
    if not isinstance(breaker, dict):
        return ["breaker: must be an object."]
    errors = [f"breaker.{key}: no such field; remove it." for key in sorted(map(str, set(breaker) - set(_BREAKER)))]
    for field, number in _BREAKER.items():
        if field not in breaker:
            errors.append(f"breaker.{field}: is missing; add it.")
        elif not number.holds(breaker[field]):
            errors.append(f"breaker.{field}: must be {number}.")
    return errors


@dataclass(frozen=True, kw_only=True, slots=True)
class _Number:
    """A bound on a JSON number. Infinity and NaN hold no bound: JSON can't carry them."""

    least: float
    most: float = 1e9
    whole: bool = False
    unit: str = ""

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        return self.least <= value <= self.most

    def __str__(self) -> str:
        kind = f"a {'whole ' if self.whole else ''}number{self.unit}"
        if self.most < 1e9:
            return f"{kind} from {self.least:g} to {self.most:g}"
        return f"{kind}, at least {self.least:g}"


_RESTARTS = _Number(least=0, most=100, whole=True)
_EXPIRES = _Number(least=60, unit=" of seconds")
_BREAKER = {
    "max_actions_per_hour": _Number(least=0, whole=True),
    "max_excluded_nodes": _Number(least=0, whole=True),
    "max_excluded_percent": _Number(least=0, most=100),
    "fleet_failures": _Number(least=2, whole=True),
    "fleet_window_s": _Number(least=1, unit=" of seconds"),
}
