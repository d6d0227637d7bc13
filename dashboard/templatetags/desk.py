"""Template tags: states with icon, word and colour; moments and ages; quantities as dashboard/wording.py says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django import template
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard import icons, wording
from dashboard.reads.shell import Picture, picture_of
from dashboard.timeline import Stage
from recovery.access import EVERYTHING, Actor, Permission, Subject
from recovery.core import words
from recovery.core.fleet import OUTBREAK_WORDS, SHARED_LABELS, SUSPECT_WORDS
from recovery.core.lifecycle import INCIDENT_WORDS, StateWords
from recovery.core.plans import RULES, Then
from recovery.core.types import ActionKind, JobState
from recovery.models import Action, Cluster, Event, Recommendation
from recovery.selectors import EXECUTING

register = template.Library()

register.filter("duration", wording.duration)
register.filter("steps", wording.steps)
register.filter("gpu_hours", wording.gpu_hours)
register.filter("size", wording.size)
register.filter("confidence", wording.confidence)
register.filter("names", wording.names)

TABLES: dict[str, Mapping[Any, StateWords]] = {
    "incident": INCIDENT_WORDS,
    "job": words.JOB_WORDS,
    "phase": words.PHASE_WORDS,
    "node": words.NODE_WORDS,
    "checkpoint": words.CHECKPOINT_SHOWN,
    "check": words.CHECK_WORDS,
    "mode": words.MODE_WORDS,
    "automation": words.AUTOMATION_WORDS,
    "picture": words.PICTURE_WORDS,
    "outcome": words.OUTCOME_WORDS,
    "action": words.ACTION_STATE_WORDS,
    "kind": words.ACTION_KIND_WORDS,
    "decision": words.DECISION_WORDS,
    "role": words.ROLE_WORDS,
    "finding": words.FINDING_WORDS,
    "alarm": words.ALARM_WORDS,
    "channel": words.CHANNEL_WORDS,
    "delivery": words.DELIVERY_WORDS,
    "examined": words.EXAMINED_WORDS,
    "outbreak": OUTBREAK_WORDS,
    "suspect": SUSPECT_WORDS,
    "provider": words.PROVIDER_WORDS,
}
_LABELS: dict[str, Mapping[Any, str]] = {
    "failure": {key: label for key, (label, _) in words.FAILURE_LABELS.items()},
    "restart": words.RESTART_LABELS,
    "rejection": {str(code): text for code, text in words.REJECTION_LABELS.items()},
    "exclude": words.EXCLUDE_LABELS,
    "shared": {str(kind): label for kind, label in SHARED_LABELS.items()},
}


@register.simple_tag
def chip(table: str, value: str) -> SafeString:
    """One state as icon, word and colour; the sentence on hover."""
    found = TABLES[table].get(value)
    if found is None:
        return format_html('<span class="chip tone-muted">{}</span>', value or "unknown")
    return format_html(
        '<span class="chip tone-{}" title="{}"><span class="glyph" aria-hidden="true">{}</span>{}</span>',
        found.tone,
        found.sentence,
        found.icon,
        found.label,
    )


@register.simple_tag
def standing(state: str, phase: str, blind_reason: str, finding: str = "") -> SafeString:
    """Where an attempt stands, the same on every page. What can't be observed is called neither healthy nor hung; and
    a phase alone would call a hang training, so `finding` (of the open incident on the attempt) goes before it."""
    if state in EXECUTING and blind_reason:
        return format_html(
            '<span class="chip tone-warning" title="{}"><span class="glyph" aria-hidden="true">?</span>Blind</span>',
            blind_reason,
        )
    if state != JobState.RUNNING:
        return chip("job", state)
    return chip("finding", finding) if finding else chip("phase", phase)


@register.simple_tag
def sentence(table: str, value: str) -> str:
    found = TABLES[table].get(value)
    return found.sentence if found else ""


@register.simple_tag
def tone(table: str, value: str) -> str:
    found = TABLES[table].get(value)
    return found.tone if found else "muted"


@register.filter
def label(value: str, table: str) -> str:
    """The word for a value: {{ incident.failure_class|label:"failure" }}."""
    if table in _LABELS:
        return _LABELS[table].get(value, value or "unknown")
    found = TABLES[table].get(value)
    return found.label if found else value or "unknown"


def _clock(at: datetime, now: datetime) -> str:
    at = at.astimezone(UTC)
    same_day = at.date() == now.astimezone(UTC).date()
    return f"{at:%H:%M:%S} UTC" if same_day else f"{at:%Y-%m-%d %H:%M} UTC"


def _time(at: datetime | None, kind: str, text: str) -> SafeString:
    if at is None:
        return mark_safe('<span class="unknown">unknown</span>')
    at = at.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-as="{}" title="{}">{}</time>',
        at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        kind,
        f"{at:%Y-%m-%d %H:%M:%S} UTC",
        text,
    )


@register.simple_tag
def moment(at: datetime | None) -> SafeString:
    """A time of day; the browser turns it into the reader's own zone and adds the age on hover."""
    return _time(at, "clock", _clock(at, timezone.now()) if at else "")


