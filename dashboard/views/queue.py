"""The approvals queue: what waits, by what waiting costs; snoozing; and the answers to presses made in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from dashboard import wording
from dashboard.page import DeskRequest, chosen_cluster, page, respond
from dashboard.reads import cases
from dashboard.reads import queue as reads
from recovery.access import Permission
from recovery.core.types import FailureClass
from recovery.core.words import REJECTION_LABELS
from recovery.models import Incident
from recovery.pipeline import pauses
from recovery.pipeline.invalid import Invalid

if TYPE_CHECKING:
    from dashboard.views.decide import Answer

MORNING = 8  # o'clock, where the reader is


@require_GET
@page()
def approvals(request: DeskRequest) -> HttpResponse:
    """What waits for a decision, the most expensive wait first; `class` shows one failure class."""
    return respond(request, "approvals", ("queue",), _context(request))


def _context(request: DeskRequest) -> dict[str, Any]:
    chosen = request.GET.get("class", "")
    chosen = chosen if chosen in list(FailureClass) else ""
    found = reads.queue(chosen_cluster(request), actor=request.actor, failure_class=chosen, now=request.now)
    return {
        "found": found,
        "failure_class": chosen,
        "rejections": REJECTION_LABELS.items(),
        "filters": cases.FILTERS,
        "show": "approvals",
        "place": "incidents",
    }


def answered(request: DeskRequest, incident_id: int, answer: Answer) -> HttpResponse:
    """In the queue: the row as it is now (none where it waits no more), and what came of the press above the list."""
    row = reads.one(incident_id, actor=request.actor, now=request.now)
    context = {"row": row, "answer": answer, "now": request.now, "rejections": REJECTION_LABELS.items()}
    status = 422 if answer.status == 403 else answer.status  # htmx swaps a refusal only where it may
    return render(request, "approvals/answer.html", context, status=status)


@require_POST
@page(Permission.OPERATE, of=Incident)
def snooze(request: DeskRequest, pk: int) -> HttpResponse:
    """`for`: a span of SPANS, or `undo`."""
    wanted = request.POST.get("for", "")
    try:
        if wanted == "undo":
            pauses.wake(pk, actor=request.actor, now=request.now)
            said = "Back in the queue."
        else:
            until = _until(wanted, request)
            pauses.snooze(pk, until=until, actor=request.actor, now=request.now)
            said = f"Out of the queue for {wording.duration((until - request.now).total_seconds())}."
    except Invalid as problem:
        return _snoozed(request, pk, "critical", " ".join(problem.errors), 422)
    return _snoozed(request, pk, "ok", said, 200)


def _snoozed(request: DeskRequest, pk: int, tone: str, text: str, status: int) -> HttpResponse:
    from dashboard.views import decide  # noqa: PLC0415 - that module uses this one

    answer = decide.Answer(tone=tone, text=text, status=status)
    return answered(request, pk, answer) if request.htmx else decide.answered(request, pk, answer)


SPANS: dict[str, Callable[[datetime], datetime]] = {
    "1h": lambda now: now + timedelta(hours=1),
    "4h": lambda now: now + timedelta(hours=4),
    "morning": lambda now: _morning_after(now),
}


def _until(wanted: str, request: DeskRequest) -> datetime:
    """Raises Invalid."""
    if wanted not in SPANS:
        raise Invalid(["Choose for how long."])
    try:
        zone = ZoneInfo(request.POST.get("zone", "") or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = ZoneInfo("UTC")
    until = SPANS[wanted](request.now.astimezone(zone)).astimezone(UTC)
    return min(until, request.now + pauses.LONGEST_SNOOZE)  # a night in which the clocks are set back has an hour more


def _morning_after(now: datetime) -> datetime:
    """The next 8 o'clock."""
    morning = now.replace(hour=MORNING, minute=0, second=0, microsecond=0)
    return morning if now < morning else morning + timedelta(days=1)
