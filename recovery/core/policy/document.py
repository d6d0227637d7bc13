"""What a policy document says, and what holds where it is silent.

A document is one JSON object (YAML outside: recovery/policy_files.py); each saved version is stored for ever, so every
field that was ever known stays readable. Of a rule only `name`, `classes` and `mode` must be there:

    {"rules": [{
        "name": "hardware",
        "classes": ["gpu_hardware", "node_fault"],       "*": every class
        "match": {                                       what is left out matches everything
            "clusters": ["alpha*"], "partitions": [], "accounts": [], "users": [], "qos": [], "job_names": [],
            "labels": {"team": "vision*"},               of the job's comment: can only lower, as all of the comment
            "gpus": {"min": 8, "max": 512}, "nodes": {"min": 2}, "confidence": {"min": 0.9},
            "hours": {"days": ["mon", "tue"], "from": "18:00", "to": "08:00", "timezone": "Europe/Berlin"}},
        "mode": "auto",                                  observe, approve or auto
        "shadow": true,                                  auto that asks, and records what it would have done
        "actions": ["requeue"],                          what goes by itself; other actions are asked for
        "max_restarts": 3,                               of one run since its last new checkpoint, without a person
        "budget": {"per_class": 2, "window_s": 86400, "backoff_s": 600},
        "limits": {"max_nodes": 2, "max_actions": 5, "max_interrupted": 0, "window_s": 3600},
        "approval": {"count": 2, "role": "approver", "four_eyes": true, "comment": true, "owner": true},
        "expires_after_s": 3600, "on_expiry": "watch",   or "ask_again"
        "escalate": {"after_s": 900, "to": ["pager"]},
        "promote": {"decided": 20, "agreement": 0.9}}],
     "default": {"mode": "observe"},
     "breaker": {"max_actions_per_hour": 10, "max_excluded_nodes": 4, "max_excluded_percent": 10.0,
                 "fleet_failures": 3, "fleet_window_s": 120.0},
     "freezes": [{"name": "year's end", "from": "2026-12-23T18:00:00Z", "to": "2027-01-04T08:00:00Z",
                  "clusters": ["*"], "override": "admin"}],
     "expires_after_s": 43200.0,
     "avoid_suspects": true,
     "log_pattern": "\\\\[upd\\\\] (?P<step>\\\\d+)"}

`avoid_suspects`: a restart keeps away from suspect nodes (recovery/core/node_memory.py), within the breaker's caps.
`log_pattern`: how the site's own trainers print progress (recovery/core/logs/own_pattern.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from recovery.core.logs.own_pattern import OwnPattern, own_pattern

DEFAULT = "default"  # what decides where no rule matches; no rule may be called so
DEFAULT_MAX_RESTARTS = 3
LOG_PATTERN = "log_pattern"
AVOID_SUSPECTS = "avoid_suspects"

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


class OnExpiry(StrEnum):
    """What happens to a case whose recommendation nobody decided on in time."""

    WATCH = "watch"  # nothing is done, and the case is watched
    ASK_AGAIN = "ask_again"  # a fresh recommendation, once more


@dataclass(frozen=True, kw_only=True, slots=True)
class Approval:
    """What an approval takes.

    `count` different people, each with `role` or more. `four_eyes`: neither who proposed the action nor who owns the
    job counts towards it alone. `comment`: an approval needs a reason too. `owner`: the job's user counts as one.
    """

    count: int = 1
    role: str = "approver"
    four_eyes: bool = False
    comment: bool = False
    owner: bool = False

    def missing(self, agreed: Sequence[str], *, involved: frozenset[str]) -> int:
        """How many more have to agree. `involved`: who counts only beside somebody else where four eyes are asked."""
        short = self.count - len(set(agreed))
        if short <= 0 and self.four_eyes and set(agreed) <= involved:
            return 1
        return max(0, short)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """How often one run is restarted without a person.

    `per_class` automatic restarts for one failure class within `window`; after each, `backoff` must pass before the
    next, twice as long for each further one since the last new checkpoint.
    """

    max_restarts: int = DEFAULT_MAX_RESTARTS
    per_class: int | None = None
    window: timedelta = timedelta(days=1)
    backoff: timedelta = timedelta(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much one rule may do without a person: nodes by one action; actions, and running jobs ended, in `window`."""

    max_nodes: int | None = None
    max_actions: int | None = None
    max_interrupted: int | None = None
    window: timedelta = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Escalate:
    """Whom to tell, too, when nobody has decided for so long."""

    after: timedelta
    to: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Promote:
    """The bar at which the product proposes to make this rule automatic: so many decided, and the lower bound of their
    agreement with what was recommended.
    """

    decided: int = 20
    agreement: float = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Freeze:
    """A time in which nothing is done but by somebody with the role `override`, with a reason."""

    name: str
    begins: datetime
    ends: datetime
    clusters: tuple[str, ...]
    override: str


def approval_of(rule: Mapping[str, Any]) -> Approval:
    return Approval(**rule.get("approval", {}))


def budget_of(rule: Mapping[str, Any]) -> Budget:
    told = rule.get("budget", {})
    return Budget(
        max_restarts=rule.get("max_restarts", DEFAULT_MAX_RESTARTS),
        per_class=told.get("per_class"),
        window=timedelta(seconds=told.get("window_s", Budget().window.total_seconds())),
        backoff=timedelta(seconds=told.get("backoff_s", 0)),
    )


def limits_of(rule: Mapping[str, Any]) -> Limits:
    told = dict(rule.get("limits", {}))
    window = timedelta(seconds=told.pop("window_s", Limits().window.total_seconds()))
    return Limits(window=window, **told)


def escalate_of(rule: Mapping[str, Any]) -> Escalate | None:
    told = rule.get("escalate")
    return Escalate(after=timedelta(seconds=told["after_s"]), to=tuple(told["to"])) if told else None


def promote_of(rule: Mapping[str, Any]) -> Promote | None:
    """None: this rule is never proposed for promotion."""
    told = rule.get("promote")
    return Promote(**told) if told is not None else None


def expires_after(rules: Mapping[str, Any], rule: Mapping[str, Any]) -> timedelta:
    return timedelta(seconds=rule.get("expires_after_s", rules["expires_after_s"]))


def freezes_of(rules: Mapping[str, Any]) -> tuple[Freeze, ...]:
    return tuple(
        Freeze(
            name=told["name"],
            begins=datetime.fromisoformat(told["from"]),
            ends=datetime.fromisoformat(told["to"]),
            clusters=tuple(told.get("clusters", ["*"])),
            override=told.get("override", "admin"),
        )
        for told in rules.get("freezes", ())
    )


def rule_named(rules: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The rule of that name, or the default; None where this version has none."""
    if name == DEFAULT:
        return dict(rules["default"])
    return next((dict(rule) for rule in rules["rules"] if rule["name"] == name), None)


def log_pattern(rules: Mapping[str, Any]) -> OwnPattern | None:
    """The site's own pattern for progress in logs; None where the policy has none. Raises PatternError."""
    text = rules.get(LOG_PATTERN, "")
    return own_pattern(text) if text else None
