"""Which rule decides: the first that matches the job and the verdict, and why the others before it did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from fnmatch import fnmatchcase
from typing import Any
from zoneinfo import ZoneInfo

from recovery.core.policy.document import DEFAULT
from recovery.core.types import FailureClass

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# field of `match`: the trait that it is about, and its word in a sentence
NAMES = {
    "clusters": ("cluster", "cluster"), "partitions": ("partition", "partition"), "accounts": ("account", "account"),
    "users": ("user", "user"), "qos": ("qos", "QOS"), "job_names": ("job_name", "job name"),
}  # fmt: skip
RANGES = {"gpus": ("gpus", "GPUs"), "nodes": ("nodes", "nodes")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """What rules can match of a job. `labels` are what its owner wrote into the comment."""

    cluster: str = ""
    partition: str = ""
    account: str = ""
    user: str = ""
    qos: str = ""
    job_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0
    nodes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What the policy is asked about. `at` decides about hours."""

    traits: Traits
    failure_class: FailureClass
    confidence: float
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class PassedOver:
    """A rule before the deciding one, with why it did not match."""

    rule: str
    why: str


def deciding_rule(rules: Mapping[str, Any], question: Question) -> tuple[dict[str, Any], tuple[PassedOver, ...]]:
    """The rule that decides (or the default), and those passed over before it."""
    passed: list[PassedOver] = []
    for rule in rules["rules"]:
        if not (why := why_not(rule, question)):
            return dict(rule), tuple(passed)
        passed.append(PassedOver(rule=rule["name"], why=why))
    return dict(rules["default"]), tuple(passed)


def without_labels(question: Question) -> Question:
    """The same job as if its owner had written no labels: they may lower what a policy gives, never raise it."""
    return replace(question, traits=replace(question.traits, labels={}))


def name_of(rule: Mapping[str, Any]) -> str:
    return str(rule.get("name", DEFAULT))


def why_not(rule: Mapping[str, Any], question: Question) -> str:
    """Why the rule does not match, as half a sentence; "" where it does."""
    return next(_misses(rule, question), "")


def _misses(rule: Mapping[str, Any], question: Question) -> Iterator[str]:
    if rule["classes"] != "*" and question.failure_class not in rule["classes"]:
        yield f"it is not for {question.failure_class}"
    match = rule.get("match", {})
    traits = question.traits
    for key, (trait, word) in NAMES.items():
        value = getattr(traits, trait)
        if match.get(key) and not _is_one(value, match[key]):
            yield f"the {word} is {value or 'not known'}, not {_or(match[key])}"
    for key, pattern in match.get("labels", {}).items():
        value = traits.labels.get(key, "")
        if not value or not fnmatchcase(value, pattern):
            yield f"the label {key} is {value or 'not there'}, not {pattern}"
    for key, (trait, word) in RANGES.items():
        value = getattr(traits, trait)
        if key in match and (miss := _outside(value, match[key])):
            yield f"it has {value:g} {word}, {miss}"
    if "confidence" in match and (miss := _outside(question.confidence, match["confidence"])):
        yield f"the confidence is {question.confidence:.2f}, {miss}"
    if "hours" in match and not within_hours(match["hours"], question.at):
        yield f"it is not {hours_in_words(match['hours'])}"


def _is_one(value: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _outside(value: float, bounds: Mapping[str, float]) -> str:
    if "min" in bounds and value < bounds["min"]:
        return f"fewer than {bounds['min']:g}" if float(value).is_integer() else f"less than {bounds['min']:g}"
    if "max" in bounds and value > bounds["max"]:
        return f"more than {bounds['max']:g}"
    return ""


def within_hours(hours: Mapping[str, Any], at: datetime) -> bool:
    """Whether the moment lies within. A span over midnight belongs to the day on which it begins."""
    here = at.astimezone(ZoneInfo(hours.get("timezone", "UTC")))
    begins, ends = clock(hours.get("from", "00:00")), clock(hours.get("to", "24:00"))
    days = hours.get("days", DAYS)
    now = here.timetz().replace(tzinfo=None)
    today, yesterday = DAYS[here.weekday()], DAYS[here.weekday() - 1]
    if begins < ends:
        return today in days and begins <= now < ends
    return (today in days and now >= begins) or (yesterday in days and now < ends)


def clock(text: str) -> time:
    """ "08:30" as a time of day; "24:00" is the last moment of the day. Raises ValueError."""
    return time.max if text == "24:00" else time.fromisoformat(text)


def hours_in_words(hours: Mapping[str, Any]) -> str:
    days = ", ".join(hours["days"]) if "days" in hours else "every day"
    return f"{days} {hours.get('from', '00:00')} to {hours.get('to', '24:00')} {hours.get('timezone', 'UTC')}"


def _or(words: list[str]) -> str:
    return " or ".join(words)
