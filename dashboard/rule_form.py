"""One rule of the policy as a form, and back. What a field may hold is said by recovery/core/policy/check.py alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from recovery.core.plans import RULES
from recovery.core.policy import OnExpiry
from recovery.core.policy.check import APPROVER_ROLES, Problem
from recovery.core.policy.match import DAYS
from recovery.core.types import FailureClass
from recovery.core.words import ACTION_KIND_WORDS, FAILURE_LABELS
from recovery.models.access import Role

Path = tuple[str, ...]


class Unreadable(ValueError):
    """What was typed is no value of its kind; the message says what is wanted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """How a value stands in a text field. `read` raises Unreadable."""

    read: Callable[[str], Any]
    show: Callable[[Any], str]


def _number(text: str) -> int | float:
    try:
        number = float(text)
        return int(number) if number.is_integer() else number
    except (ValueError, OverflowError) as error:
        raise Unreadable("give a number.") from error


def _labels(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in _names(text)]
    if not all(sign and name.strip() for name, sign, _ in pairs):
        raise Unreadable("give NAME=PATTERN, several with commas between.")
    return {name.strip(): pattern.strip() for name, _, pattern in pairs}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _shown(number: Any) -> str:
    return f"{number:.12g}" if isinstance(number, int | float) else str(number)


def _times(factor: float) -> Kind:
    """A number that is shown divided by `factor`: seconds as minutes."""
    return Kind(
        read=lambda text: _number(repr(round(_number(text) * factor, 9))),
        show=lambda value: _shown(value / factor) if isinstance(value, int | float) else str(value),
    )


