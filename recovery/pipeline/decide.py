"""Stage 6, decide: by policy (ruling.py) or by people, once, on exactly what was shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from recovery import audit
from recovery.access import SYSTEM, Actor, Forbidden, Permission, actor_for, holds_role, owns, require
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.plans import RULES
from recovery.core.policy import Approval, OnExpiry, frozen_by
from recovery.core.types import ActionKind, DecisionKind, Outcome, Rejection
from recovery.core.verify.deadlines import call_time
from recovery.models import Action, Agreement, Cluster, Decision, Incident, KillSwitch, Membership, Recommendation
from recovery.models.access import Role
from recovery.pipeline.facts import current_rules
from recovery.pipeline.others import why_anew
from recovery.pipeline.recommend import shown_hash
from recovery.pipeline.subject import earlier_calls, key_of, subject_of
from recovery.pipeline.transition import LostRace, advance, advance_action

AFTER_SILENCE = timedelta(minutes=10)  # so long a question stays open at least when Slurm answers again


SAID = {
    DecisionKind.APPROVE: "Approved",
    DecisionKind.REJECT: "Rejected",
    DecisionKind.AMEND: "Amended",
    DecisionKind.AUTO: "Decided by policy",
    DecisionKind.EXPIRE: "Expired",
}


class OutOfDate(Exception):
    """What was shown no longer holds; the message says what changed and what to do."""


class AlreadyDecided(Exception):
    """Somebody decided first; the message says who and what."""


class Frozen(Exception):
    """A freeze holds; the message says until when, and who can decide in spite of it."""


def approve(
    recommendation_id: int, *, shown_hash: str, actor: Actor, comment: str = "", override: str = "", now: datetime
) -> Decision | Agreement:
    """Approve exactly what was shown: the decision, or one person's agreement where the policy asks for more.

    `override`: why in spite of a freeze. Raises Forbidden, OutOfDate, AlreadyDecided, Frozen, ValueError (a comment is
    asked for) or Recommendation.DoesNotExist.
    """
    row = _asked(recommendation_id)
    needed = Approval(**row.approval)
    as_owner = _may_decide(actor, row, role=needed.role)
    _open_question(row, shown_hash, now=now)
    if why := why_anew(row.incident, row):
        _look_again(row.incident, now=now)
        raise OutOfDate(why)
    if needed.comment and not comment.strip():
        raise ValueError("Say why: the policy asks for a reason with each approval.")
    overrode = _in_spite_of(row, actor, override, now=now)
    said = f"{comment} (in spite of {overrode}: {override.strip()})".strip() if overrode else comment
    return _agree(row, actor=actor, as_owner=as_owner, comment=said, overrode=overrode, now=now)


def reject(
    recommendation_id: int,
    *,
    shown_hash: str,
    actor: Actor,
    reason: str,
    rejection: Rejection = Rejection.OTHER,
    now: datetime,
) -> Decision:
    """Reject what was shown, with a reason of the short list or one's own (else ValueError). Raises as `approve`."""
    row = _asked(recommendation_id)
    _may_decide(actor, row, role="approver")
    if rejection is Rejection.OTHER and not reason.strip():
        raise ValueError("Give a reason: it is what the next person and the policy learn from.")
    _open_question(row, shown_hash, now=now)
    return conclude(row, DecisionKind.REJECT, actor=actor, reason=reason.strip(), rejection=rejection, now=now)


def withdraw(action_id: int, *, reason: str, actor: Actor, now: datetime) -> Action:
    """Take back a decision that was not begun to be carried out. Raises as `approve` does, and Action.DoesNotExist."""
    action = Action.objects.select_related("incident__run__cluster", "recommendation").get(pk=action_id)
    _may_decide(actor, action.recommendation, role="approver")
    if not reason.strip():
        raise ValueError("Give a reason: it stands in the audit trail.")
    why = f"Withdrawn by {actor.name}: {reason.strip()}"
    try:
        with transaction.atomic():
            if action.state != ActionState.INTENDED:
                raise LostRace("begun")
            advance_action(
                action, ActionState.REFUSED, now=now, why=why, actor=actor, observed_at=now, detail=why[:500]
            )
            advance(action.incident, IncidentState.WATCHING, now=now, why=why, actor=actor, deadline_at=None)
    except LostRace as error:
        raise OutOfDate("It was begun already: what the scheduler does is watched; undo it from there.") from error
    return action


