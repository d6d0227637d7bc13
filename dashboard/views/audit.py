"""The audit trail: every change, who made it, and why; the newest first. And whether it was tampered with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.http import HttpResponse, QueryDict
from django.views.decorators.http import require_GET

from dashboard.page import DeskRequest, page, respond
from recovery.selectors.audit_reads import EventQuery, audit_chain, find_events
from recovery.selectors.scope import visible_to

PER_PAGE = 100
SUBJECTS = {
    "desk": "Automation everywhere",
    **{
        kind: kind.replace("_", " ").capitalize()
        for kind in (
            "incident", "action", "recommendation", "policy", "promotion", "run", "job", "attempt", "cluster",
            "outbreak", "node", "channel", "account", "token", "push_token", "audit",
        )
    },
}  # fmt: skip


@require_GET
@page()
def audit(request: DeskRequest) -> HttpResponse:
    """Paged by id, so that a page stays the same while new events arrive."""
    query = _asked(request.GET)
    rows = visible_to(find_events(query), request.actor)
    before = _number(request.GET.get("before", ""))
    if before is not None:
        rows = rows.filter(pk__lt=before)
    shown = list(rows[: PER_PAGE + 1])
    context = {
        "events": shown[:PER_PAGE],
        "older": shown[PER_PAGE - 1].pk if len(shown) > PER_PAGE else None,
        "paged": before is not None,
        "query": query,
        "until": request.GET.get("until", "") if query.until else "",
        "subjects": SUBJECTS,
        "chain": audit_chain(),
        "place": "audit",
    }
    return respond(request, "audit", ("rows", "chain"), context)


def _asked(given: QueryDict) -> EventQuery:
    """A filter that can't be read is no filter: the form shows what was taken."""
    subject = given.get("subject", "").strip()[:80]
    until = _day(given.get("until", ""))
    return EventQuery(
        actor=given.get("actor", "").strip()[:150],
        verb=given.get("verb", "").strip().lower().replace(" ", "_")[:60],
        subject=subject if subject.partition(" ")[0] in SUBJECTS else "",
        incident=_number(given.get("incident", "")),
        since=_day(given.get("since", "")),
        until=until + timedelta(days=1) if until else None,  # the day itself included
        text=given.get("text", "").strip()[:100],
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 15 else None


def _day(text: str) -> datetime | None:
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return day if 1970 <= day.year <= 9000 else None