@register.simple_tag
def age(at: datetime | None) -> SafeString:
    """How long ago, counted on in the browser: "8 m 3 s ago"."""
    return _time(at, "age", f"{wording.duration(_seconds(at))} ago")


@register.simple_tag
def since(at: datetime | None) -> SafeString:
    """The same without "ago", for a column that says it: "8 m 3 s"."""
    return _time(at, "since", wording.duration(_seconds(at)))


@register.simple_tag
def until(at: datetime | None) -> SafeString:
    """How long until then: "in 4 m", or "4 m ago (overdue)"."""
    left = -_seconds(at)
    return _time(
        at, "until", f"in {wording.duration(left)}" if left >= 0 else f"{wording.duration(-left)} ago (overdue)"
    )


def _seconds(at: datetime | None) -> float:
    return (timezone.now() - at).total_seconds() if at else 0.0


@register.simple_tag(takes_context=True)
def live(context: template.Context, part: str, *, on: str = "", every: int = 0, url: str = "") -> SafeString:
    """The attributes of a region that is fetched again when something changed (static/js/live.js).

    `on`: kinds of subjects ("incident", "incident-17", "cluster"); `every`: seconds, for what changes without an
    event; `url`: name of the view that answers, else the page itself with its own query.
    """
    request: HttpRequest = context["request"]
    query = request.GET.copy()
    query["part"] = part
    path = reverse(url) if url else request.path
    return format_html(
        'id="{0}" hx-get="{1}?{2}" hx-trigger="desk:refresh" hx-swap="morph" hx-target="this" '
        'hx-sync="this:queue last" data-live="{3}" data-every="{4}"',
        part,
        path,
        query.urlencode() if not url else f"part={part}",
        on,
        every,
    )


@register.simple_tag
def not_live(cluster: Cluster) -> SafeString:
    """Beside what a cluster's picture shows: nothing while it is live, else how old it is, and why on hover."""
    picture = picture_of(cluster, now=timezone.now())
    if picture.state == "live":
        return mark_safe("")
    words_of = words.PICTURE_WORDS[picture.state]
    return format_html(
        ' <span class="chip tone-{}" title="{}"><span class="glyph" aria-hidden="true">{}</span>{}</span>{}',
        words_of.tone,
        picture.cause,
        words_of.icon,
        words_of.label,
        format_html(' <span class="muted small nowrap">seen {}</span>', age(picture.seen_at))
        if picture.seen_at
        else "",
    )


@register.inclusion_tag("parts/stale_note.html")
def stale_note(cluster: Cluster) -> dict[str, Picture]:
    """On the page of one thing: what it shows is old, since when and why; nothing while the picture is live."""
    return {"picture": picture_of(cluster, now=timezone.now())}


@register.simple_tag
def icon(name: str) -> SafeString:
    return icons.svg(name)


@register.simple_tag
def marks(stages: Sequence[Stage]) -> SafeString:
    """The five-stage timeline in the space of a table cell; read out as one sentence."""
    spoken = "; ".join(f"{stage.label}: {stage.word}" for stage in stages)
    dots = format_html_join(
        "",
        '<span class="mark mark-{}" title="{}: {}">{}</span>',
        ((stage.mark, stage.label, stage.hint, stage.glyph) for stage in stages),
    )
    return format_html('<span class="marks" role="img" aria-label="{}">{}</span>', spoken, dots)


@register.filter
def can(actor: Actor | None, permission: str) -> bool:
    """{% if request.actor|can:"policy.edit" %}: what is of the whole site."""
    return actor is not None and actor.can(Permission(permission), EVERYTHING)


@register.filter
def may_operate(actor: Actor | None, subject: Subject) -> bool:
    """{% if request.actor|may_operate:cluster %}; what may be done somewhere may still not be done here."""
    return actor is not None and actor.can(Permission.OPERATE, subject)


@register.filter
def may_stop_all(actor: Actor | None) -> bool:
    """Whether they may pull the kill switch."""
    return actor is not None and actor.can(Permission.OPERATE, EVERYTHING)