def _asked(recommendation_id: int) -> Recommendation:
    related = ("incident__attempt__job__cluster", "incident__run__cluster", "policy")
    return Recommendation.objects.select_related(*related).get(pk=recommendation_id)


def _may_decide(actor: Actor, row: Recommendation, *, role: str) -> bool:
    """Raises Forbidden for whom has no say; True for the job's owner, where the policy lets owners decide."""
    if actor.can(Permission.DECIDE, row) and holds_role(actor, role, row):
        return False
    if Approval(**row.approval).owner and owns(actor, row.incident.run):
        return True
    require(actor, Permission.DECIDE, row)
    raise Forbidden(f"{actor.name} may not decide this: the policy asks for the role {role.replace('_', ' ')} here.")


def may_approve(actor: Actor, row: Recommendation) -> bool:
    """Whether the policy counts their agreement to it."""
    return _has_say(actor, row, role=Approval(**row.approval).role)


def may_reject(actor: Actor, row: Recommendation) -> bool:
    """Whether they may reject it, or withdraw what was decided on it."""
    return _has_say(actor, row, role="approver")


def _has_say(actor: Actor, row: Recommendation, *, role: str) -> bool:
    try:
        _may_decide(actor, row, role=role)
    except Forbidden:
        return False
    return True


def _in_spite_of(row: Recommendation, actor: Actor, override: str, *, now: datetime) -> str:
    """The name of the freeze that is overridden, "" where none holds. Raises Frozen."""
    freeze = frozen_by(current_rules(), cluster=row.incident.run.cluster.name, now=now)
    if freeze is None:
        return ""
    if override.strip() and holds_role(actor, freeze.override, row):
        return freeze.name
    who = freeze.override.replace("_", " ")
    raise Frozen(f"{freeze.name}: nothing is done until {freeze.ends:%Y-%m-%d %H:%M} UTC. {who} can, with a reason.")


def _agree(
    row: Recommendation, *, actor: Actor, as_owner: bool, comment: str, overrode: str, now: datetime
) -> Decision | Agreement:
    """One person's agreement, and the decision with the last one that was missing. One person counts once."""
    with transaction.atomic():
        lock(row)  # of two who agree at once, one sees the other
        before = list(Agreement.objects.filter(recommendation=row).select_related("actor"))
        if mine := next((each for each in before if each.actor_id == actor.user_id), None):
            raise AlreadyDecided(f"You approved this at {mine.at:%H:%M:%S} UTC; somebody else has to agree, too.")
        agreement = Agreement.objects.create(
            recommendation=row, actor_id=actor.user_id, actor_name=actor.name, as_owner=as_owner,
            comment=comment[:500], hash=row.hash, at=now,
        )  # fmt: skip
        missing = still_missing(row, [*before, agreement])
        if not missing:
            return conclude(row, DecisionKind.APPROVE, actor=actor, reason=comment, overrode=overrode, now=now)
        audit.record_incident(
            row.incident, "recommendation.agreed", actor=actor, at=now, reason=comment,
            recommendation=row.pk, missing=missing,
        )  # fmt: skip
        return agreement


def standing(row: Recommendation, agreed: Sequence[Agreement]) -> list[Agreement]:
    """Those that count: of people who still have a say. Who lost the role, or the account, agrees to nothing."""
    return [each for each in agreed if each.actor is not None and may_approve(actor_for(each.actor), row)]


def involved(row: Recommendation) -> frozenset[str]:
    """Who can't be the only one to agree where four eyes are asked for: who proposed it, and whose job it is."""
    proposer, run = row.proposed_by.partition(" (token ")[0], row.incident.run  # as Actor names who uses a token
    owners = Membership.objects.filter(Q(cluster=None) | Q(cluster=run.cluster_id), role=Role.OWNER, name=run.user)
    return frozenset({proposer, run.user, *owners.values_list("user__username", flat=True)} - {""})


