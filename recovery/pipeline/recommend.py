"""Stage 5, recommend: from a verdict to one proposed action, stored with the hash of everything it rests on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import transaction

from recovery.core.lifecycle import IncidentState
from recovery.core.plans import RULES, Step
from recovery.core.recommend import left_alone, recommend
from recovery.core.types import (
    ActionKind,
    Diagnosis,
    Evidence,
    Exclude,
    FailureClass,
    JobState,
    Proposal,
    Restart,
)
from recovery.models import Attempt, Incident, Job, Recommendation
from recovery.pipeline.calls import Target, command, lacking, preview
from recovery.pipeline.facts import attempt_facts, current_rules, past_failures
from recovery.pipeline.job_facts import facts_of_job
from recovery.pipeline.marks import mark_for
from recovery.pipeline.others import in_picture, in_the_way
from recovery.pipeline.scripts import keep_script
from recovery.pipeline.subject import new_key, newest_execution, subject_of
from recovery.pipeline.transition import advance
from recovery.slurm.base import SlurmClient

# What is done to the job where it stands now, whatever execution of it failed.
ON_NEWEST = frozenset({ActionKind.RELEASE, ActionKind.HOLD})
WHOLE = frozenset(
    {ActionKind.REQUEUE, ActionKind.REQUEUE_EXCLUDING, ActionKind.RESTORE_OLDER, ActionKind.CANCEL}
)  # of a heterogeneous job


def recommend_incident(incident: Incident, *, client: SlurmClient, now: datetime) -> Recommendation:
    """Propose an action for a diagnosed incident; what was proposed before is superseded."""
    facts = attempt_facts(incident.attempt, now=now)
    verdict = stored_diagnosis(incident)
    keep_script(incident.attempt.job, client=client, now=now)
    job_facts = facts_of_job(incident.attempt, facts, client=client, now=now)
    proposal = recommend(verdict, facts, job_facts, past_failures(incident, now=now))
    job = incident.attempt.job
    if other := in_the_way(proposal.action, job, in_picture(incident, job), incident):
        proposal = left_alone(proposal, why=other.why, job_id=other.job_id)
    proposal = _as_can_be_done(_as_a_whole(proposal, job), client)
    if proposal.action in ON_NEWEST:
        newest = newest_execution(incident)
        proposal = replace(proposal, parameters={**proposal.parameters, "attempt": newest.pk})
    with transaction.atomic():
        row = store_recommendation(incident, proposal, why="The case was looked at again.", client=client, now=now)
        advance(
            incident, IncidentState.RECOMMENDED, now=now, why=proposal.headline,
            recommended_at=incident.recommended_at or now, expected_step=proposal.restore_step,
        )  # fmt: skip
    return row


def _as_can_be_done(proposal: Proposal, client: SlurmClient) -> Proposal:
    """What the cluster's back end has no call for is a person's to do by hand; its restart is verified all the same."""
    lack = lacking(proposal.action, client)
    if not lack:
        return proposal
    why = f"It can't be carried out from here. {lack}"
    return replace(
        proposal, action=ActionKind.NOTHING, exclude_nodes=(), parameters={},
        headline=f"To do by hand: {proposal.headline}", reasons=(*proposal.reasons, why),
    )  # fmt: skip


def _as_a_whole(proposal: Proposal, job: Job) -> Proposal:
    """A heterogeneous job is requeued, or cancelled, by its first component; an exclusion is of one component only."""
    lead, _, offset = job.job_id.partition("+")
    if offset in ("", "0") or proposal.action not in WHOLE:
        return proposal
    proposal = replace(proposal, exclude_nodes=())
    first = Attempt.objects.filter(job__run=job.run_id, job__job_id=f"{lead}+0").order_by("-job", "-number").first()
    if first is None:
        whole = f"Do nothing: a heterogeneous job goes by its first component, and {lead}+0 is of another run."
        return replace(proposal, action=ActionKind.NOTHING, headline=whole, parameters={})
    parameters = {**proposal.parameters, "attempt": first.pk}
    if proposal.action is ActionKind.CANCEL:
        said = f"All components are cancelled, by the first one, {lead}+0."
        return replace(proposal, parameters=parameters, reasons=(*proposal.reasons, said))
    older = proposal.action is ActionKind.RESTORE_OLDER
    return replace(
        proposal, action=proposal.action if older else ActionKind.REQUEUE, parameters=parameters,
        reasons=(*proposal.reasons, f"All components are requeued with the first one, {lead}+0; no node is excluded."),
    )  # fmt: skip


def supersede(incident: Incident, *, why: str, now: datetime) -> None:
    current = Recommendation.objects.filter(incident=incident, superseded_at=None)
    current.update(superseded_at=now, superseded_reason=why)


def store_recommendation(
    incident: Incident, proposal: Proposal, *, why: str, client: SlurmClient, now: datetime, by: str = ""
) -> Recommendation:
    """Put `proposal` in the place of what was proposed before (`why`). Call it inside a transaction.

    `by`: the person who proposed it. Raises SlurmError for what can't be asked of Slurm at all.
    """
    supersede(incident, why=why, now=now)
    Incident.objects.filter(pk=incident.pk).exclude(snoozed_until=None).update(snoozed_until=None, snoozed_by="")
    parameters = dict(proposal.parameters)
    if proposal.action.changes_scheduler:
        parameters["key"] = new_key(incident, at=now.timestamp())
    row = Recommendation(
        incident=incident, action=proposal.action, exclude_nodes=list(proposal.exclude_nodes),
        parameters=parameters, proposed_by=by, headline=proposal.headline[:300], reasons=list(proposal.reasons),
        restore_step=proposal.restore_step, restore_path=proposal.restore_path,
        steps_at_stake=proposal.steps_at_stake, gpu_hours_at_stake=proposal.gpu_hours_at_stake,
        gpus_idle=proposal.gpus_idle, created_at=now,
        expires_at=now + timedelta(seconds=current_rules()["expires_after_s"]),
    )  # fmt: skip
    attempt = subject_of(incident, parameters)
    row.operations = operations_of(row, attempt, client=client, now=now)
    row.hash = shown_hash(row, attempt)
    row.save()
    return row


def operations_of(row: Recommendation, attempt: Attempt, *, client: SlurmClient, now: datetime) -> list[str]:
    """The exact operations in their order, with that of the key where it will be left."""
    target = Target(
        kind=ActionKind(row.action), job=attempt.job, parameters=row.parameters, exclude_nodes=tuple(row.exclude_nodes)
    )
    shown = preview(target, client)
    if not shown or not RULES[target.kind].marks or not mark_for(target, client, now=now):
        return shown
    mark = command(Step.SET_ADMIN_COMMENT, target, client)
    requeues = 1 + (target.kind is ActionKind.RESTORE_OLDER)  # Slurm changes no job that has ended: only then
    place = requeues if JobState(attempt.state).is_terminal else 0
    return [*shown[:place], mark, *shown[place:]]


def shown_hash(recommendation: Recommendation, attempt: Attempt) -> str:
    """Digest of what an approval binds to: job, attempt and its state, nodes, action and parameters.

    Computed again at the decision and before execution; another value means that the facts have changed.
    """
    job = attempt.job
    content = {
        "cluster": job.cluster_id,
        "job": job.job_id,
        "first_submitted_at": job.first_submitted_at.isoformat(),
        "attempt": attempt.number,
        "restart_count": job.restart_count,
        "state": attempt.state,
        "nodes": attempt.nodes,
        "action": recommendation.action,
        "exclude_nodes": recommendation.exclude_nodes,
        "operations": recommendation.operations,
        "restore_step": recommendation.restore_step,
        "restore_path": recommendation.restore_path,
    }
    if recommendation.parameters:  # without any the hash is what it was before there were parameters
        content["parameters"] = recommendation.parameters
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def stored_diagnosis(incident: Incident) -> Diagnosis:
    """The verdict that the incident carries, as the value it was."""
    data = incident.diagnosis
    first = data.get("first_failure")
    return Diagnosis(
        failure_class=FailureClass(data["failure_class"]),
        restart=Restart(data["restart"]),
        exclude=Exclude(data["exclude"]),
        nodes=tuple(data["nodes"]),
        confidence=data["confidence"],
        reason=data["reason"],
        evidence=tuple(_evidence(item) for item in data.get("evidence", ())),
        first_failure=_evidence(first) if first else None,
        coverage=dict(data.get("coverage", {})),
    )


def _evidence(item: dict[str, object]) -> Evidence:
    at = item.get("at")
    return Evidence(**{**item, "at": datetime.fromisoformat(at) if isinstance(at, str) else None})  # type: ignore[arg-type]
