"""Stage 6, decide: by policy or by a person, once, on exactly what was shown."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction

from recovery.access import SYSTEM, Actor, Permission, require
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.plans import RULES
from recovery.core.policy import Load, Ruling, rule_on
from recovery.core.types import ActionKind, DecisionKind, Mode, Outcome, Proposal
from recovery.models import Action, Cluster, Decision, Incident, Node, PolicyVersion, Recommendation
from recovery.pipeline.facts import current_rules, log_interval, past_failures
from recovery.pipeline.fleet import failures_beside
from recovery.pipeline.held import nodes_held
from recovery.pipeline.others import why_anew
from recovery.pipeline.recommend import shown_hash, stored_diagnosis
from recovery.pipeline.subject import key_of, subject_of
from recovery.pipeline.transition import LostRace, advance
from recovery.selectors import current_policy

OLD_NEWS = timedelta(minutes=15)  # a failure older than this is not acted on by policy alone: somebody may have
AFTER_SILENCE = timedelta(minutes=10)  # so long a question stays open at least when Slurm answers again


SAID = {
    DecisionKind.APPROVE: "Approved",
    DecisionKind.REJECT: "Rejected",
    DecisionKind.AUTO: "Decided by policy",
    DecisionKind.EXPIRE: "Expired",
}


class OutOfDate(Exception):
    """What was shown no longer holds; the message says what changed and what to do."""


class AlreadyDecided(Exception):
    """Somebody decided first; the message says who and what."""


def apply_policy(incident: Incident, recommendation: Recommendation, *, now: datetime) -> datetime | None:
    """Let the policy rule on a fresh recommendation. Returns when to look again where it is too early to say."""
    ruling, policy = _rule(incident, recommendation, now=now)
    if ruling.mode is Mode.AUTO:
        wait_until = _settled_at(incident, recommendation)
        if now < wait_until:
            return wait_until
        if incident.attempt.job.cluster.is_stale(now):
            return now + timedelta(seconds=settings.TICK_S)  # nothing is decided on what may hold no longer
    Recommendation.objects.filter(pk=recommendation.pk).update(
        mode=ruling.mode, mode_reason=ruling.reason[:300], policy=policy, rule=ruling.rule[:100]
    )
    if recommendation.action == ActionKind.NOTHING:
        advance(incident, IncidentState.WATCHING, now=now, why=recommendation.headline, next_look_at=now)
    elif ruling.mode is Mode.OBSERVE:
        advance(incident, IncidentState.WATCHING, now=now, why=ruling.reason, next_look_at=now)
    elif ruling.mode is Mode.APPROVE:
        expires = recommendation.expires_at
        advance(incident, IncidentState.AWAITING_DECISION, now=now, why=ruling.reason, deadline_at=expires)
    else:
        _decide(recommendation, DecisionKind.AUTO, actor=SYSTEM, reason=ruling.reason, now=now)
    return None


def _rule(incident: Incident, recommendation: Recommendation, *, now: datetime) -> tuple[Ruling, PolicyVersion | None]:
    policy = current_policy()
    options = incident.attempt.job.options
    mode = options.get("mode")
    ruling = rule_on(
        current_rules(),
        diagnosis=stored_diagnosis(incident),
        proposal=_proposal(recommendation),
        comment_mode=Mode(mode) if mode else None,
        comment_max_restarts=options.get("max_restarts"),
        history=past_failures(incident, now=now),
        load=load_of(incident, now=now),
        failed_step=incident.failed_step,
        log_interval=log_interval(incident.attempt),
        now=now,
    )
    if ruling.mode is Mode.AUTO and now - incident.failed_at > OLD_NEWS:
        reason = f"{ruling.reason} The failure is older than {OLD_NEWS.seconds // 60} min, so a person decides."
        ruling = Ruling(mode=Mode.APPROVE, rule=ruling.rule, reason=reason)
    if ruling.mode is Mode.AUTO and incident.attempt.ended_unwatched:
        reason = f"{ruling.reason} It failed while nobody could watch it, so a person decides."
        ruling = Ruling(mode=Mode.APPROVE, rule=ruling.rule, reason=reason)
    if ruling.mode is Mode.AUTO and _was_rejected(incident):
        reason = f"{ruling.reason} A person has rejected a restart in this case, so a person decides."
        ruling = Ruling(mode=Mode.APPROVE, rule=ruling.rule, reason=reason)
    return ruling, policy


def _was_rejected(incident: Incident) -> bool:
    return Decision.objects.filter(recommendation__incident=incident, kind=DecisionKind.REJECT).exists()


def _settled_at(incident: Incident, recommendation: Recommendation) -> datetime:
    """When late facts have had their time to arrive: accounting, last log lines, a node that goes down.

    It begins anew with each new verdict: a node seen down while its job still runs is, a moment later, a job that
    Slurm has requeued by itself.
    """
    ended = incident.attempt.ended_at or incident.detected_at
    return max(ended, recommendation.created_at) + timedelta(seconds=settings.SETTLE_S)


def load_of(incident: Incident, *, now: datetime) -> Load:
    """What the breaker looks at: the cluster as a whole, not this case."""
    cluster = incident.run.cluster
    cluster.refresh_from_db(fields=["paused_at", "paused_reason"])
    actions = Action.objects.filter(incident__run__cluster=cluster)
    return Load(
        actions_last_hour=actions.filter(called_at__gte=now - timedelta(hours=1)).count(),
        excluded_nodes=len(nodes_held(cluster, now=now)),
        total_nodes=Node.objects.filter(cluster=cluster).count(),
        failures_in_window=failures_beside(incident),
        paused=cluster.paused_at is not None,
        paused_reason=cluster.paused_reason,
    )


def _proposal(row: Recommendation) -> Proposal:
    return Proposal(
        action=ActionKind(row.action), exclude_nodes=tuple(row.exclude_nodes), headline=row.headline,
        reasons=tuple(row.reasons), restore_step=row.restore_step, restore_path=row.restore_path,
        steps_at_stake=row.steps_at_stake, gpu_hours_at_stake=row.gpu_hours_at_stake, gpus_idle=row.gpus_idle,
        operations=tuple(row.operations), parameters=row.parameters,
    )  # fmt: skip


def approve(recommendation_id: int, *, shown_hash: str, actor: Actor, comment: str = "", now: datetime) -> Decision:
    """Approve exactly what was shown. Raises Forbidden, OutOfDate, AlreadyDecided or Recommendation.DoesNotExist."""
    require(actor, Permission.DECIDE)
    recommendation = _open_question(recommendation_id, shown_hash, now=now)
    if why := why_anew(recommendation.incident, recommendation):
        _look_again(recommendation.incident, now=now)
        raise OutOfDate(why)
    return _decide(recommendation, DecisionKind.APPROVE, actor=actor, reason=comment, now=now)


def reject(recommendation_id: int, *, shown_hash: str, actor: Actor, reason: str, now: datetime) -> Decision:
    """Reject what was shown; the reason is mandatory (ValueError). Raises as `approve` does."""
    require(actor, Permission.DECIDE)
    if not reason.strip():
        raise ValueError("Give a reason: it is what the next person and the policy learn from.")
    recommendation = _open_question(recommendation_id, shown_hash, now=now)
    return _decide(recommendation, DecisionKind.REJECT, actor=actor, reason=reason.strip(), now=now)


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
        _decide(recommendation, DecisionKind.EXPIRE, actor=SYSTEM, reason="Nobody decided in time.", now=now)


def _open_question(recommendation_id: int, shown: str, *, now: datetime) -> Recommendation:
    row = Recommendation.objects.select_related("incident__attempt__job__cluster").get(pk=recommendation_id)
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
    return row


def _look_again(incident: Incident, *, now: datetime) -> None:
    Incident.objects.filter(pk=incident.pk).update(next_look_at=now)


def _who_decided(decision: Decision) -> str:
    return f"{decision.actor_name} decided first, at {decision.at:%H:%M:%S} UTC: {decision.kind}."


def _decide(
    recommendation: Recommendation, kind: DecisionKind, *, actor: Actor, reason: str, now: datetime
) -> Decision:
    """Decision, intent and new state in one transaction: a unique row and a guarded update know one winner."""
    incident = recommendation.incident
    try:
        with transaction.atomic():
            decision = Decision.objects.create(
                recommendation=recommendation, kind=kind, actor_id=actor.user_id, actor_name=actor.name,
                reason=reason[:500], hash=recommendation.hash, at=now,
            )  # fmt: skip
            if kind in (DecisionKind.APPROVE, DecisionKind.AUTO):
                _intend(incident, recommendation, now=now)
                new = IncidentState.ACTING
            else:
                new = IncidentState.WATCHING
            why = f"{SAID[kind]}: {reason}" if reason else f"{SAID[kind]}."
            advance(
                incident, new, now=now, why=why, actor=actor, decided_at=now, next_look_at=now,
                deadline_at=_action_deadline(recommendation, now) if new is IncidentState.ACTING else None,
            )  # fmt: skip
    except IntegrityError as error:
        taken = Decision.objects.filter(recommendation=recommendation).first()
        if taken is None:
            raise
        raise AlreadyDecided(_who_decided(taken)) from error
    except LostRace as error:
        raise OutOfDate("The case moved on in this moment; reload the page.") from error
    return decision


def _intend(incident: Incident, recommendation: Recommendation, *, now: datetime) -> Action:
    """The intent, committed before the scheduler is called. Its key makes it one of a kind."""
    return Action.objects.create(
        recommendation=recommendation, incident=incident, kind=recommendation.action,
        key=key_of(recommendation),
        exclude_nodes=recommendation.exclude_nodes, parameters=recommendation.parameters, state=ActionState.INTENDED,
        intended_at=now, deadline_at=_action_deadline(recommendation, now),
    )  # fmt: skip


def _action_deadline(recommendation: Recommendation, now: datetime) -> datetime:
    """By when an action must be seen to have converged."""
    return now + timedelta(seconds=RULES[ActionKind(recommendation.action)].time_s)


def still_holds(recommendation: Recommendation) -> bool:
    """Whether the job is what it was when this was proposed."""
    subject = subject_of(recommendation.incident, recommendation.parameters)
    return shown_hash(recommendation, subject) == recommendation.hash


def acts_automatically(action: Action) -> bool:
    return Decision.objects.filter(recommendation=action.recommendation, kind=DecisionKind.AUTO).exists()


def is_paused(cluster: Cluster) -> bool:
    return Cluster.objects.filter(pk=cluster.pk).exclude(paused_at=None).exists()


def close(incident: Incident, outcome: Outcome, *, why: str, now: datetime, actor: Actor = SYSTEM) -> None:
    """End a case with its outcome."""
    advance(
        incident, IncidentState.CLOSED, now=now, why=why, actor=actor,
        outcome=outcome, outcome_reason=why[:500], closed_at=now, next_look_at=None, deadline_at=None,
    )  # fmt: skip
