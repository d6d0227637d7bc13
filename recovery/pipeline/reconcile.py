"""Says what is due, and moves an incident as far as it goes now. watch.py looks at clusters and attempts.

Level-based: each look starts from what is stored and what the scheduler shows, never from a message. Whatever was
killed, the next look finds the case where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.conf import settings

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.plans import Step
from recovery.core.speech import steps
from recovery.core.types import FailureClass, FindingKind, JobState, Outcome
from recovery.models import Attempt, Cluster, Incident, Recommendation
from recovery.pipeline import account, decide, earned, fleet, node_memory, suspects
from recovery.pipeline.act import carry_out
from recovery.pipeline.call_results import begun_in
from recovery.pipeline.diagnose import diagnose_incident, has_new_evidence, rest_on_outbreak
from recovery.pipeline.leasing import ClientFor, Clock, with_lease
from recovery.pipeline.limit_near import close_limit_near
from recovery.pipeline.look_at_checkpoints import about_to_settle
from recovery.pipeline.others import why_anew
from recovery.pipeline.recommend import recommend_incident
from recovery.pipeline.ruling import apply_policy
from recovery.pipeline.successor import successor
from recovery.pipeline.transition import advance
from recovery.pipeline.undoing import end_undoing
from recovery.pipeline.verify import close_slowdown, verify_incident, was_read_to_its_end, watch_danger
from recovery.pipeline.veto import moved_since
from recovery.pipeline.watch import batches_of, watch_attempts, watch_cluster
from recovery.selectors import current_policy
from recovery.slurm.base import SlurmClient

STEPS_PER_LOOK = 6  # detected → diagnosed → recommended → decided → acted: more in one look means a loop
QUIET_AFTER, QUIET_RHYTHM = timedelta(minutes=15), timedelta(seconds=30)
FORGOTTEN = timedelta(days=1)  # a case that nobody brings back for so long is given up

# Calls that, where they had an effect after all, show in the job itself: no hold, no second job, no file stays behind.
LEAVE_NOTHING = frozenset({Step.SET_ADMIN_COMMENT, Step.SET_TIME_LIMIT, Step.REQUEUE, Step.CANCEL})
BEFORE_DECISION = frozenset({IncidentState.DETECTED, IncidentState.DIAGNOSED, IncidentState.RECOMMENDED})


@dataclass(slots=True)
class Due:
    """Keys of what is due now, in the order in which to work."""

    clusters: list[int] = field(default_factory=list)
    batches: list[list[int]] = field(default_factory=list)  # of attempts, each for one worker
    incidents: list[int] = field(default_factory=list)

    @property
    def attempts(self) -> list[int]:
        return [key for batch in self.batches for key in batch]


def due(now: datetime) -> Due:
    return Due(clusters=_due_clusters(now), batches=batches_of(Attempt.due(now)), incidents=_due_incidents(now))


def tick(*, client_for: ClientFor, clock: Clock) -> Due:
    """One whole pass in this process, what beat and workers do together, without a broker: what it has looked at."""
    seen = Due(clusters=_due_clusters(clock()))
    for pk in seen.clusters:
        watch_cluster(pk, client_for=client_for, clock=clock)
    seen.batches = batches_of(Attempt.due(clock()))
    for keys in seen.batches:
        watch_attempts(keys, client_for=client_for, clock=clock)
    seen.incidents = _due_incidents(clock())
    for pk in seen.incidents:
        work_on_incident(pk, client_for=client_for, clock=clock)
    for keys in account.due(clock()):
        account.watch_ledgers(keys, clock=clock)
    review_fleet(now=clock())
    return seen


def _due_clusters(now: datetime) -> list[int]:
    return list(Cluster.due(now).filter(enabled=True).values_list("pk", flat=True))


def _due_incidents(now: datetime) -> list[int]:
    return list(Incident.due(now).exclude(state=IncidentState.CLOSED).values_list("pk", flat=True))


def review_fleet(*, now: datetime) -> None:
    """End the outbreaks that are over and the suspicions that ran out; two queries where there are none."""
    fleet.review(now=now)
    suspects.let_expire(now=now)


def work_on_incident(pk: int, *, client_for: ClientFor, clock: Clock) -> None:
    """Move one case as far as it goes now."""

    def look(incident: Incident) -> datetime | None:
        if incident.state == IncidentState.CLOSED:
            return None  # since it was found due
        client = client_for(incident.run.cluster)
        for _ in range(STEPS_PER_LOOK):
            before = incident.state
            next_look = _step(incident, client=client, clock=clock)
            incident.refresh_from_db()
            if incident.state == IncidentState.CLOSED:
                node_memory.remember(incident, now=clock())
                earned.review(incident, now=clock())
                return None
            if incident.state == before:
                return next_look or clock() + _rhythm(incident, clock())
        return clock() + _rhythm(incident, clock())

    with_lease(Incident, pk, look, clock=clock)


def _rhythm(incident: Incident, now: datetime) -> timedelta:
    """As often as the cluster is polled; a case that only waits for people is looked at less often after a while."""
    usual = timedelta(seconds=min(settings.TICK_S, incident.run.cluster.poll_interval_s))
    quiet = incident.state in (IncidentState.WATCHING, IncidentState.NEEDS_PERSON) and incident.danger_at is None
    return max(usual, QUIET_RHYTHM) if quiet and now - incident.detected_at > QUIET_AFTER else usual


def _step(incident: Incident, *, client: SlurmClient, clock: Clock) -> datetime | None:
    """One step of one case. A time: look again then; None: at its usual rhythm, or at once where the state changed."""
    now = clock()
    state = IncidentState(incident.state)
    if incident.kind == FindingKind.UNDOING and state not in (IncidentState.ACTING, IncidentState.AWAITING_DECISION):
        if state is not IncidentState.NEEDS_PERSON:
            end_undoing(incident, now=now)
    elif _may_be_over(incident) and _is_over(incident, now=now):
        return None
    elif state is IncidentState.DETECTED:
        if not _awaits_a_picture(incident) and not about_to_settle(incident.run, now=now):
            diagnose_incident(incident, now=now)
    elif state is IncidentState.DIAGNOSED:
        _after_diagnosis(incident, client=client, now=now)
    elif state is IncidentState.RECOMMENDED:
        return _rule(incident, now=now)
    elif state is IncidentState.ACTING:
        action = incident.actions.latest("intended_at", "pk")
        later = fleet.wait_for_turn(action, now=now)
        return later or carry_out(action, client=client, now=now, clock=clock)
    elif state in (IncidentState.AWAITING_DECISION, IncidentState.WATCHING):
        _watch(incident, now=now)
    else:
        verify_incident(incident, now=now)
    return None


def _awaits_a_picture(incident: Incident) -> bool:
    """True where an action was refused because Slurm shows something else than our picture, which is no newer yet.

    The same facts would only lead to the same proposal, and to the same refusal.
    """
    refused = incident.actions.filter(state=ActionState.REFUSED)
    seen_at = incident.run.cluster.seen_at
    return refused.exists() if seen_at is None else refused.filter(observed_at__gte=seen_at).exists()


def _rule(incident: Incident, *, now: datetime) -> datetime | None:
    if has_new_evidence(incident, now=now):
        advance(incident, IncidentState.DETECTED, now=now, why="The evidence changed.")
        return None
    return apply_policy(incident, _current(incident), now=now)


def _current(incident: Incident) -> Recommendation:
    return incident.recommendations.get(superseded_at=None)


def _after_diagnosis(incident: Incident, *, client: SlurmClient, now: datetime) -> None:
    if incident.failure_class == FailureClass.EXTERNAL_CANCEL:
        # A person stopped it: there is nothing to recommend, and nothing to wait for.
        decide.close(incident, Outcome.STOPPED_ON_PURPOSE, why=incident.reason, now=now)
        return
    if fleet.gather(incident, now=now):
        rest_on_outbreak(incident)
    node_memory.remember(incident, now=now)
    recommend_incident(incident, client=client, now=now)


def _watch(incident: Incident, *, now: datetime) -> None:
    """A case on which we do nothing now: has the job come back, moved on, or changed what we believe?"""
    attempt = incident.attempt
    runs = incident.kind in (
        FindingKind.LIMIT_NEAR,
        FindingKind.UNDOING,
    )  # nothing takes the place of what has not stopped
    follower, recommendation = None if runs else successor(incident), _current(incident)
    asked = incident.state == IncidentState.AWAITING_DECISION and recommendation.proposed_by != ""
    anew = "" if attempt.job.cluster.is_stale(now) else why_anew(incident, recommendation)
    if asked and not attempt.job.cluster.is_stale(now) and (anew or not decide.still_holds(recommendation)):
        why = anew or "The job is not as it was when this was proposed."
        advance(incident, IncidentState.WATCHING, now=now, why=why)
    elif asked:
        watch_danger(incident, now=now)
        decide.keep_open_or_expire(incident, recommendation, now=now)
    elif follower is not None and incident.acted_at is not None:
        why = f"The case goes on: attempt {follower.number} of job {follower.job.job_id} is verified."
        advance(incident, IncidentState.RESTORING, now=now, why=why, deadline_at=None)
    elif follower is not None:
        why = f"Attempt {follower.number} of job {follower.job.job_id} started, not by our doing."
        advance(
            incident, IncidentState.RESTORING, now=now, why=why, resolved_by_others=True, acted_at=follower.started_at
        )
    elif attempt.job.state == JobState.REVOKED and attempt.job.restart_count > attempt.number:
        why = "The job was put back into the queue, and another cluster of the federation took it up."
        by_others = incident.acted_at is None
        acted_at = incident.acted_at or now
        advance(incident, IncidentState.RESTORING, now=now, why=why, resolved_by_others=by_others, acted_at=acted_at)
    elif anew:
        advance(incident, IncidentState.DETECTED, now=now, why=anew, deadline_at=None)
    elif _is_over(incident, now=now):
        return
    elif now - incident.failed_at > FORGOTTEN:
        decide.close(incident, Outcome.GAVE_UP, why="Nobody brought the run back within a day.", now=now)
    elif not attempt.job.cluster.is_stale(now) and has_new_evidence(incident, now=now):
        advance(incident, IncidentState.DETECTED, now=now, why="The evidence changed.", deadline_at=None)
    else:
        _watch_decision(incident, now=now)


def _is_over(incident: Incident, *, now: datetime) -> bool:
    """Whether what the case is about has passed by itself; then it was closed, or will be when its log was read."""
    attempt = incident.attempt
    if incident.kind == FindingKind.HANG and attempt.state in (JobState.RUNNING, JobState.COMPLETED):
        return _stands_no_more(incident, attempt, now=now)
    if incident.kind == FindingKind.SLOWDOWN:
        return close_slowdown(incident, now=now)
    return incident.kind == FindingKind.LIMIT_NEAR and close_limit_near(incident, now=now)


def _stands_no_more(incident: Incident, attempt: Attempt, *, now: datetime) -> bool:
    """A job that hung moves again, or came to its proper end: that one must not be started once more."""
    moved, completed = moved_since(incident, attempt), attempt.state == JobState.COMPLETED
    if not moved and not completed:
        return False
    if completed and not was_read_to_its_end(attempt, now=now):
        return True
    ended = f"The job has ended by itself as completed, at step {steps(attempt.last_step)}."
    why = ended if completed else f"The job moves again: step {steps(attempt.last_step)} was seen."
    decide.close(incident, Outcome.FALSE_ALARM if moved else Outcome.STOPPED_ON_PURPOSE, why=why, now=now)
    return True


def _may_be_over(incident: Incident) -> bool:
    """Of a hang before it is decided, and where a person is asked to look only because an action failed that left
    nothing behind. _watch asks for itself.
    """
    if incident.state in BEFORE_DECISION:
        return incident.kind == FindingKind.HANG
    if incident.state != IncidentState.NEEDS_PERSON or incident.trouble or incident.new_attempt_id is not None:
        return False
    action = incident.actions.order_by("intended_at", "pk").last()
    return action is not None and action.state == ActionState.FAILED and begun_in(action) <= LEAVE_NOTHING


def _watch_decision(incident: Incident, *, now: datetime) -> None:
    recommendation = _current(incident)
    decided = hasattr(recommendation, "decision")
    policy = current_policy()
    if not decided and policy is not None and recommendation.policy_id != policy.pk:
        advance(incident, IncidentState.DETECTED, now=now, why=f"Policy {policy} holds now.", deadline_at=None)
    elif incident.state == IncidentState.AWAITING_DECISION and not decided:
        decide.keep_open_or_expire(incident, recommendation, now=now)


def utc_now() -> datetime:
    return datetime.now(UTC)
