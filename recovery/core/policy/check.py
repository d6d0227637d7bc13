"""What is wrong with a policy document: each problem with the place of the field and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any
from zoneinfo import ZoneInfo

from recovery.core.logs.own_pattern import PatternError
from recovery.core.policy.document import AVOID_SUSPECTS, DEFAULT, LOG_PATTERN, OnExpiry, log_pattern
from recovery.core.policy.match import DAYS, NAMES, RANGES, clock
from recovery.core.types import ActionKind, FailureClass, Mode

APPROVER_ROLES = ("approver", "policy_admin", "admin")  # of recovery/models/access.py: the one that may most last
SEVERITIES = ("info", "warning", "decision", "urgent")  # recovery/core/notices.py
LONGEST_NAME = 100
LONGEST_PATTERN = 200
MOST_RULES = 500
MOST_VALUES = 30_000  # in a document, keys included: whoever sends one, judging it must take seconds at most

Place = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """`place` is the way to the field: ("rules", 0, "mode")."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{in_words(self.place)}: {self.message}" if self.place else self.message


def in_words(place: Place) -> str:
    """("rules", 0, "mode") as rules[0].mode."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def check_rules(rules: object) -> list[str]:
    """What is wrong with a policy, as sentences that name the field and the remedy; [] if it can be used."""
    return [str(problem) for problem in problems(rules)]


def problems(rules: object) -> list[Problem]:
    """What is wrong, in the order of the document's fields; [] if it can be used."""
    if not isinstance(rules, dict):
        return [Problem(place=(), message=f"The policy must be a JSON object with the fields {_and(_NEEDED)}.")]
    if _too_many(rules):
        return [Problem(place=(), message=f"The policy holds more than {MOST_VALUES} values; make it smaller.")]
    return [*_fields(rules, (), _TOP, required=_NEEDED), *_twice(rules)]


