"""First half of stage 6: what the policy says of a fresh recommendation, and what a decision on it takes."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.policy import Acted, Load, Ruling, Traits, rule_on
from recovery.core.types import (
    ActionKind,
    DecisionKind,
    Diagnosis,
    Exclude,
    FailureClass,
    JobState,
    Mode,
    Proposal,
    Restart,
)
from recovery.models import Action, Attempt, Cluster, Decision, Incident, Job, Node, PolicyVersion, Recommendation
from recovery.pipeline.decide import conclude, halted
from recovery.pipeline.facts import current_rules, log_interval, past_failures
from recovery.pipeline.fleet import failures_beside
from recovery.pipeline.held import begun_since, nodes_held
from recovery.pipeline.recommend import stored_diagnosis
from recovery.pipeline.transition import advance
from recovery.selectors import current_policy

OLD_NEWS = timedelta(minutes=15)  # a failure older than this is not acted on by policy alone: somebody may have
TRIP_SHOWN = timedelta(hours=1)  # the span in which the breaker counts actions (`actions_last_hour`)
# What is judged where nothing was diagnosed: the undoing of an earlier case's action has a case of its own.
UNDIAGNOSED = Diagnosis(
    failure_class=FailureClass.UNKNOWN, restart=Restart.NO, exclude=Exclude.NONE, nodes=(), confidence=0.0, reason=""
)
LIMITS_REACH_BACK = timedelta(days=30)  # the longest window of a rule's limits (core/policy/check.py)


def apply_policy(incident: Incident, recommendation: Recommendation, *, now: datetime) -> datetime | None:
    """Let the policy rule on a fresh recommendation. Returns when to look again where it is too early to say."""
    ruling, policy = rule(incident, recommendation, now=now)
    if ruling.mode is not Mode.AUTO:
        return _follow(incident, recommendation, ruling, policy, now=now)
    with transaction.atomic():
        # One at a time on a cluster: what others begin at this moment counts towards the limits and the breaker.
        Cluster.objects.select_for_update(no_key=True).get(pk=incident.run.cluster_id)
        ruling, policy = rule(incident, recommendation, now=now)
        return _follow(incident, recommendation, ruling, policy, now=now)


def _follow(
    incident: Incident, recommendation: Recommendation, ruling: Ruling, policy: PolicyVersion | None, *, now: datetime
) -> datetime | None:
    if ruling.mode is Mode.AUTO:
        wait_until = max(_settled_at(incident, recommendation), ruling.not_before or now)
        if now < wait_until:
            return wait_until
        if incident.attempt.job.cluster.is_stale(now):
            return now + timedelta(seconds=settings.TICK_S)  # nothing is decided on what may hold no longer
    note(recommendation, ruling, policy)
    _keep_trip(incident.run.cluster, ruling, now=now)
    if recommendation.action == ActionKind.NOTHING:
        advance(incident, IncidentState.WATCHING, now=now, why=recommendation.headline, next_look_at=now)
    elif ruling.mode is Mode.OBSERVE:
        advance(incident, IncidentState.WATCHING, now=now, why=ruling.reason, next_look_at=now)
    elif ruling.mode is Mode.APPROVE:
        expires = recommendation.expires_at
        advance(incident, IncidentState.AWAITING_DECISION, now=now, why=ruling.reason, deadline_at=expires)
    else:
        conclude(recommendation, DecisionKind.AUTO, actor=SYSTEM, reason=ruling.reason, now=now)
    return None


def note(recommendation: Recommendation, ruling: Ruling, policy: PolicyVersion | None) -> None:
    """Keep with a recommendation how it was judged, and what deciding takes. None of it is part of what was shown."""
    made, escalate = recommendation.created_at, ruling.escalate
    recommendation.mode, recommendation.mode_reason = ruling.mode, ruling.reason[:300]
    recommendation.policy, recommendation.rule, recommendation.shadow = policy, ruling.rule[:100], ruling.shadow
    recommendation.passed_over = [asdict(each) for each in ruling.passed_over]
    recommendation.approval, recommendation.on_expiry = asdict(ruling.approval), ruling.on_expiry
    recommendation.expires_at = made + ruling.expires_after
    recommendation.escalate_at = made + escalate.after if escalate else None
    recommendation.escalate_to = list(escalate.to) if escalate else []
    recommendation.save(
        update_fields=[
            "mode", "mode_reason", "policy", "rule", "shadow", "passed_over", "approval", "on_expiry", "expires_at",
            "escalate_at", "escalate_to",
        ]
    )  # fmt: skip


def _keep_trip(cluster: Cluster, ruling: Ruling, *, now: datetime) -> None:
    """What the breaker stopped, for the banner of every page: until it lets something through, at most TRIP_SHOWN."""
    if ruling.mode is Mode.AUTO and cluster.tripped_at is not None:
        Cluster.objects.filter(pk=cluster.pk).update(tripped_at=None, tripped_reason="")
    if not ruling.tripped:
        return
    with transaction.atomic():
        again = Cluster.objects.filter(pk=cluster.pk, tripped_at__gt=now - TRIP_SHOWN).exists()
        Cluster.objects.filter(pk=cluster.pk).update(tripped_at=now, tripped_reason=ruling.tripped[:300])
        if not again:
            audit.record(
                "automation.tripped", actor=SYSTEM, at=now, subject_kind="cluster", subject_id=cluster.pk,
                reason=f"The breaker stopped it: {ruling.tripped}",
            )  # fmt: skip


def rule(incident: Incident, recommendation: Recommendation, *, now: datetime) -> tuple[Ruling, PolicyVersion | None]:
    """What the policy that holds says of it now, with what else keeps the product from going by itself."""
    policy = current_policy()
    options = incident.attempt.job.options
    mode = options.get("mode")
    ruling = rule_on(
        current_rules(),
        diagnosis=stored_diagnosis(incident) if incident.diagnosis else UNDIAGNOSED,
        proposal=proposal_of(recommendation),
        comment_mode=Mode(mode) if mode else None,
        comment_max_restarts=options.get("max_restarts"),
        history=past_failures(incident, now=now),
        load=load_of(incident, now=now),
        failed_step=incident.failed_step,
        log_interval=log_interval(incident.attempt),
        traits=traits_of(incident),
        now=now,
    )
    if incident.run.hands_off_at is not None and ruling.mode is not Mode.OBSERVE:
        said = f"{ruling.reason} {incident.run.hands_off_by} has taken over: {incident.run.hands_off_reason}"
        ruling = replace(ruling, mode=Mode.OBSERVE, shadow=False, reason=said)
    if ruling.mode is Mode.AUTO and (why := _why_a_person(incident, now=now)):
        ruling = replace(ruling, mode=Mode.APPROVE, reason=f"{ruling.reason} {why}")
    return ruling, policy


def _why_a_person(incident: Incident, *, now: datetime) -> str:
    """What no policy knows of, and what makes a person decide all the same; "" where there is nothing."""
    if now - incident.failed_at > OLD_NEWS:
        return f"The failure is older than {OLD_NEWS.seconds // 60} min, so a person decides."
    if incident.attempt.ended_unwatched:
        return "It failed while nobody could watch it, so a person decides."
    if Decision.objects.filter(recommendation__incident=incident, kind=DecisionKind.REJECT).exists():
        return "A person has rejected a restart in this case, so a person decides."
    return ""


def _settled_at(incident: Incident, recommendation: Recommendation) -> datetime:
    """When late facts have had their time to arrive: accounting, last log lines, a node that goes down.

    It begins anew with each new verdict: a node seen down while its job still runs is, a moment later, a job that
    Slurm has requeued by itself.
    """
    ended = incident.attempt.ended_at or incident.detected_at
    return max(ended, recommendation.created_at) + timedelta(seconds=settings.SETTLE_S)


def traits_of(incident: Incident) -> Traits:
    """What rules can match of the job that failed."""
    return traits_of_job(incident.attempt.job, cluster=incident.run.cluster.name, attempt=incident.attempt)


def traits_of_job(job: Job, *, cluster: str, attempt: Attempt | None = None) -> Traits:
    """What rules can match of a job; where an execution is named, with what that one ran on."""
    return Traits(
        cluster=cluster, partition=job.partition, account=job.account, user=job.user, qos=job.qos,
        job_name=job.name, labels=job.options.get("labels", {}), gpus=(attempt and attempt.gpus) or job.gpus,
        nodes=len(attempt.nodes if attempt else ()) or job.node_count,
    )  # fmt: skip


def load_of(incident: Incident, *, now: datetime) -> Load:
    """What the breaker looks at: the cluster as a whole, not this case."""
    cluster = incident.run.cluster
    actions = Action.objects.filter(incident__run__cluster=cluster)
    stopped = halted(cluster)
    return Load(
        actions_last_hour=actions.filter(begun_since(now - timedelta(hours=1))).count(),
        excluded_nodes=len(nodes_held(cluster, now=now)),
        total_nodes=Node.objects.filter(cluster=cluster).count(),
        failures_in_window=failures_beside(incident),
        paused=stopped is not None,
        paused_reason=stopped or "",
        acted=_acted_by_rules(incident, now=now),
        interrupts=incident.attempt.state == JobState.RUNNING,
    )


def _acted_by_rules(incident: Incident, *, now: datetime) -> tuple[Acted, ...]:
    """The automatic actions that a rule's own limits count, each with whether it ended a job that ran."""
    by_policy = Action.objects.filter(
        incident__run__cluster=incident.run.cluster_id, recommendation__decision__kind=DecisionKind.AUTO,
        intended_at__gte=now - LIMITS_REACH_BACK,
    ).exclude(state=ActionState.REFUSED)  # fmt: skip
    rows = by_policy.values_list(
        "intended_at", "recommendation__rule", "kind", "incident__attempt__ended_at", "incident__detected_at"
    )
    return tuple(
        Acted(
            at=at,
            rule=rule_name,
            interrupted=ActionKind(kind).ends_attempt and (ended_at is None or ended_at > detected_at),
        )
        for at, rule_name, kind, ended_at, detected_at in rows
    )


def proposal_of(row: Recommendation) -> Proposal:
    """A stored recommendation as the value that the policy judges."""
    return Proposal(
        action=ActionKind(row.action), exclude_nodes=tuple(row.exclude_nodes), headline=row.headline,
        reasons=tuple(row.reasons), restore_step=row.restore_step, restore_path=row.restore_path,
        steps_at_stake=row.steps_at_stake, gpu_hours_at_stake=row.gpu_hours_at_stake, gpus_idle=row.gpus_idle,
        operations=tuple(row.operations), parameters=row.parameters,
    )  # fmt: skip
