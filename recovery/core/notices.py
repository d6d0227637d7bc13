"""Who is told of what: kinds of notices, how urgent each is, and the routes of the policy.

Quiet when nothing needs a person: without routes only what needs one is told, to every channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from recovery.core.policy.match import Question, Traits, why_not
from recovery.core.types import FailureClass


class Severity(StrEnum):
    """How urgent it is, least first."""

    INFO = "info"  # nobody has to do anything
    WARNING = "warning"  # somebody should look, in working hours
    DECISION = "decision"  # the product waits for a person
    URGENT = "urgent"  # work is being lost now, or automation stands still


class NoticeKind(StrEnum):
    DECISION_NEEDED = "decision_needed"
    PERSON_NEEDED = "person_needed"
    ESCALATED = "escalated"
    CHECKPOINT_IN_DANGER = "checkpoint_in_danger"
    OUTBREAK = "outbreak"
    CLUSTER_SILENT = "cluster_silent"
    ALARM = "alarm"
    AUTOMATION_STOPPED = "automation_stopped"
    AUTOMATION_ARMED = "automation_armed"
    BREAKER_TRIPPED = "breaker_tripped"
    RULE_DEMOTED = "rule_demoted"
    PROMOTION_PROPOSED = "promotion_proposed"
    CHANNEL_FAILING = "channel_failing"
    CASE_CLOSED = "case_closed"
    TEST = "test"


K, S = NoticeKind, Severity
SEVERITY: dict[NoticeKind, Severity] = {
    K.DECISION_NEEDED: S.DECISION, K.PERSON_NEEDED: S.DECISION, K.ESCALATED: S.URGENT,
    K.CHECKPOINT_IN_DANGER: S.URGENT, K.OUTBREAK: S.DECISION, K.CLUSTER_SILENT: S.WARNING, K.ALARM: S.WARNING,
    K.AUTOMATION_STOPPED: S.URGENT, K.AUTOMATION_ARMED: S.INFO, K.RULE_DEMOTED: S.DECISION,
    K.PROMOTION_PROPOSED: S.WARNING, K.CHANNEL_FAILING: S.DECISION, K.CASE_CLOSED: S.INFO, K.TEST: S.INFO,
    K.BREAKER_TRIPPED: S.URGENT,
}  # fmt: skip

# By the verb of the event that is written with the change.
KIND_OF_EVENT: dict[str, NoticeKind] = {
    "incident.awaiting_decision": K.DECISION_NEEDED,
    "incident.needs_person": K.PERSON_NEEDED,
    "incident.closed": K.CASE_CLOSED,
    "recommendation.escalated": K.ESCALATED,
    "outbreak.opened": K.OUTBREAK,
    "cluster.silent": K.CLUSTER_SILENT,
    "cluster.paused": K.AUTOMATION_STOPPED,
    "cluster.armed": K.AUTOMATION_ARMED,
    "automation.stopped": K.AUTOMATION_STOPPED,
    "automation.armed": K.AUTOMATION_ARMED,
    "automation.tripped": K.BREAKER_TRIPPED,
    "alarm.raised": K.ALARM,
    "policy.demoted": K.RULE_DEMOTED,
    "promotion.proposed": K.PROMOTION_PROPOSED,
    "channel.failing": K.CHANNEL_FAILING,
}

TITLES: dict[NoticeKind, str] = {
    K.DECISION_NEEDED: "A decision is needed",
    K.PERSON_NEEDED: "A person is needed",
    K.ESCALATED: "Nobody has decided yet",
    K.CHECKPOINT_IN_DANGER: "A good checkpoint is about to be destroyed",
    K.OUTBREAK: "Several runs failed together",
    K.CLUSTER_SILENT: "A cluster does not answer",
    K.ALARM: "Something is not as it should be",
    K.AUTOMATION_STOPPED: "Automation was stopped",
    K.AUTOMATION_ARMED: "Automation goes on",
    K.BREAKER_TRIPPED: "The breaker holds automation back",
    K.RULE_DEMOTED: "A rule asks again",
    K.PROMOTION_PROPOSED: "A rule could go by itself",
    K.CHANNEL_FAILING: "A channel delivers nothing",
    K.CASE_CLOSED: "The case is closed",
    K.TEST: "This is a test",
}

GATHER = timedelta(seconds=15)  # so long a notice waits for others of the same outbreak: they become one message
DEAD = timedelta(minutes=10)  # a channel that fails for so long is an alarm of its own
AGAIN = timedelta(minutes=10)  # the same of the same case is not told twice within this
TRIPPED_AGAIN = timedelta(hours=1)  # nor the breaker of the same cluster within this, however often it lets one through
_ORDER = {severity: place for place, severity in enumerate(Severity)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """What a channel sends. `path` is the page to go to: a link opens it, and never decides anything."""

    key: str
    kind: str
    severity: str
    at: str  # ISO 8601
    title: str
    lines: tuple[str, ...]
    path: str
    cluster: str = ""
    incidents: tuple[int, ...] = ()

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Message:
        """From what `dataclasses.asdict` gave, by way of JSON."""
        return cls(**{**stored, "lines": tuple(stored["lines"]), "incidents": tuple(stored["incidents"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """What routes match of a notice. Without a case only routes for every class match."""

    kind: NoticeKind
    traits: Traits
    failure_class: FailureClass | None
    confidence: float
    at: datetime


def channels_for(rules: Mapping[str, Any], about: About, *, every: Sequence[str]) -> list[str]:
    """Names of the channels of each route that matches. Without routes: `every` one, of what needs a person."""
    routes = rules.get("notify")
    if routes is None:
        return list(every) if _ORDER[SEVERITY[about.kind]] >= _ORDER[Severity.DECISION] else []
    named = [name for route in routes if _matches(route, about) for name in route["to"]]
    return [name for name in dict.fromkeys(named) if name in every]


def _matches(route: Mapping[str, Any], about: About) -> bool:
    if _ORDER[SEVERITY[about.kind]] < _ORDER[Severity(route.get("severity", Severity.DECISION))]:
        return False
    classes = route.get("classes", "*")
    if about.failure_class is None and classes != "*":
        return False
    question = Question(
        traits=about.traits, failure_class=about.failure_class or FailureClass.UNKNOWN,
        confidence=about.confidence, at=about.at,
    )  # fmt: skip
    return not why_not({"classes": classes, "match": route.get("match", {})}, question)


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """Channels that are told of some failure classes: of each severity, always and where a route's match allows it."""

    classes: tuple[FailureClass | None, ...]  # None: what is of no case, as a cluster that does not answer
    always: tuple[tuple[str, ...], ...]  # by severity, most urgent first
    perhaps: tuple[tuple[str, ...], ...]


