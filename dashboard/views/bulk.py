"""Approving several recommendations of one outbreak with one press: each by its own hash, each answered by itself."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpResponse
from django.views.decorators.http import require_POST

from dashboard.page import DeskRequest, page
from dashboard.views.decide import Answer, pressed
from dashboard.views.fleet import outbreak_page
from recovery.access import Permission
from recovery.models import Outbreak, Recommendation
from recovery.pipeline import decide
from recovery.selectors.scope import visible_to


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What came of one of the checked ones."""

    recommendation: Recommendation
    answer: Answer


@require_POST
@page(Permission.DECIDE, of=Outbreak)
def approve(request: DeskRequest, pk: int) -> HttpResponse:
    """`approve`: for each that was checked, "its id:the hash that was shown"."""
    shown = dict(_pair(each) for each in request.POST.getlist("approve"))
    if not shown:
        return outbreak_page(request, pk, bulk_problem="Check what is to be approved.", status=422)
    rows = visible_to(Recommendation.objects.filter(incident__outbreak=pk), request.actor)
    rows = rows.filter(pk__in=shown).select_related("incident__run")
    comment = request.POST.get("comment", "")
    results = [Result(recommendation=row, answer=_one(request, row, shown[row.pk], comment)) for row in rows]
    return outbreak_page(request, pk, results=results)


def _pair(text: str) -> tuple[int, str]:
    number, _, shown = text.partition(":")
    return (int(number) if number.isdecimal() and len(number) < 15 else 0), shown


def _one(request: DeskRequest, row: Recommendation, shown: str, comment: str) -> Answer:
    return pressed(
        row,
        lambda: decide.approve(row.pk, shown_hash=shown, actor=request.actor, comment=comment, now=request.now),
    )