def _too_many(value: Any) -> bool:
    """Whether a document holds more values than anybody needs; looked at until there are too many, not to its end."""
    waiting, count = [value], 0
    while waiting and count <= MOST_VALUES:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict):
            count += len(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return count > MOST_VALUES


# --- checks of one value: each yields problems -----------------------------------------------------------------------
Check = Callable[[Any, Place], Iterator[Problem]]


def _fields(table: Any, place: Place, known: Mapping[str, Check], required: tuple[str, ...] = ()) -> Iterator[Problem]:
    """An object with some of the known fields, all the required ones, and nothing else."""
    if not isinstance(table, dict):
        yield Problem(place=place, message=f"must be an object with {_and(required or tuple(known))}.")
        return
    for key in sorted(map(str, set(table) - set(known))):
        yield Problem(place=(*place, key), message="no such field; remove it.")
    for key in required:
        if key not in table:
            yield Problem(place=(*place, key), message="is missing; add it.")
    for key, check in known.items():
        if key in table:
            yield from check(table[key], (*place, key))


def _object(known: Mapping[str, Check], required: tuple[str, ...] = ()) -> Check:
    return lambda value, place: _fields(value, place, known, required)


def _must(holds: Callable[[Any], bool], what: str) -> Check:
    def check(value: Any, place: Place) -> Iterator[Problem]:
        if not holds(value):
            yield Problem(place=place, message=f"must be {what}.")

    return check


def _one_of(words: tuple[str, ...]) -> Check:
    return _must(lambda value: isinstance(value, str) and value in words, f"one of {', '.join(words)}")


def _list_of(check: Check, what: str, *, least: int = 0, most: int = MOST_RULES) -> Check:
    def check_all(value: Any, place: Place) -> Iterator[Problem]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            yield Problem(place=place, message=f"must be a list of {what}.")
            return
        for index, each in enumerate(value):
            yield from check(each, (*place, index))

    return check_all


def _is_text(value: Any, longest: int) -> bool:
    """What can be shown in one line as it is, and stored by every database: no NUL, nothing that turns a line round."""
    return isinstance(value, str) and bool(value.strip()) and len(value) <= longest and value.isprintable()


def _number(*, least: float, most: float = 1e9, whole: bool = False, unit: str = "") -> Check:
    """A bound on a number. Infinity and NaN hold no bound."""
    kind = f"a {'whole ' if whole else ''}number{unit}"
    what = f"{kind} from {least:g} to {most:g}" if most < 1e9 else f"{kind}, at least {least:g}"

    def holds(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            return False
        return least <= value <= most

    return _must(holds, what)


def _range(check: Check) -> Check:
    def check_range(value: Any, place: Place) -> Iterator[Problem]:
        found = list(_fields(value, place, {"min": check, "max": check}))
        yield from found
        if found:
            return
        if not value:
            yield Problem(place=place, message="must have min, max or both.")
        elif value.get("min", 0) > value.get("max", 1e9):
            yield Problem(place=place, message="min is more than max: nothing matches; exchange them.")

    return check_range


def _classes(value: Any, place: Place) -> Iterator[Problem]:
    if value == "*":
        return
    known = list(FailureClass)
    if not isinstance(value, list) or not 0 < len(value) <= len(known):
        yield Problem(place=place, message='must be "*" or a list of failure classes, each once.')
        return
    for each in value:
        if each not in known:
            near = get_close_matches(str(each), known, n=1)
            remedy = f"did you mean {near[0]}?" if near else "docs/glossary.md lists them."
            yield Problem(place=place, message=f"{each!r} is no failure class; {remedy}")


def _labels(value: Any, place: Place) -> Iterator[Problem]:
    if not isinstance(value, dict) or not all(_is_text(key, LONGEST_NAME) for key in value):
        yield Problem(place=place, message='must be an object of texts, like {"team": "vision*"}.')
        return
    for key, pattern in value.items():
        yield from _PATTERN(pattern, (*place, key))


def _clock(value: Any, place: Place) -> Iterator[Problem]:
    try:
        if clock(value).tzinfo is None and len(value) == len("08:30"):
            return
    except (TypeError, ValueError):
        pass
    yield Problem(place=place, message='must be a time of day, like "08:30".')


def _timezone(value: Any, place: Place) -> Iterator[Problem]:
    try:
        ZoneInfo(value)
    except (TypeError, ValueError, OSError, LookupError):
        yield Problem(place=place, message='must be the name of a time zone, like "Europe/Berlin".')


def _moment(value: Any, place: Place) -> Iterator[Problem]:
    try:
        if datetime.fromisoformat(value).tzinfo is not None:
            return
    except (TypeError, ValueError):
        pass
    yield Problem(place=place, message='must be a moment with its zone, like "2026-12-23T18:00:00Z".')


def _freeze(value: Any, place: Place) -> Iterator[Problem]:
    found = list(_fields(value, place, _FREEZE, required=("name", "from", "to")))
    yield from found
    if not found and datetime.fromisoformat(value["from"]) >= datetime.fromisoformat(value["to"]):
        yield Problem(place=(*place, "to"), message="must be later than from.")


def _pattern_of_logs(value: Any, place: Place) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield Problem(place=place, message="must be a text; leave it out for none.")
        return
    if value and not value.isprintable():
        yield Problem(place=place, message="must be one line of printable signs.")
        return
    try:
        log_pattern({LOG_PATTERN: value})
    except PatternError as error:
        yield Problem(place=place, message=str(error))


def _twice(rules: dict[str, Any]) -> Iterator[Problem]:
    for key in ("rules", "freezes"):
        listed = rules.get(key)
        names: set[str] = set()
        for index, rule in enumerate(listed if isinstance(listed, list) else ()):
            name = rule.get("name") if isinstance(rule, dict) else None
            if isinstance(name, str) and name in names:
                yield Problem(place=(key, index, "name"), message=f"{name} is used twice; give each its own name.")
            names.add(str(name))


def _and(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# --- the fields ------------------------------------------------------------------------------------------------------
_SECONDS = " of seconds"
_DAY_S = 86400
_PATTERN = _must(lambda value: _is_text(value, LONGEST_PATTERN), f"a text of 1 to {LONGEST_PATTERN} printable signs")
_COUNT = _number(least=0, most=10_000, whole=True)
_TRUE = _must(lambda value: isinstance(value, bool), "true or false")
_MODE = _one_of(tuple(Mode))
_EXPIRES = _number(least=60, unit=_SECONDS)
_WINDOW = _number(least=60, most=30 * _DAY_S, unit=_SECONDS)
_RULE_NAME = _must(
    lambda value: _is_text(value, LONGEST_NAME) and value != DEFAULT,
    f"a text of 1 to {LONGEST_NAME} printable signs other than default",
)
_NAME = _must(lambda value: _is_text(value, LONGEST_NAME), f"a text of 1 to {LONGEST_NAME} printable signs")
_HOURS = _object({
    "days": _list_of(_one_of(DAYS), f"days: {', '.join(DAYS)}", least=1),
    "from": _clock, "to": _clock, "timezone": _timezone,
})  # fmt: skip
_MATCH = _object({
    **{key: _list_of(_PATTERN, "names; * stands for anything") for key in NAMES},
    "labels": _labels,
    **{key: _range(_COUNT) for key in RANGES},
    "confidence": _range(_number(least=0, most=1)),
    "hours": _HOURS,
})  # fmt: skip
_APPROVAL = _object({
    "count": _number(least=1, most=10, whole=True), "role": _one_of(APPROVER_ROLES),
    "four_eyes": _TRUE, "comment": _TRUE, "owner": _TRUE,
})  # fmt: skip
_ESCALATE = _object(
    {"after_s": _number(least=60, most=30 * _DAY_S, unit=_SECONDS), "to": _list_of(_NAME, "channels", least=1)},
    required=("after_s", "to"),
)
_RULE = {
    "name": _RULE_NAME,
    "classes": _classes,
    "match": _MATCH,
    "mode": _MODE,
    "shadow": _TRUE,
    "actions": _list_of(_one_of(tuple(ActionKind)), f"actions: {', '.join(ActionKind)}"),
    "max_restarts": _number(least=0, most=100, whole=True),
    "budget": _object({
        "per_class": _number(least=0, most=100, whole=True), "window_s": _WINDOW,
        "backoff_s": _number(least=0, most=_DAY_S, unit=_SECONDS),
    }),
    "limits": _object({"max_nodes": _COUNT, "max_actions": _COUNT, "max_interrupted": _COUNT, "window_s": _WINDOW}),
    "approval": _APPROVAL,
    "expires_after_s": _EXPIRES,
    "on_expiry": _one_of(tuple(OnExpiry)),
    "escalate": _ESCALATE,
    "promote": _object({"decided": _number(least=5, most=10_000, whole=True), "agreement": _number(least=0.5, most=1)}),
}  # fmt: skip
_BREAKER = {
    "max_actions_per_hour": _number(least=0, whole=True),
    "max_excluded_nodes": _number(least=0, whole=True),
    "max_excluded_percent": _number(least=0, most=100),
    "fleet_failures": _number(least=2, whole=True),
    "fleet_window_s": _number(least=1, unit=_SECONDS),
}
_FREEZE = {
    "name": _NAME, "from": _moment, "to": _moment, "clusters": _list_of(_PATTERN, "names of clusters", least=1),
    "override": _one_of(APPROVER_ROLES),
}  # fmt: skip
_ROUTE = {
    "to": _list_of(_NAME, "channels", least=1), "severity": _one_of(SEVERITIES), "classes": _classes, "match": _MATCH,
}  # fmt: skip
_DEFAULT_RULE = {key: _RULE[key] for key in ("mode", "approval", "expires_after_s", "on_expiry", "escalate")}
_NEEDED = ("rules", "default", "breaker", "expires_after_s")
_TOP = {
    "rules": _list_of(_object(_RULE, required=("name", "classes", "mode")), "rules; use [] for none"),
    "default": _object(_DEFAULT_RULE, required=("mode",)),
    "breaker": _object(_BREAKER, required=tuple(_BREAKER)),
    "freezes": _list_of(_freeze, "freezes"),
    "notify": _list_of(_object(_ROUTE, required=("to",)), "routes"),
    "expires_after_s": _EXPIRES,
    LOG_PATTERN: _pattern_of_logs,
    AVOID_SUSPECTS: _must(lambda value: isinstance(value, bool), "true or false"),
}
