"""What people stop for a while: automation on a cluster or everywhere, all for one run, a question in the queue."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from recovery import audit
from recovery.access import EVERYTHING, Actor, Permission, Place, require
from recovery.core.lifecycle import IncidentState
from recovery.models import Cluster, Incident, KillSwitch, Run
from recovery.pipeline.decide import OutOfDate
from recovery.pipeline.invalid import Invalid, needs_reason
from recovery.pipeline.transition import LostRace, advance

LONGEST_SNOOZE = timedelta(hours=24)  # a longer one would outlive most jobs' places in a queue
S = IncidentState


def pause(cluster_id: int, *, reason: str, actor: Actor, now: datetime) -> None:
    """Stop automation on a cluster at once: automatic actions not yet begun go to approval."""
    require(actor, Permission.OPERATE, Place(cluster_id))
    reason = needs_reason(reason)
    with transaction.atomic():
        changed = Cluster.objects.filter(pk=cluster_id, paused_at=None).update(
            paused_at=now, paused_by=actor.name, paused_reason=reason[:300]
        )
        if changed:
            audit.record(
                "cluster.paused", actor=actor, at=now, subject_kind="cluster", subject_id=cluster_id, reason=reason
            )


def arm(cluster_id: int, *, reason: str, actor: Actor, now: datetime) -> None:
    """Let policies decide again."""
    require(actor, Permission.POLICY_EDIT, Place(cluster_id))
    reason = needs_reason(reason)
    with transaction.atomic():
        paused = Cluster.objects.filter(pk=cluster_id).exclude(paused_at=None)
        if paused.update(paused_at=None, paused_by="", paused_reason=""):
            audit.record(
                "cluster.armed", actor=actor, at=now, subject_kind="cluster", subject_id=cluster_id, reason=reason
            )


def pull_kill_switch(*, reason: str, actor: Actor, now: datetime) -> None:
    """Stop what policies do by themselves on every cluster, at once. Raises Forbidden, Invalid."""
    require(actor, Permission.OPERATE, EVERYTHING)
    reason = needs_reason(reason)
    try:
        with transaction.atomic():
            KillSwitch.objects.create(pk=1, pulled_at=now, pulled_by=actor.name, reason=reason[:300])
            audit.record(
                "automation.stopped", actor=actor, at=now, subject_kind="desk", subject_id="all", reason=reason
            )
    except IntegrityError as error:
        raise Invalid(["The kill switch was pulled already."]) from error


def reset_kill_switch(*, reason: str, actor: Actor, now: datetime) -> None:
    """Let policies decide again, on clusters that are not paused themselves. Raises Forbidden, Invalid."""
    require(actor, Permission.POLICY_EDIT, EVERYTHING)
    reason = needs_reason(reason)
    with transaction.atomic():
        if not KillSwitch.objects.filter(pk=1).delete()[0]:
            raise Invalid(["The kill switch is not pulled."])
        audit.record("automation.armed", actor=actor, at=now, subject_kind="desk", subject_id="all", reason=reason)


def take_over(run_id: int, *, reason: str, actor: Actor, now: datetime) -> None:
    """Hands off this run: until it is given back nothing is done for it, nor asked; what happens is still watched.

    Raises Forbidden, Invalid, OutOfDate (an action is under way) or Run.DoesNotExist.
    """
    run = Run.objects.select_related("cluster").get(pk=run_id)
    require(actor, Permission.OPERATE, run)
    reason = needs_reason(reason)
    why = f"{actor.name} has taken over: {reason}"
    try:
        with transaction.atomic():
            free = Run.objects.filter(pk=run_id, hands_off_at=None)
            if not free.update(hands_off_at=now, hands_off_by=actor.name, hands_off_reason=reason[:300]):
                run.refresh_from_db()
                raise Invalid([f"{run.hands_off_by} has taken over already."])
            audit.record("run.taken_over", actor=actor, at=now, subject_kind="run", subject_id=run_id, reason=reason)
            asked = Incident.objects.filter(run=run_id, state=S.AWAITING_DECISION).first()
            if asked is not None:
                advance(asked, S.WATCHING, now=now, why=why, actor=actor, deadline_at=None, next_look_at=now)
    except LostRace as error:
        raise OutOfDate("The case moved on in this moment; look at what it says now, then take over.") from error


def give_back(run_id: int, *, reason: str, actor: Actor, now: datetime) -> None:
    """Let the policy decide about this run again; its open case is looked at anew. Raises as `take_over` does."""
    run = Run.objects.select_related("cluster").get(pk=run_id)
    require(actor, Permission.OPERATE, run)
    reason = needs_reason(reason)
    with transaction.atomic():
        held = Run.objects.filter(pk=run_id).exclude(hands_off_at=None)
        if not held.update(hands_off_at=None, hands_off_by="", hands_off_reason=""):
            raise Invalid(["Nobody has taken this run over."])
        audit.record("run.given_back", actor=actor, at=now, subject_kind="run", subject_id=run_id, reason=reason)
        watched = Incident.objects.filter(run=run_id, state=S.WATCHING, acted_at=None).first()
        if watched is not None:
            why = f"{actor.name} has given the run back: {reason}"
            advance(watched, S.DETECTED, now=now, why=why, actor=actor, deadline_at=None, next_look_at=now)


def snooze(incident_id: int, *, until: datetime, actor: Actor, now: datetime) -> None:
    """Put a question out of the queue until then, or until something new is recommended. It still runs out in time.

    Raises Forbidden, Invalid or Incident.DoesNotExist.
    """
    incident = Incident.objects.select_related("run__cluster").get(pk=incident_id)
    require(actor, Permission.OPERATE, incident)
    if not now < until <= now + LONGEST_SNOOZE:
        raise Invalid([f"until: at most {LONGEST_SNOOZE // timedelta(hours=1)} hours from now."])
    with transaction.atomic():
        asked = Incident.objects.filter(pk=incident_id, state__in=(S.AWAITING_DECISION, S.NEEDS_PERSON))
        if not asked.update(snoozed_until=until, snoozed_by=actor.name):
            raise Invalid(["The case waits for nobody."])
        audit.record_incident(
            incident, "incident.snoozed", actor=actor, at=now, reason=f"Out of the queue until {until:%H:%M} UTC."
        )


def wake(incident_id: int, *, actor: Actor, now: datetime) -> None:
    """Put a snoozed question back into the queue. Raises as `snooze` does."""
    incident = Incident.objects.select_related("run__cluster").get(pk=incident_id)
    require(actor, Permission.OPERATE, incident)
    with transaction.atomic():
        snoozed = Incident.objects.filter(pk=incident_id).exclude(snoozed_until=None)
        if not snoozed.update(snoozed_until=None, snoozed_by=""):
            raise Invalid(["The case is not snoozed."])
        audit.record_incident(incident, "incident.woken", actor=actor, at=now, reason="Back in the queue.")
