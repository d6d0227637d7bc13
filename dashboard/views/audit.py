"""The audit trail: every change, who made it, and why; the newest first."""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from dashboard.page import DeskRequest, page, respond
from recovery import selectors

PER_PAGE = 100
SUBJECTS = ("incident", "action", "recommendation", "policy", "cluster")


@require_GET
@page()
def audit(request: DeskRequest) -> HttpResponse:
    """Paged by id, so that a page stays the same while new events arrive. `subject` and `actor` filter."""
    rows = selectors.events().order_by("-id")
    subject, actor = request.GET.get("subject", ""), request.GET.get("actor", "").strip()[:150]
    if subject in SUBJECTS:
        rows = rows.filter(subject_kind=subject)
    if actor:
        rows = rows.filter(actor_name=actor)
    before = request.GET.get("before", "")
    if before.isdecimal() and len(before) < 15:
        rows = rows.filter(pk__lt=int(before))
    shown = list(rows[: PER_PAGE + 1])
    context = {
        "events": shown[:PER_PAGE],
        "older": shown[PER_PAGE - 1].pk if len(shown) > PER_PAGE else None,
        "paged": bool(before),
        "subject": subject if subject in SUBJECTS else "",
        "actor": actor,
        "subjects": SUBJECTS,
        "place": "audit",
    }
    return respond(request, "audit", ("rows",), context)
