"""Incidents: the list, and the page of one with its parts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard import charts
from dashboard.forms import CloseForm
from dashboard.page import DeskRequest, chosen_cluster, is_part, page, respond
from dashboard.propose_form import ProposeForm
from dashboard.reads import cases, chart_data
from dashboard.reads.approval import Needed, needed_for
from dashboard.reads.evidence import Surroundings, surroundings_of
from dashboard.reads.fleet import grouped
from dashboard.reads.shell import Picture, people_with, picture_of
from dashboard.timeline import Case
from recovery.access import Actor, Permission
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import FailureClass
from recovery.core.words import REJECTION_LABELS
from recovery.models import Incident
from recovery.models.access import Role
from recovery.pipeline import propose
from recovery.pipeline.decide import may_reject
from recovery.pipeline.report import incident_report
from recovery.pipeline.subject import newest_execution
from recovery.selectors import NotFound

PER_PAGE = 50
PARTS = ("story", "cost", "why", "decide", "history", "events")


@require_GET
@page()
def incidents(request: DeskRequest) -> HttpResponse:
    """Filtered by `show` (person, open, closed, all) and `class`, the newest first."""
    show = request.GET.get("show", "open")
    show = show if show in cases.FILTERS else "open"
    found = cases.incidents(chosen_cluster(request), actor=request.actor, show=show)
    failure_class = request.GET.get("class", "")
    if failure_class in list(FailureClass):
        found = found.filter(failure_class=failure_class)
    pages = Paginator(found, PER_PAGE)
    shown = pages.get_page(request.GET.get("page"))
    context = {
        "entries": grouped(cases.rows(shown.object_list)),
        "page": shown,
        "show": show,
        "filters": cases.FILTERS,
        "failure_class": failure_class if failure_class in list(FailureClass) else "",
        "classes": list(FailureClass),
        "place": "incidents",
    }
    return respond(request, "incidents", ("rows",), context)


@require_GET
@page(of=Incident)
def incident(request: DeskRequest, pk: int) -> HttpResponse:
    """One incident; `shown` is the version of the decide box that the reader has before them."""
    context = incident_context(request, pk)
    shown = request.GET.get("shown", "")
    if request.htmx and request.GET.get("part") == "decide" and shown:
        if shown == context["decide_version"]:
            return HttpResponse(status=204)  # nothing changed: what the reader is typing stays
        context["changed"] = True
    if not is_part(request, PARTS):
        context["chart_empty"] = _chart_empty(context["incident"], now=request.now)
    return respond(request, "incident", PARTS, context)


def _chart_empty(incident: Incident, *, now: datetime) -> str:
    """Known before the chart is asked for, so that nothing moves; where steps were read, the chart itself tells."""
    if incident.attempt.last_step is not None:
        return ""
    around = chart_data.of_run(incident.run_id, width=chart_data.LEAST_WIDTH, incident_id=incident.pk, now=now)
    return charts.nothing_to_draw(around)


def incident_context(request: DeskRequest, pk: int) -> dict[str, Any]:
    try:
        found = cases.incident_page(pk, actor=request.actor, now=request.now)
    except NotFound as missing:
        raise Http404(str(missing)) from missing
    picture = picture_of(found.incident.run.cluster, now=request.now)
    waits = found.case.state is IncidentState.AWAITING_DECISION
    asked = found.case.recommendation if waits else None
    needed = needed_for([asked], actor=request.actor, now=request.now)[asked.pk] if asked is not None else None
    return {
        "found": found,
        "incident": found.incident,
        "recommendation": found.case.recommendation,
        "decision": found.case.decision,
        "action": found.case.action,
        "on": f"incident-{pk}",
        "picture": picture,
        "decide_version": decide_version(found, picture, needed),
        "needed": needed,
        "rejections": REJECTION_LABELS.items(),
        "may_withdraw": _may_withdraw(found.case, request.actor),
        "waits": waits,
        "box_title": box_title(found),
        "expired": waits and found.case.expired(request.now),
        "approvers": _who_can(needed) if needed is not None and not needed.may_approve else [],
        "cost": incident_report(found.incident, now=request.now),
        "close_form": CloseForm(),
        **_proposable(request, found.incident),
        "place": "incidents",
    }


def _proposable(request: DeskRequest, incident: Incident) -> dict[str, Any]:
    """What a person may propose here, and undo."""
    if not request.actor.can(Permission.OPERATE, incident) or incident.state not in propose.PROPOSABLE:
        return {}
    actions = incident.actions.select_related("recommendation", "incident__run__cluster")
    return {
        "propose_form": ProposeForm(newest_execution(incident)),
        "undoable": propose.undoable(incident, actions, now=request.now),
    }


def _who_can(needed: Needed) -> list[str]:
    """Whom somebody turns to who has no say."""
    return people_with(Role.ADMIN, Role(needed.approval.role))


def _may_withdraw(case: Case, actor: Actor) -> bool:
    """Whether what was decided is not begun yet, and the reader may take it back."""
    action, asked = case.action, case.recommendation
    return (
        action is not None and action.state == ActionState.INTENDED and asked is not None and may_reject(actor, asked)
    )


def box_title(found: cases.IncidentPage) -> str:
    """What the box is about: something to decide, what was done, or what we would do."""
    if found.case.state is IncidentState.AWAITING_DECISION:
        return "Decide"
    if found.case.action is not None:
        return "What was done"
    return "What was decided" if found.case.decision is not None else "What is proposed"


def decide_version(found: cases.IncidentPage, picture: Picture, needed: Needed | None) -> str:
    """Changes whenever the decide box would read differently."""
    case = found.case
    parts = [case.incident.state, picture.state, found.checkpoint.state if found.checkpoint else ""]
    parts.append(str(case.recommendation.pk) if case.recommendation else "")
    parts += [needed.version if needed else "", case.incident.run.hands_off_by]
    parts += [str(found.forgotten_at or ""), *found.on_the_node]
    if case.action is not None:
        parts += [case.action.state, str(len(case.action.calls)), case.action.detail]
    return "-".join(parts)


@require_GET
@page(of=Incident)
def surroundings(request: DeskRequest, pk: int, index: int) -> HttpResponse:
    """The recognised lines around one evidence line, as stored."""
    found = Incident.objects.filter(pk=pk).select_related("attempt__job").first()
    around: Surroundings | None = surroundings_of(found, index) if found else None
    if around is None:
        raise Http404(f"Incident {pk} has no evidence line {index}.")
    return render(request, "incident/surroundings.html", {"around": around})
