"""Deciding and closing: shells around the services, with every refusal answered in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from dashboard import wording
from dashboard.forms import CloseForm
from dashboard.page import DeskRequest, page
from dashboard.reads.approval import what_changed
from dashboard.views import queue
from dashboard.views.incidents import incident_context
from recovery.access import Forbidden, Permission, require
from recovery.core.types import Rejection
from recovery.models import Action, Agreement, Decision, Incident, Recommendation
from recovery.pipeline import by_hand, decide
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.transition import LostRace
from recovery.tasks import wake_incident


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of a press, shown in the decide box. `tone` names a colour, `typed` is what must not be lost."""

    tone: str
    text: str
    status: int = 200
    typed: str = ""
    override: str = ""  # typed as well: why in spite of a freeze
    rejection: str = ""  # chosen as well
    form: str = ""  # in which form that was
    closed: bool = False  # and it does not stay open: what it asks has changed
    undoes: int | None = None  # the action whose undoing stays open
    points: tuple[str, ...] = ()  # what has changed since it was shown


@require_POST
@page(of=Recommendation)
def approve(request: DeskRequest, pk: int) -> HttpResponse:
    comment = request.POST.get("comment", "")

    def press(shown: str) -> Decision | Agreement:
        return decide.approve(
            pk,
            shown_hash=shown,
            actor=request.actor,
            comment=comment,
            override=request.POST.get("override", ""),
            now=request.now,
        )

    return _decide(request, pk, press, typed=comment, form="approve")


@require_POST
@page(of=Recommendation)
def reject(request: DeskRequest, pk: int) -> HttpResponse:
    reason = request.POST.get("reason", "")
    rejection = request.POST.get("rejection", "")

    def press(shown: str) -> Decision:
        return decide.reject(
            pk,
            shown_hash=shown,
            actor=request.actor,
            reason=reason,
            rejection=Rejection(rejection) if rejection in list(Rejection) else Rejection.OTHER,
            now=request.now,
        )

    return _decide(request, pk, press, typed=reason, form="reject")


Press = Callable[[str], Decision | Agreement]


def _decide(request: DeskRequest, pk: int, press: Press, *, typed: str, form: str) -> HttpResponse:
    recommendation = Recommendation.objects.select_related("incident").filter(pk=pk).first()
    if recommendation is None:
        raise Http404(f"There is no recommendation {pk}.")
    answer = pressed(recommendation, lambda: press(request.POST.get("hash", "")), typed=typed, form=form)
    if answer.status != HTTPStatus.OK:
        chosen, override = request.POST.get("rejection", ""), request.POST.get("override", "")
        answer = replace(answer, rejection=chosen, override=override)
    if request.htmx and request.POST.get("from") == "queue":
        return queue.answered(request, recommendation.incident_id, answer)
    return answered(request, recommendation.incident_id, answer)


def pressed(
    recommendation: Recommendation, press: Callable[[], Decision | Agreement], *, typed: str = "", form: str = ""
) -> Answer:
    """One press: the decision, or why there is none and what to do instead."""
    try:
        made = press()
        wake_incident(recommendation.incident_id)
        return Answer(tone="ok", text=_decided(made, recommendation))
    except decide.AlreadyDecided as taken:
        return Answer(tone="warning", text=str(taken), status=409)
    except decide.OutOfDate as old:
        recommendation.refresh_from_db()
        points = tuple(what_changed(recommendation))
        return Answer(tone="warning", text=str(old), status=409, typed=typed, form=form, closed=True, points=points)
    except decide.Frozen as frozen:
        return Answer(tone="warning", text=str(frozen), status=409, typed=typed, form=form)
    except Forbidden as refusal:
        return Answer(tone="critical", text=str(refusal), status=403)
    except ValueError as problem:
        return Answer(tone="critical", text=str(problem), status=422, typed=typed, form=form)


def _decided(made: Decision | Agreement, recommendation: Recommendation) -> str:
    what = wording.action(recommendation.action, recommendation.exclude_nodes, recommendation.parameters)
    if isinstance(made, Agreement):
        more = decide.still_missing(recommendation)
        return f"You agree: {what}. {more} more {'has' if more == 1 else 'have'} to, before anything is done."
    if made.kind == "approve":
        return f"Approved: {what}. The intent is stored; what the scheduler does follows here."
    return "Rejected. Nothing is done to the job; it is watched whether it comes back."


@require_POST
@page(of=Action)
def withdraw(request: DeskRequest, pk: int) -> HttpResponse:
    """Take a decision back before it is begun."""
    require(request.actor, Permission.DECIDE)
    action = Action.objects.filter(pk=pk).first()
    if action is None:
        raise Http404(f"There is no action {pk}.")
    reason = request.POST.get("reason", "")
    try:
        decide.withdraw(pk, reason=reason, actor=request.actor, now=request.now)
        answer = Answer(tone="ok", text="Withdrawn before anything was done. The job is watched whether it comes back.")
    except decide.OutOfDate as late:
        answer = Answer(tone="warning", text=str(late), status=409)
    except Forbidden as refusal:
        answer = Answer(tone="critical", text=str(refusal), status=403)
    except ValueError as problem:
        answer = Answer(tone="critical", text=str(problem), status=422, typed=reason, form="withdraw")
    return answered(request, action.incident_id, answer)


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
        except Invalid as problem:
            form.add_error(None, problem.errors)
        except LostRace:
            form.add_error(None, "The case moved on in this moment: look at what it says now, then close it.")
        else:
            return answered(request, pk, Answer(tone="ok", text="Closed by hand."))
    answer = Answer(tone="critical", text="The case was not closed.", status=422, form="close")
    context = incident_context(request, pk) | {"answer": answer, "close_form": form}
    template = "incident/decide.html" if request.htmx else "incident.html"
    return render(request, template, context, status=answer.status)
