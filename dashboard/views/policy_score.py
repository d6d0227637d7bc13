"""What each rule has earned: scorecards, proposals to let a rule go by itself, and what was taken back."""

from __future__ import annotations

from datetime import timedelta

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.page import DeskRequest, page
from recovery.access import EVERYTHING, Permission
from recovery.models import Event, Incident, Promotion
from recovery.pipeline import earned
from recovery.pipeline.invalid import Invalid
from recovery.selectors.scope import visible_to

WINDOWS = (30, 90, 365)  # days
SHOWN = 20
NONE = "There is no such proposal."


@require_GET
@page()
def scorecard(request: DeskRequest) -> HttpResponse:
    """Rules over the incidents that the reader may see."""
    return _page(request)


def _page(request: DeskRequest, errors: list[str] | None = None) -> HttpResponse:
    days = next((each for each in WINDOWS if request.GET.get("days") == str(each)), 90)
    since = request.now - timedelta(days=days)
    sees_all = request.actor.sees_everything
    only = None if sees_all else visible_to(Incident.objects.order_by(), request.actor).values("pk")
    verbs = ("policy.demoted", "policy.promoted", "promotion.rejected")
    moves = visible_to(Event.objects.filter(verb__in=verbs), request.actor).order_by("-pk")
    context = {
        "cards": [(card, card.saved_gpu_s / 3600) for card in earned.cards(since=since, only=only)],
        "promotions": visible_to(Promotion.objects.filter(decided_at=None).select_related("policy"), request.actor),
        "moves": moves[:SHOWN], "days": days, "windows": WINDOWS, "sees_all": sees_all, "most": earned.MOST,
        "may": request.actor.can(Permission.POLICY_EDIT, EVERYTHING), "errors": errors,
        "reason": request.POST.get("reason", ""), "place": "policies",
    }  # fmt: skip
    return render(request, "policies/scorecard.html", context, status=422 if errors else 200)


@require_POST
@page(Permission.POLICY_EDIT, of=Promotion)
def accept(request: DeskRequest, pk: int) -> HttpResponse:
    """Let the rule go by itself."""
    try:
        version = earned.accept(pk, reason=request.POST.get("reason", ""), actor=request.actor, now=request.now)
    except Promotion.DoesNotExist as missing:
        raise Http404(NONE) from missing
    except Invalid as problem:
        return _page(request, problem.errors)
    messages.success(request, f"Version {version.number} holds from now on.", extra_tags="ok")
    return redirect("policy-scorecard")


@require_POST
@page(Permission.POLICY_EDIT, of=Promotion)
def reject(request: DeskRequest, pk: int) -> HttpResponse:
    """Leave the rule as it is."""
    try:
        row = earned.reject(pk, reason=request.POST.get("reason", ""), actor=request.actor, now=request.now)
    except Promotion.DoesNotExist as missing:
        raise Http404(NONE) from missing
    except Invalid as problem:
        return _page(request, problem.errors)
    messages.success(request, f"{row.rule} stays as it is.", extra_tags="ok")
    return redirect("policy-scorecard")