@register.filter
def may_decide(actor: Actor | None, subject: Subject) -> bool:
    return actor is not None and actor.can(Permission.DECIDE, subject)


@register.filter
def may_arm(actor: Actor | None, subject: Subject) -> bool:
    return actor is not None and actor.can(Permission.POLICY_EDIT, subject)


@register.filter
def may_manage_tokens(actor: Actor | None, subject: Subject) -> bool:
    return actor is not None and actor.can(Permission.TOKEN_MANAGE, subject)


@register.filter
def code_spans(text: str) -> SafeString:
    """A sentence as it is printed at the command line: what stands between `backticks` is code."""
    pieces = enumerate(text.split("`"))
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", piece) if n % 2 else piece,) for n, piece in pieces)
    )


# First words of what a back end says that are names, whatever the sentence begins with.
_COMMANDS = frozenset(
    (
        "env",
        "pyslurm",
        "sacct",
        "sacctmgr",
        "sbatch",
        "scancel",
        "scontrol",
        "sinfo",
        "slurmrestd",
        "squeue",
        "ssh",
        "sudo",
    )
)


@register.filter
def opened(text: str) -> str:
    """With a capital, as a sentence opens; a command, a path or another name stays as it is typed."""
    first = text.split(maxsplit=1)[0].rstrip(",:;.") if text.strip() else ""
    is_word = first.replace("'", "").isalpha() and first not in _COMMANDS
    return text[:1].upper() + text[1:] if is_word else text


@register.filter
def action_words(what: Recommendation | Action) -> str:
    kind = what.action if isinstance(what, Recommendation) else what.kind
    return wording.action(kind, what.exclude_nodes, what.parameters)


@register.filter
def undo_words(what: Recommendation | Action) -> str:
    """How it is undone, or that it can't be."""
    kind = ActionKind(what.action if isinstance(what, Recommendation) else what.kind)
    return RULES[kind].undo if kind in RULES else ""


@register.filter
def restarts(kind: str) -> bool:
    return ActionKind(kind).restarts


@register.filter
def consequence(recommendation: Recommendation) -> str:
    """What the case does once the action has converged."""
    kind = ActionKind(recommendation.action)
    return CONSEQUENCES[RULES[kind].then] if kind in RULES else ""


CONSEQUENCES = {
    Then.VERIFY: "The case stays open until its next checkpoint is complete.",
    Then.WATCH: "The case stays open, and the job is watched.",
    Then.CLOSE: "The case is closed as stopped on purpose.",
}


# How events read; others by their own words.
_VERBS = {
    "automation.stopped": "Stopped automation everywhere",
    "automation.armed": "Armed automation everywhere",
    "automation.tripped": "The breaker held automation back",
    "recommendation.agreed": "Agreed to a recommendation",
    "recommendation.escalated": "Told more people",
    "run.taken_over": "Took over a run",
    "run.given_back": "Gave a run back",
    "incident.snoozed": "Snoozed a question",
    "incident.woken": "Put a question back into the queue",
    "cluster.paused": "Paused automation",
    "cluster.armed": "Armed automation",
    "policy.saved": "Saved a policy",
    "account.logged_in": "Logged in",
    "account.logged_out": "Logged out",
    "account.log_in_failed": "Failed to log in",
    "account.locked": "Locked a log-in",
    "account.unlocked": "Unlocked a log-in",
    "account.role_changed": "Gave a role",
    "audit.broken": "Found the audit trail broken",
    "audit.whole_again": "Found the audit trail whole again",
    "audit.archived": "Archived events",
    "alarm.raised": "Raised an alarm",
    "alarm.ended": "Ended an alarm",
    "outbreak.opened": "Saw an outbreak",
    "outbreak.closed": "Ended an outbreak",
    "incident.joined_outbreak": "Joined an outbreak",
    "suspect.added": "Made a node a suspect",
    "suspect.ended": "Ended a suspicion",
}


_CALLS = {"action.call_begun.": "Call begun", "action.call_ended.": "Call ended"}


@register.filter
def verb_words(event: Event) -> str:
    """What an event did: a state's own word for a change of state, else the verb with its dots and dashes opened."""
    if event.verb in _VERBS:
        return _VERBS[event.verb]
    for prefix, said in _CALLS.items():
        if event.verb.startswith(prefix):
            return f"{said}: {event.verb.removeprefix(prefix).replace('_', ' ')}"
    table, _, rest = event.verb.partition(".")
    words_of = TABLES.get(table, {}).get(event.new)
    if words_of is not None and rest == event.new:
        return f"Action {words_of.label.lower()}" if table == "action" else words_of.label
    return event.verb.replace(".", " ").replace("_", " ").capitalize()
