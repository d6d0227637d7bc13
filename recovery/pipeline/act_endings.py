"""Part of act: what an action's end means for its case."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.plans import RULES, Step, Then
from recovery.core.types import ActionKind, Outcome
from recovery.models import Action
from recovery.pipeline.call_results import begun_in
from recovery.pipeline.decide import close
from recovery.pipeline.transition import advance, advance_action

# Of a held requeue that did not get as far as its release.
LEFT_HELD = "Where the job waits, held by our requeue: propose its release, or cancel it."


def _converge(action: Action, reason: str, now: datetime) -> None:
    with transaction.atomic():
        advance_action(action, ActionState.CONVERGED, now=now, why=reason, observed_at=now, detail=reason[:500])
        _go_on(action, reason, now, by_others=False)


def _by_others(action: Action, reason: str, now: datetime) -> None:
    with transaction.atomic():
        advance_action(action, ActionState.REFUSED, now=now, why=reason, observed_at=now, detail=reason[:500])
        _go_on(action, reason, now, by_others=True)


def _go_on(action: Action, reason: str, now: datetime, *, by_others: bool) -> None:
    """What the case does once the scheduler shows what was wanted, whoever brought it about."""
    incident, then = action.incident, RULES[ActionKind(action.kind)].then
    if then is Then.CLOSE:
        close(incident, Outcome.STOPPED_ON_PURPOSE, why=reason, now=now)
    elif then is Then.WATCH:
        advance(incident, IncidentState.WATCHING, now=now, why=reason, next_look_at=now, deadline_at=None)
    else:
        chosen = action.kind == ActionKind.RESTORE_OLDER and "undoes" not in action.parameters
        expected = {"expected_step": action.parameters["step"]} if chosen else {}
        advance(
            incident, IncidentState.RESTORING, now=now, why=reason, acted_at=now, next_look_at=now, deadline_at=None,
            resolved_by_others=by_others, new_attempt=None, alarm="",
            **expected,
        )  # fmt: skip


def _refuse(action: Action, reason: str, now: datetime) -> None:
    """The facts changed: the case is looked at again from its beginning."""
    with transaction.atomic():
        advance_action(action, ActionState.REFUSED, now=now, why=reason, observed_at=now, detail=reason[:500])
        advance(action.incident, IncidentState.DETECTED, now=now, why=reason, next_look_at=now, deadline_at=None)


def give_up(action: Action, reason: str, now: datetime) -> None:
    """It was begun, or could not be: a person has to look."""
    if Step.REQUEUE_HOLD in begun_in(action) and Step.RELEASE not in begun_in(action):
        reason = f"{reason} {LEFT_HELD}"
    with transaction.atomic():
        advance_action(action, ActionState.FAILED, now=now, why=reason, observed_at=now, detail=reason[:500])
        advance(
            action.incident, IncidentState.NEEDS_PERSON, now=now, why=reason, alarm=reason[:500],
            next_look_at=now + timedelta(seconds=settings.TICK_S), deadline_at=None,
        )  # fmt: skip


ENDINGS: dict[Step, Callable[[Action, str, datetime], None]] = {
    Step.CONVERGED: _converge,
    Step.BY_OTHERS: _by_others,
    Step.REFUSE: _refuse,
    Step.FAIL: give_up,
}