def still_missing(row: Recommendation, agreed: Sequence[Agreement] | None = None) -> int:
    """How many more have to agree to a recommendation that waits. `agreed`: who did, where that was read already."""
    needed = Approval(**row.approval)
    if agreed is None:
        agreed = list(Agreement.objects.filter(recommendation=row).select_related("actor"))
    people = [each.actor.get_username() for each in standing(row, agreed) if each.actor is not None]
    return needed.missing(people, involved=involved(row) if needed.four_eyes and people else frozenset())


def keep_open_or_expire(incident: Incident, recommendation: Recommendation, *, now: datetime) -> None:
    """Nobody decided in time: nothing is done, and the case is watched.

    On a stale picture nobody can decide, so no question runs out meanwhile, nor right when Slurm answers again.
    """
    until = now + AFTER_SILENCE
    if incident.attempt.job.cluster.is_stale(now):
        if recommendation.expires_at < until:
            Recommendation.objects.filter(pk=recommendation.pk).update(expires_at=until)
            Incident.objects.filter(pk=incident.pk).update(deadline_at=until)
    elif recommendation.expires_at <= now:
        conclude(recommendation, DecisionKind.EXPIRE, actor=SYSTEM, reason="Nobody decided in time.", now=now)
    elif recommendation.escalate_at is not None and recommendation.escalate_at <= now:
        _escalate(recommendation, now=now)


def _escalate(row: Recommendation, *, now: datetime) -> None:
    """Tell more people, once: the event is what notifications go out by."""
    with transaction.atomic():
        if Recommendation.objects.filter(pk=row.pk).exclude(escalate_at=None).update(escalate_at=None):
            told = ", ".join(row.escalate_to)
            audit.record_incident(
                row.incident, "recommendation.escalated", actor=SYSTEM, at=now, reason=f"Nobody decided: {told}.",
                recommendation=row.pk, to=row.escalate_to,
            )  # fmt: skip


def _open_question(row: Recommendation, shown: str, *, now: datetime) -> None:
    """Raises OutOfDate or AlreadyDecided where it can't be decided on any more, or not on what was shown."""
    taken = Decision.objects.filter(recommendation=row).first()
    if taken is not None:
        raise AlreadyDecided(_who_decided(taken))
    if row.superseded_at is not None:
        raise OutOfDate("The case was looked at again since; read the newer recommendation and decide on that.")
    if shown != row.hash:
        raise OutOfDate("This is not what was shown; reload the page and decide on what it says now.")
    if row.expires_at <= now:
        raise OutOfDate("This recommendation has expired; wait for the next look at the case.")
    if row.incident.state != IncidentState.AWAITING_DECISION:
        raise OutOfDate(f"The case is {row.incident.state.replace('_', ' ')}: it waits for no decision.")
    if row.incident.attempt.job.cluster.is_stale(now):
        raise OutOfDate("The picture of the cluster is too old to act on; wait until Slurm answers again.")
    if not still_holds(row):
        _look_again(row.incident, now=now)
        raise OutOfDate("The job has changed since this was recommended; a fresh recommendation follows in seconds.")


def _look_again(incident: Incident, *, now: datetime) -> None:
    Incident.objects.filter(pk=incident.pk).update(next_look_at=now)


def _who_decided(decision: Decision) -> str:
    return f"{decision.actor_name} decided first, at {decision.at:%H:%M:%S} UTC: {decision.kind}."


