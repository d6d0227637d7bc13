"""A draft, or a stored version, on recorded history: what it would have done, before it is switched on."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from dashboard.page import DeskRequest, page
from recovery import policy_drafts, policy_files, selectors
from recovery.access import EVERYTHING, Permission, require
from recovery.models import PolicyVersion
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.rehearse import MOST, MOST_DAYS, rehearse
from recovery.policy_drafts import rules_of

PAGE = 50  # cases
DAYS = 30


@require_http_methods(["GET", "POST"])
@page(Permission.POLICY_EDIT)
def replay(request: DeskRequest) -> HttpResponse:
    """GET asks what is to be replayed; POST does it, as it takes seconds: the text of a draft, or a version."""
    held = selectors.current_policy()
    given = request.POST if request.method == "POST" else request.GET
    version = _version(given.get("version", ""), held)
    days = given.get("days", str(DAYS))
    context: dict[str, Any] = {
        "versions": selectors.policies()[:30], "version": version, "days": days, "most": MOST, "most_days": MOST_DAYS,
        "text": request.POST.get("rules", ""), "base": request.POST.get("base", ""), "place": "policies",
        "reason": request.POST.get("reason", ""),
    }  # fmt: skip
    if request.method != "POST":
        return render(request, "policies/replay.html", context)
    require(request.actor, Permission.POLICY_EDIT, EVERYTHING)  # it tells of everybody's incidents
    text = context["text"] or policy_files.write(rules_of(version))
    draft = policy_drafts.draft(text, held if context["text"] else version)
    errors = list(draft.errors)
    if draft.rules is not None:
        try:
            context |= _shown(request, rehearse(draft.rules, days=_days(days), now=request.now))
        except Invalid as problem:
            errors = problem.errors
    return render(request, "policies/replay.html", context | {"errors": errors}, status=422 if errors else 200)


def _shown(request: DeskRequest, rehearsal: Any) -> dict[str, Any]:
    cases = Paginator(rehearsal.otherwise, PAGE).get_page(request.POST.get("page", "1"))
    return {"rehearsal": rehearsal, "told": rehearsal.told, "cases": cases, "hours": rehearsal.told.saved_gpu_s / 3600}


def _days(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 6 else 0


def _version(number: str, held: PolicyVersion | None) -> PolicyVersion | None:
    if not number:
        return held
    found = selectors.policies().filter(number=int(number)).first() if number.isdecimal() and len(number) < 9 else None
    if found is None:
        raise Http404(f"There is no policy version {number[:20]}.")
    return found
