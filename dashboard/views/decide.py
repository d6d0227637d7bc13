"""Deciding and closing: shells around the services, with every refusal answered in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from dashboard import wording
from dashboard.forms import CloseForm
from dashboard.page import DeskRequest, page
from dashboard.views.incidents import incident_context
from recovery.access import Forbidden, Permission
from recovery.models import Decision, Incident, Recommendation
from recovery.pipeline import by_hand, decide
from recovery.pipeline.transition import LostRace
from recovery.tasks import wake_incident


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of a press, shown in the decide box. `tone` names a colour, `typed` is what must not be lost."""

    tone: str
    text: str
    status: int = 200
    typed: str = ""
    form: str = ""  # which form stays open
    undoes: int | None = None  # the action whose undoing stays open


@require_POST
@page(of=Recommendation)
def approve(request: DeskRequest, pk: int) -> HttpResponse:
    comment = request.POST.get("comment", "")

    def press(shown: str) -> Decision:
        return decide.approve(pk, shown_hash=shown, actor=request.actor, comment=comment, now=request.now)

    return _decide(request, pk, press, typed=comment, form="approve")


@require_POST
@page(of=Recommendation)
def reject(request: DeskRequest, pk: int) -> HttpResponse:
    reason = request.POST.get("reason", "")

    def press(shown: str) -> Decision:
        return decide.reject(pk, shown_hash=shown, actor=request.actor, reason=reason, now=request.now)

    return _decide(request, pk, press, typed=reason, form="reject")


def _decide(request: DeskRequest, pk: int, press: Callable[[str], Decision], *, typed: str, form: str) -> HttpResponse:
    """One press: the decision, or why there is none and what to do instead."""
    recommendation = Recommendation.objects.filter(pk=pk).first()
    if recommendation is None:
        raise Http404(f"There is no recommendation {pk}.")
    try:
        decision = press(request.POST.get("hash", ""))
        wake_incident(recommendation.incident_id)
        answer = Answer(tone="ok", text=_decided(decision, recommendation))
    except decide.AlreadyDecided as taken:
        answer = Answer(tone="warning", text=str(taken), status=409)
    except decide.OutOfDate as old:
        answer = Answer(tone="warning", text=str(old), status=409, typed=typed)
    except Forbidden as refusal:
        answer = Answer(tone="critical", text=str(refusal), status=403)
    except ValueError as problem:
        answer = Answer(tone="critical", text=str(problem), status=422, typed=typed, form=form)
    return answered(request, recommendation.incident_id, answer)


def _decided(decision: Decision, recommendation: Recommendation) -> str:
    if decision.kind == "approve":
        what = wording.action(recommendation.action, recommendation.exclude_nodes, recommendation.parameters)
        return f"Approved: {what}. The intent is stored; what the scheduler does follows here."
    return "Rejected. Nothing is done to the job; it is watched whether it comes back."


def answered(request: DeskRequest, incident_id: int, answer: Answer, **more: Any) -> HttpResponse:
    """In place for htmx. Without JavaScript: the page again, with the answer on top."""
    if not request.htmx and answer.status == 200:
        messages.success(request, answer.text, extra_tags="ok")
        return redirect("incident", incident_id)
    context = incident_context(request, incident_id) | {"answer": answer} | more
    template = "incident/decide.html" if request.htmx else "incident.html"
    # htmx swaps a refusal only where it may; 403 is said in the box as well
    status = 422 if request.htmx and answer.status == 403 else answer.status
    return render(request, template, context, status=status)


@require_POST
@page(Permission.OPERATE, of=Incident)
def close(request: DeskRequest, pk: int) -> HttpResponse:
    """End a case by hand, with an outcome and a reason."""
    form = CloseForm(request.POST)
    if not Incident.objects.filter(pk=pk).exists():
        raise Http404(f"There is no incident {pk}.")
    if form.is_valid():
        try:
            by_hand.close_incident(
                pk,
                outcome=form.cleaned_data["outcome"],
                reason=form.cleaned_data["reason"],
                actor=request.actor,
                now=request.now,
            )
        except by_hand.Invalid as problem:
            form.add_error(None, problem.errors)
        except LostRace:
            form.add_error(None, "The case moved on in this moment: look at what it says now, then close it.")
        else:
            return answered(request, pk, Answer(tone="ok", text="Closed by hand."))
    answer = Answer(tone="critical", text="The case was not closed.", status=422, form="close")
    context = incident_context(request, pk) | {"answer": answer, "close_form": form}
    template = "incident/decide.html" if request.htmx else "incident.html"
    return render(request, template, context, status=answer.status)