MOST_URGENT_FIRST = tuple(reversed(Severity))
_EXAMPLE = {S.INFO: K.CASE_CLOSED, S.WARNING: K.ALARM, S.DECISION: K.DECISION_NEEDED, S.URGENT: K.ESCALATED}


def who_is_told(rules: Mapping[str, Any], *, every: Sequence[str], at: datetime) -> list[Told]:
    """The routes as a table: classes of which the same channels are told stand together."""
    routes = rules.get("notify")
    sure = {} if routes is None else {"notify": [route for route in routes if not route.get("match")]}
    wide = {} if routes is None else {"notify": [{**route, "match": {}} for route in routes]}
    together: dict[tuple[Any, Any], list[FailureClass | None]] = {}
    for found in (None, *FailureClass):
        always, perhaps = [], []
        for severity in MOST_URGENT_FIRST:
            about = About(kind=_EXAMPLE[severity], traits=Traits(), failure_class=found, confidence=1.0, at=at)
            always.append(tuple(channels_for(sure, about, every=every)))
            perhaps.append(tuple(name for name in channels_for(wide, about, every=every) if name not in always[-1]))
        together.setdefault((tuple(always), tuple(perhaps)), []).append(found)
    return [Told(classes=tuple(c), always=always, perhaps=perhaps) for (always, perhaps), c in together.items()]


def named_channels(rules: Mapping[str, Any]) -> list[str]:
    """Those that routes and escalations name, each once."""
    listed = [route["to"] for route in rules.get("notify") or ()]
    escalating = [*rules.get("rules", ()), rules.get("default", {})]
    listed += [rule["escalate"]["to"] for rule in escalating if rule.get("escalate")]
    return list(dict.fromkeys(name for names in listed for name in names))


def one_line(text: str, *, most: int = 500) -> str:
    """What a job or a person wrote, without breaks, marks that turn text around, and what can't be seen."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def retry_after(tries: int) -> timedelta | None:
    """How long to wait after so many tries that failed; None: it is given up."""
    waits = (10, 30, 120, 600, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600)  # seconds; 16 hours in all
    return timedelta(seconds=waits[tries - 1]) if tries <= len(waits) else None
