"""Stage 5, recommend: from a verdict to one proposed action, stored with the hash of everything it rests on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from recovery.core.lifecycle import IncidentState
from recovery.core.recommend import JobFacts, recommend
from recovery.core.series import typical_step_time
from recovery.core.types import (
    ActionKind,
    Diagnosis,
    Evidence,
    Exclude,
    FailureClass,
    JobState,
    Proposal,
    Restart,
    Sample,
)
from recovery.models import Attempt, Incident, Recommendation
from recovery.pipeline.eligible import eligible_nodes
from recovery.pipeline.facts import attempt_facts, current_rules, past_failures
from recovery.pipeline.transition import advance
from recovery.slurm.base import HELD_BY_PEOPLE, Operation, SlurmClient


def recommend_incident(incident: Incident, *, client: SlurmClient, now: datetime) -> Recommendation:
    """Propose an action for a diagnosed incident; what was proposed before is superseded."""
    facts = attempt_facts(incident.attempt, now=now)
    verdict = stored_diagnosis(incident)
    job_facts = _job_facts(incident.attempt, facts.samples, now=now)
    proposal = recommend(verdict, facts, job_facts, past_failures(incident, now=now))
    operations = preview(proposal.action, incident.attempt, proposal.exclude_nodes, client=client)
    with transaction.atomic():
        supersede(incident, why="The case was looked at again.", now=now)
        row = _create(incident, proposal, operations, now=now)
        advance(
            incident, IncidentState.RECOMMENDED, now=now, why=proposal.headline,
            recommended_at=incident.recommended_at or now, expected_step=proposal.restore_step,
        )  # fmt: skip
    return row


def supersede(incident: Incident, *, why: str, now: datetime) -> None:
    current = Recommendation.objects.filter(incident=incident, superseded_at=None)
    current.update(superseded_at=now, superseded_reason=why)


def _create(incident: Incident, proposal: Proposal, operations: list[str], *, now: datetime) -> Recommendation:
    row = Recommendation(
        incident=incident, action=proposal.action, exclude_nodes=list(proposal.exclude_nodes),
        parameters=proposal.parameters, headline=proposal.headline[:300], reasons=list(proposal.reasons), operations=operations,
        restore_step=proposal.restore_step, restore_path=proposal.restore_path,
        steps_at_stake=proposal.steps_at_stake, gpu_hours_at_stake=proposal.gpu_hours_at_stake,
        gpus_idle=proposal.gpus_idle, created_at=now,
        expires_at=now + timedelta(seconds=current_rules()["expires_after_s"]),
    )  # fmt: skip
    row.hash = shown_hash(row, incident.attempt)
    row.save()
    return row


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


def preview(action: ActionKind, attempt: Attempt, nodes: Sequence[str], *, client: SlurmClient) -> list[str]:
    """The exact scheduler operations of an action, in order."""
    job = attempt.job
    if action is ActionKind.REQUEUE:
        return [client.preview(Operation.REQUEUE, job.job_id)]
    if action is ActionKind.REQUEUE_EXCLUDING:
        merged = merged_exclusion(job.excluded_nodes, nodes)
        return [
            client.preview(Operation.REQUEUE_HOLD, job.job_id),
            client.preview(Operation.SET_EXCLUDED_NODES, job.job_id, nodes=merged),
            client.preview(Operation.RELEASE, job.job_id),
        ]
    return []


def merged_exclusion(present: Sequence[str], added: Sequence[str]) -> tuple[str, ...]:
    """The job's own exclusions stay; ours come on top."""
    return tuple(sorted({*present, *added}))


def _job_facts(attempt: Attempt, samples: tuple[Sample, ...], *, now: datetime) -> JobFacts:
    job = attempt.job
    places = eligible_nodes(job, now=now)
    return JobFacts(
        job_id=job.job_id, requeueable=job.requeueable, node_count=job.node_count or len(attempt.nodes), gpus=job.gpus,
        eligible_nodes=places.nodes, eligible_reason=places.reason, required_nodes=tuple(job.required_nodes),
        excluded_nodes=tuple(job.excluded_nodes), forgotten=job.vanished_at is not None,
        held=(job.held and JobState(job.state) is JobState.PENDING) or job.state_reason in HELD_BY_PEOPLE,
        step_time_s=typical_step_time(samples),
        user=job.user, requeue_delay_s=job.cluster.requeue_delay_s,
    )  # fmt: skip


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
