"""People propose: another action than the present recommendation, or the undoing of one. Decided like any other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from recovery.access import Actor, Permission, require
from recovery.core.instead import Instead
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.plans import RULES
from recovery.core.recommend import newest_complete
from recovery.core.speech import duration
from recovery.core.types import ActionKind, DecisionKind, JobState, Mode, Proposal
from recovery.models import Action, Decision, Incident, Job, Node, Recommendation
from recovery.pipeline.calls import lacking
from recovery.pipeline.decide import OutOfDate, lock
from recovery.pipeline.facts import attempt_facts
from recovery.pipeline.fleet import open_outbreak
from recovery.pipeline.invalid import Invalid, needs_reason
from recovery.pipeline.observe import ON_NODES
from recovery.pipeline.others import in_picture, in_the_way
from recovery.pipeline.proposals import Asked, build, draining, resuming
from recovery.pipeline.recommend import store_recommendation
from recovery.pipeline.ruling import note, rule
from recovery.pipeline.subject import MARK, held_by_us, newest_execution, subject_of
from recovery.pipeline.transition import LostRace, advance
from recovery.pipeline.undoing import case_for_undo
from recovery.pipeline.veto import LEFT_FOR_UNDO, seen_in_health
from recovery.slurm.base import SlurmClient, SlurmError

S = IncidentState
# Where nothing of ours is under way and no worker is about to recommend something.
PROPOSABLE = frozenset({S.AWAITING_DECISION, S.WATCHING, S.RESTORING, S.AWAITING_CHECKPOINT, S.NEEDS_PERSON})


def propose(
    incident_id: int,
    *,
    action: ActionKind,
    parameters: Mapping[str, Any],
    exclude_nodes: Sequence[str],
    reason: str,
    actor: Actor,
    client: SlurmClient,
    now: datetime,
) -> Recommendation:
    """Put a person's proposal in the place of the present recommendation.

    Raises Forbidden, Invalid, OutOfDate (the case or the picture moved on) or Incident.DoesNotExist.
    """
    require(actor, Permission.OPERATE)
    incident = _open_case(incident_id, reason, now=now)
    require(actor, Permission.OPERATE, incident)
    attempt = newest_execution(incident)
    asked = Asked(
        incident=incident, attempt=attempt, given=parameters, exclude_nodes=tuple(dict.fromkeys(exclude_nodes)),
        reason=reason, client=client, now=now,
    )  # fmt: skip
    found = build(action, asked)
    _not_held(incident, found, asked.exclude_nodes)
    _alone(incident, found, attempt.job)
    return _store(incident, found, asked.exclude_nodes, reason=reason, actor=actor, client=client, now=now)


def undo(action_id: int, *, reason: str, actor: Actor, client: SlurmClient, now: datetime) -> Recommendation:
    """Propose the reverse of an action; after its case was closed, on the run's open case or one of its own.

    Raises as `propose` does, and Action.DoesNotExist.
    """
    action = Action.objects.select_related("incident__run", "incident__attempt__job").get(pk=action_id)
    require(actor, Permission.OPERATE, action)
    needs_reason(reason)
    found = undoing(action, now=now)
    if found is None:
        raise Invalid([f"action: it can't be undone (any more). {RULES[ActionKind(action.kind)].undo}"])
    with transaction.atomic():
        pk = action.incident_id
        if action.incident.state == S.CLOSED:
            pk = case_for_undo(action.incident, reason=f"{found.headline} {reason.strip()}", actor=actor, now=now).pk
        incident = _open_case(pk, reason, now=now)
        _alone(incident, found, newest_execution(incident).job)
        return _store(incident, found, (), reason=reason, actor=actor, client=client, now=now)


def _not_held(incident: Incident, found: Instead, exclude_nodes: Sequence[str]) -> None:
    """While other runs fail with this one no node is taken away for it, by persons neither."""
    outbreak = open_outbreak(incident) if exclude_nodes or found.action is ActionKind.DRAIN else None
    if outbreak is not None:
        raise Invalid(
            [
                f"action: exclusions and drains are held while outbreak {outbreak.pk} is open. Requeue without an "
                "exclusion, or end the outbreak on its page where its failures don't belong together."
            ]
        )


def _alone(incident: Incident, found: Instead, job: Job) -> None:
    """Nobody proposes to start a run anew that was started anew already."""
    if other := in_the_way(found.action, job, in_picture(incident, job), incident):
        raise Invalid([f"action: {other.sentence}"])


def undoing(action: Action, *, now: datetime) -> Instead | None:
    """The reverse of an action while it is possible; None where it is not, or not any more."""
    kind = ActionKind(action.kind)
    if action.state != ActionState.CONVERGED or RULES[kind].undone_by is None or is_undone(action):
        return None
    found = _on_node(action, now=now) if kind in ON_NODES else _on_job(action, now=now)
    if found is not None:
        found.parameters["undoes"] = action.pk
    return found


def undoable(incident: Incident, actions: Iterable[Action], *, now: datetime) -> list[Action]:
    """Those of the case's actions whose reverse can be proposed now."""
    if incident.state not in PROPOSABLE | {S.CLOSED}:
        return []
    return [action for action in actions if undoing(action, now=now) is not None]