TEXT = Kind(read=str, show=str)
NUMBER = Kind(read=_number, show=_shown)
MINUTES, PERCENT = _times(60), _times(0.01)
NAMES = Kind(read=_names, show=", ".join)
LABELS = Kind(read=_labels, show=lambda pairs: ", ".join(f"{name}={pattern}" for name, pattern in pairs.items()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One field. `path` is its place in the rule; `choices` make it a list to choose from, `flag` a box to tick."""

    path: Path
    label: str
    kind: Kind = TEXT
    hint: str = ""
    unit: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    flag: bool = False

    @property
    def name(self) -> str:
        return "_".join(self.path)


def _field(path: str, label: str, kind: Kind = TEXT, **more: Any) -> Field:
    return Field(path=tuple(path.split(".")), label=label, kind=kind, **more)


_ROLES = tuple((role, Role(role).label) for role in APPROVER_ROLES)
_EXPIRY = (
    (str(OnExpiry.WATCH), "nothing is done, and the case is watched"),
    (str(OnExpiry.ASK_AGAIN), "a fresh recommendation, once"),
)
_ANY = "several with commas, * stands for anything; empty: any"
GROUPS: tuple[tuple[str, str, tuple[Field, ...]], ...] = (
    ("jobs", "For which jobs", (
        _field("match.clusters", "Clusters", NAMES, hint=_ANY), _field("match.partitions", "Partitions", NAMES),
        _field("match.accounts", "Accounts", NAMES), _field("match.users", "Users", NAMES),
        _field("match.qos", "QOS", NAMES), _field("match.job_names", "Job names", NAMES),
        _field("match.labels", "Labels of the job's comment", LABELS, hint="team=vision*; can only lower the mode"),
        _field("match.gpus.min", "GPUs, at least", NUMBER), _field("match.gpus.max", "GPUs, at most", NUMBER),
        _field("match.nodes.min", "Nodes, at least", NUMBER), _field("match.nodes.max", "Nodes, at most", NUMBER),
        _field("match.confidence.min", "Confidence of the verdict, at least", NUMBER, hint="0 to 1"),
        _field("match.confidence.max", "Confidence, at most", NUMBER),
    )),
    ("hours", "At which hours", (
        _field("match.hours.from", "From", hint="18:00; over midnight is fine"), _field("match.hours.to", "To"),
        _field("match.hours.timezone", "Time zone", hint="Europe/Berlin; empty: UTC"),
    )),
    ("often", "How often it goes by itself", (
        _field("max_restarts", "Restarts of one run", NUMBER, hint="since its last new checkpoint; empty: 3"),
        _field("budget.per_class", "Restarts of one run for one class", NUMBER),
        _field("budget.window_s", "… within", MINUTES, unit="minutes", hint="empty: a day"),
        _field("budget.backoff_s", "Distance between two", MINUTES, unit="minutes", hint="doubles"),
        _field("limits.max_actions", "Actions of this rule on a cluster", NUMBER),
        _field("limits.max_interrupted", "Running jobs ended by it", NUMBER),
        _field("limits.window_s", "… within", MINUTES, unit="minutes", hint="empty: an hour"),
        _field("limits.max_nodes", "Nodes excluded by one action", NUMBER),
    )),
    ("approval", "What an approval takes", (
        _field("approval.count", "How many people", NUMBER, hint="empty: 1"),
        _field("approval.role", "With at least the role", choices=_ROLES),
        _field("approval.four_eyes", "Neither who proposed it nor who owns the job is enough alone", flag=True),
        _field("approval.comment", "It needs a reason", flag=True),
        _field("approval.owner", "The job's own user counts as one", flag=True),
        _field("expires_after_s", "Expires after", MINUTES, unit="minutes", hint="empty: the policy's"),
        _field("on_expiry", "Then", choices=_EXPIRY),
        _field("escalate.after_s", "Tell others, too, after", MINUTES, unit="minutes"),
        _field("escalate.to", "… on the channels", NAMES),
    )),
    ("promotion", "When it may earn to go by itself", (
        _field("promote", "Propose it when it has met a bar", flag=True),
        _field("promote.decided", "Decisions", NUMBER, hint="empty: 20"),
        _field("promote.agreement", "Agreement, surely at least", PERCENT, unit="%", hint="empty: 90"),
    )),
)  # fmt: skip
FIELDS = tuple(field for _, _, fields in GROUPS for field in fields)
ACTIONS = tuple((str(kind), ACTION_KIND_WORDS[kind].label) for kind, rules in RULES.items() if rules.automatic)
CLASSES = tuple((str(each), *FAILURE_LABELS[each]) for each in FailureClass)


def typed_of(rule: Mapping[str, Any]) -> QueryDict:
    """The rule as the form's fields would send it."""
    typed = QueryDict(mutable=True)
    typed["name"], typed["mode"] = rule.get("name", ""), rule.get("mode", "approve")
    classes = rule.get("classes", [])
    typed["every_class"] = "on" if classes == "*" else ""
    typed.setlist("classes", [] if classes == "*" else classes)
    typed["shadow"] = "on" if rule.get("shadow") else ""
    typed["actions_limited"] = "on" if "actions" in rule else ""
    typed.setlist("actions", rule.get("actions", []))
    typed.setlist("days", rule.get("match", {}).get("hours", {}).get("days", []))
    for field in FIELDS:
        value = _at(rule, field.path)
        if value is not None:
            typed[field.name] = ("on" if value is not False else "") if field.flag else field.kind.show(value)
    return typed


def read(typed: QueryDict) -> tuple[dict[str, Any], dict[str, str]]:
    """The rule that the fields say, and by field what can't be read."""
    rule: dict[str, Any] = {"name": typed.get("name", "").strip()}
    rule["classes"] = "*" if typed.get("every_class") else typed.getlist("classes")
    problems: dict[str, str] = {}
    if days := typed.getlist("days"):
        _put(rule, ("match", "hours", "days"), days)
    for field in FIELDS:
        text = typed.get(field.name, "").strip()
        if not text or (field.path[0] == "promote" and not typed.get("promote")):
            continue
        try:
            value = True if field.flag else field.kind.read(text)
        except Unreadable as error:
            problems[field.name] = str(error)
        else:
            _put(rule, field.path, {} if field.path == ("promote",) else value)
    rule["mode"] = typed.get("mode", "")
    if typed.get("shadow"):
        rule["shadow"] = True
    if typed.get("actions_limited"):
        rule["actions"] = typed.getlist("actions")
    return _in_order(rule), problems


_ORDER = ("name", "classes", "match", "mode", "shadow", "actions")


def _in_order(rule: dict[str, Any]) -> dict[str, Any]:
    return {key: rule[key] for key in (*_ORDER, *(key for key in rule if key not in _ORDER)) if key in rule}


def can_say(rule: Mapping[str, Any]) -> bool:
    """Whether the form gives the rule back as it was; else it is edited as text."""
    again, problems = read(typed_of(rule))
    return not problems and _bare(again) == _bare(rule)


def _bare(value: Any, *, inside: bool = False) -> Any:
    """Without what says nothing: false, and within `match` and other tables what is empty."""
    if not isinstance(value, Mapping):
        return value
    kept = {key: _bare(each, inside=True) for key, each in value.items() if each is not False}
    return {key: each for key, each in kept.items() if key in ("promote", "actions") or each not in ({}, [])}


def of_field(problem: Problem, index: int) -> tuple[str, str]:
    """The name of the form's field that a problem of the rule at that index is about, and the sentence; "" for none."""
    place = tuple(part for part in problem.place[2:] if isinstance(part, str))
    if problem.place[:2] != ("rules", index):
        return "", str(problem)
    if not place or place[0] in (*_ORDER[:2], *_ORDER[3:]):
        return place[0] if place else "name", problem.message
    if place[:3] == ("match", "hours", "days"):
        return "days", problem.message
    names = [field.name for field in FIELDS if place[: len(field.path)] == field.path]
    below = [field.name for field in FIELDS if field.path[: len(place)] == place]
    return (names or below or ["name"])[-1 if names else 0], problem.message


def _at(rule: Mapping[str, Any], path: Path) -> Any:
    value: Any = rule
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def _put(rule: dict[str, Any], path: Path, value: Any) -> None:
    for key in path[:-1]:
        rule = rule.setdefault(key, {})
    rule[path[-1]] = value


DAY_NAMES = DAYS
