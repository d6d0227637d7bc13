"""Proposing another action, or the undoing of one: shells around the services, every refusal answered in place."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.views.decorators.http import require_POST

from dashboard.page import DeskRequest, page
from dashboard.propose_form import ProposeForm
from dashboard.views.decide import Answer, answered
from recovery.access import Permission
from recovery.core.types import ActionKind
from recovery.models import Action, Incident
from recovery.pipeline import propose as service
from recovery.pipeline.decide import OutOfDate
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.subject import newest_execution
from recovery.tasks import client_of, wake_incident

MADE = "Proposed. It is shown here exactly as it would be done, and waits for a decision."
LEFT_ALONE = "Recorded. Nothing is done to the job, and nobody has to decide; it is watched."


@require_POST
@page(Permission.OPERATE, of=Incident)
def propose(request: DeskRequest, pk: int) -> HttpResponse:
    """Another action than the one that is recommended."""
    found = (
        Incident.objects.select_related("run__cluster", "attempt__job__run", "new_attempt__job").filter(pk=pk).first()
    )
    if found is None:
        raise Http404(f"There is no incident {pk}.")
    form = ProposeForm(newest_execution(found), request.POST)
    if form.is_valid():
        try:
            service.propose(
                pk, action=form.kind, parameters=form.parameters(), exclude_nodes=form.nodes(),
                reason=form.cleaned_data["why"], actor=request.actor, client=client_of(found.run.cluster),
                now=request.now,
            )  # fmt: skip
        except Invalid as problem:
            form.add_error(None, [text.partition(": ")[2] or text for text in problem.errors])
        except OutOfDate as old:
            form.add_error(None, str(old))
        else:
            wake_incident(pk)
            made = LEFT_ALONE if form.kind is ActionKind.NOTHING else MADE
            return answered(request, pk, Answer(tone="ok", text=made))
    answer = Answer(tone="critical", text="Nothing was proposed.", status=422, form="propose")
    return answered(request, pk, answer, propose_form=form)


@require_POST
@page(Permission.OPERATE, of=Action)
def undo(request: DeskRequest, pk: int) -> HttpResponse:
    """The reverse of an action, as a proposal."""
    action = Action.objects.select_related("incident__run__cluster").filter(pk=pk).first()
    if action is None:
        raise Http404(f"There is no action {pk}.")
    reason = request.POST.get("why", "")
    try:
        client = client_of(action.incident.run.cluster)
        row = service.undo(pk, reason=reason, actor=request.actor, client=client, now=request.now)
    except Invalid as problem:
        text = " ".join(each.partition(": ")[2] or each for each in problem.errors)
        answer = Answer(tone="critical", text=text, status=422, typed=reason, undoes=pk)
    except OutOfDate as old:
        answer = Answer(tone="warning", text=str(old), status=409, typed=reason, undoes=pk)
    else:
        wake_incident(row.incident_id)
        own = f" It is decided in case {row.incident_id}." if row.incident_id != action.incident_id else ""
        answer = Answer(tone="ok", text=f"{MADE}{own}")
    return answered(request, action.incident_id, answer)