def is_undone(action: Action) -> bool:
    later = Action.objects.filter(incident__run=action.incident.run_id, pk__gt=action.pk)
    done = later.filter(state=ActionState.CONVERGED)
    return any(parameters.get("undoes") == action.pk for parameters in done.values_list("parameters", flat=True))


def _on_node(action: Action, *, now: datetime) -> Instead | None:
    name = action.parameters["node"]
    node = Node.objects.filter(cluster=action.incident.run.cluster_id, name=name).first()
    if node is None:
        return None
    drained = "DRAIN" in node.raw_state.upper()
    if action.kind == ActionKind.DRAIN:
        ours = drained and f"{MARK}{action.parameters['key']}" in node.reason
        return resuming(action) if ours and seen_in_health(node, now=now) else None
    if drained:
        return None
    return draining(node, action.incident.attempt.job, why="drained again: a resume was undone", again=" again")


def _on_job(action: Action, *, now: datetime) -> Instead | None:
    attempt, kind = newest_execution(action.incident), ActionKind(action.kind)
    job, given = attempt.job, action.parameters
    waits = attempt.state == JobState.PENDING
    if kind is ActionKind.HOLD:
        held = waits and held_by_us(job)
        headline, parameters = "Release the job, which we hold.", {"of": "us"}
        return Instead(action=ActionKind.RELEASE, headline=headline, parameters=parameters) if held else None
    if kind is ActionKind.RELEASE:
        free = waits and not job.held
        return Instead(action=ActionKind.HOLD, headline="Hold the job again.") if free else None
    if kind is ActionKind.EXTEND_TIME_LIMIT:
        return _limit_back(action, now=now)
    if kind is ActionKind.RESTORE_OLDER and waits:
        parameters = {**given, "old": given["write"], "write": given["old"], "then": ""}
        headline = f"Let {given['tracker']} say {given['old']} again."
        return Instead(action=kind, headline=headline, parameters=parameters)
    return None


def _limit_back(action: Action, *, now: datetime) -> Instead | None:
    attempt, given = subject_of(action.incident, action.parameters), action.parameters
    same = attempt.job.time_limit_s == given["seconds"] and attempt.job.restart_count == attempt.number
    alive = attempt.state in (JobState.PENDING, JobState.RUNNING)
    end = attempt.started_at and attempt.started_at + timedelta(seconds=given["from_s"])
    if not same or not alive or (end is not None and end < now + LEFT_FOR_UNDO):
        return None
    return Instead(
        action=ActionKind.EXTEND_TIME_LIMIT, headline=f"Set the time limit back to {duration(given['from_s'])}.",
        parameters={"seconds": given["from_s"], "from_s": given["seconds"]},
    )  # fmt: skip


