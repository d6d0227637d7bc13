"""Approving several recommendations of one outbreak with one press: each by its own hash, each answered by itself."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

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
    comment = request.POST.get("comment", "")
    shown = dict(_pair(each) for each in request.POST.getlist("approve"))
    if not shown:
        problem = "Check what is to be approved."
        return outbreak_page(request, pk, bulk_problem=problem, bulk_comment=comment, status=422)
    rows = visible_to(Recommendation.objects.filter(incident__outbreak=pk), request.actor)
    rows = rows.filter(pk__in=shown).select_related("incident__run")
    results = [Result(recommendation=row, answer=_one(request, row, shown[row.pk], comment)) for row in rows]
    refused = any(result.answer.status != HTTPStatus.OK for result in results)
    return outbreak_page(request, pk, results=results, bulk_comment=comment if refused else "")


def _pair(text: str) -> tuple[int, str]:
    number, _, shown = text.partition(":")
    return (int(number) if number.isdecimal() and len(number) < 15 else 0), shown


def _one(request: DeskRequest, row: Recommendation, shown: str, comment: str) -> Answer:
    return pressed(
        row,
        lambda: decide.approve(row.pk, shown_hash=shown, actor=request.actor, comment=comment, now=request.now),
    )