def conclude(
    recommendation: Recommendation,
    kind: DecisionKind,
    *,
    actor: Actor,
    reason: str,
    rejection: Rejection | None = None,
    overrode: str = "",
    now: datetime,
) -> Decision:
    """Decision, intent and new state in one transaction: a unique row and a guarded update know one winner."""
    incident = recommendation.incident
    try:
        with transaction.atomic():
            if lock(recommendation).superseded_at is not None:
                raise LostRace("superseded")
            decision = Decision.objects.create(
                recommendation=recommendation, kind=kind, actor_id=actor.user_id, actor_name=actor.name,
                reason=reason[:500], rejection=rejection or "", overrode=overrode, hash=recommendation.hash, at=now,
            )  # fmt: skip
            action, new = None, IncidentState.WATCHING
            if kind in (DecisionKind.APPROVE, DecisionKind.AUTO):
                action, new = _intend(incident, recommendation, now=now), IncidentState.ACTING
            elif kind is DecisionKind.EXPIRE and _asks_again(recommendation):
                new = IncidentState.DETECTED
            told = ": ".join(part for part in (SAID[kind], _listed(rejection), reason) if part)
            why = told if reason else f"{told}."
            advance(
                incident, new, now=now, why=why, actor=actor, decided_at=now, next_look_at=now,
                deadline_at=action.deadline_at if action is not None else None,
            )  # fmt: skip
    except IntegrityError as error:
        taken = Decision.objects.filter(recommendation=recommendation).first()
        if taken is None:
            raise
        raise AlreadyDecided(_who_decided(taken)) from error
    except LostRace as error:
        raise OutOfDate("The case moved on in this moment; reload the page.") from error
    return decision


def lock(row: Recommendation) -> Recommendation:
    """As it is now; before anything is written about it, so that whoever comes second waits, and nobody mutually."""
    return Recommendation.objects.select_for_update().get(pk=row.pk)


def _asks_again(row: Recommendation) -> bool:
    """Whether an expired question is asked once more: where the policy says so, and it was not before."""
    expired = Decision.objects.filter(recommendation__incident=row.incident_id, kind=DecisionKind.EXPIRE)
    return row.on_expiry == OnExpiry.ASK_AGAIN and not expired.exclude(recommendation=row).exists()


def _listed(rejection: Rejection | None) -> str:
    """The reason of the short list in words; "" where the person's own words say it."""
    return "" if rejection in (None, Rejection.OTHER) else str(rejection).replace("_", " ")


def _intend(incident: Incident, recommendation: Recommendation, *, now: datetime) -> Action:
    """The intent, committed before the scheduler is called. Its key makes it one of a kind."""
    return Action.objects.create(
        recommendation=recommendation, incident=incident, kind=recommendation.action,
        key=key_of(recommendation),
        exclude_nodes=recommendation.exclude_nodes, parameters=recommendation.parameters, state=ActionState.INTENDED,
        intended_at=now, deadline_at=_action_deadline(recommendation, now),
    )  # fmt: skip


def _action_deadline(recommendation: Recommendation, now: datetime) -> datetime:
    """By when an action must be seen to have converged: what any has, or more by the run's earlier ones."""
    kind = ActionKind(recommendation.action)
    calls = earlier_calls(recommendation.incident.run_id, kind, before=now)
    return now + timedelta(seconds=call_time(calls, least_s=RULES[kind].time_s).within_s)


def still_holds(recommendation: Recommendation) -> bool:
    """Whether the job is what it was when this was proposed."""
    subject = subject_of(recommendation.incident, recommendation.parameters)
    return shown_hash(recommendation, subject) == recommendation.hash


def halted(cluster: Cluster) -> str | None:
    """Why nothing is done by policy on this cluster now, "" where no reason was given; None where policies decide."""
    switch = KillSwitch.objects.first()
    if switch is not None:
        return f"everywhere, by {switch.pulled_by}: {switch.reason}"
    return Cluster.objects.filter(pk=cluster.pk).exclude(paused_at=None).values_list("paused_reason", flat=True).first()


def close(incident: Incident, outcome: Outcome, *, why: str, now: datetime, actor: Actor = SYSTEM) -> None:
    """End a case with its outcome."""
    advance(
        incident, IncidentState.CLOSED, now=now, why=why, actor=actor,
        outcome=outcome, outcome_reason=why[:500], closed_at=now, next_look_at=None, deadline_at=None,
    )  # fmt: skip