def _open_case(incident_id: int, reason: str, *, now: datetime) -> Incident:
    incident = Incident.objects.select_related(
        "attempt__job__cluster", "new_attempt__job__cluster", "run__cluster"
    ).get(pk=incident_id)
    needs_reason(reason)
    if incident.state == S.CLOSED:
        raise Invalid(["action: the case is closed."])
    if incident.state not in PROPOSABLE:
        raise OutOfDate(f"The case is {incident.state.replace('_', ' ')}: wait a moment, then propose again.")
    if incident.run.cluster.is_stale(now):
        raise OutOfDate("The picture of the cluster is too old to act on; wait until Slurm answers again.")
    return incident


def _store(
    incident: Incident,
    found: Instead,
    exclude_nodes: Sequence[str],
    *,
    reason: str,
    actor: Actor,
    client: SlurmClient,
    now: datetime,
) -> Recommendation:
    if lack := lacking(found.action, client):
        raise Invalid([f"action: {lack}"])
    said = f"{actor.name} proposes it: {reason.strip()}"[:300]
    proposal = _proposal(incident, found, exclude_nodes, said, now=now)
    new = S.AWAITING_DECISION if found.action.changes_scheduler else S.WATCHING
    try:
        with transaction.atomic():
            replaced = _amend(incident, reason=said, actor=actor, now=now)
            row = store_recommendation(incident, proposal, why=said, client=client, now=now, by=actor.name)
            row.amends = replaced
            row.save(update_fields=["amends"])
            ruling, policy = rule(incident, row, now=now)
            note(row, replace(ruling, mode=Mode.APPROVE, reason=said, shadow=False), policy)
            deadline = row.expires_at if new is S.AWAITING_DECISION else None
            why = f"{found.headline} {said}"
            advance(incident, new, now=now, why=why, actor=actor, deadline_at=deadline, next_look_at=now)
    except SlurmError as error:
        raise Invalid([f"action: {error}"]) from error
    except (IntegrityError, LostRace) as error:
        raise OutOfDate("The case moved on in this moment; look at what it says now, then propose again.") from error
    return row


def _amend(incident: Incident, *, reason: str, actor: Actor, now: datetime) -> Recommendation | None:
    """What waited for a decision and is replaced. Of the product's own it is a person's decision: that instead."""
    waits = Recommendation.objects.filter(incident=incident, superseded_at=None, incident__state=S.AWAITING_DECISION)
    replaced = waits.filter(decision=None).first()
    if replaced is not None:
        lock(replaced)
    if replaced is not None and not replaced.proposed_by:
        Decision.objects.create(
            recommendation=replaced, kind=DecisionKind.AMEND, actor_id=actor.user_id, actor_name=actor.name,
            reason=reason[:500], hash=replaced.hash, at=now,
        )  # fmt: skip
    return replaced


def _proposal(
    incident: Incident, found: Instead, exclude_nodes: Sequence[str], said: str, *, now: datetime
) -> Proposal:
    """With what the present recommendation knows of the checkpoint and of what is at stake."""
    attempt = newest_execution(incident)
    present = incident.recommendations.filter(superseded_at=None).first()
    checkpoint = newest_complete(attempt_facts(attempt, now=now))
    parameters = dict(found.parameters)
    if attempt.pk != incident.attempt_id:
        parameters.setdefault("attempt", attempt.pk)
    older = parameters.get("step") if found.action is ActionKind.RESTORE_OLDER else None
    path = checkpoint.path if checkpoint is not None else ""
    return Proposal(
        action=found.action, exclude_nodes=tuple(exclude_nodes), headline=found.headline,
        reasons=(said, *found.reasons),
        restore_step=older if older is not None else checkpoint.step if checkpoint else None,
        restore_path=path, steps_at_stake=present.steps_at_stake if present else None,
        gpu_hours_at_stake=present.gpu_hours_at_stake if present else None,
        gpus_idle=present.gpus_idle if present else 0, operations=(), parameters=parameters,
    )  # fmt: skip
