"""Incidents; what is recommended, decided and done; the policy and the audit trail."""

from __future__ import annotations

import copy
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.core.types import (
    ActionKind,
    DecisionKind,
    Exclude,
    FailureClass,
    FindingKind,
    JobState,
    Mode,
    Outcome,
    Restart,
)
from recovery.models import Action, Attempt, Decision, Event, Finding, Incident, PolicyVersion, Recommendation, Run
from recovery.pipeline.recommend import shown_hash
from tests.factories.base import ago, numbers
from tests.factories.jobs import make_attempt, make_job

# How far an incident has come in each state: so many of these moments have passed.
_MOMENTS = ("recommended_at", "decided_at", "acted_at", "restored_at", "checkpoint_at")
_PASSED = {
    IncidentState.DETECTED: 0,
    IncidentState.DIAGNOSED: 0,
    IncidentState.RECOMMENDED: 1,
    IncidentState.AWAITING_DECISION: 1,
    IncidentState.WATCHING: 1,
    IncidentState.ACTING: 2,
    IncidentState.RESTORING: 3,
    IncidentState.NEEDS_PERSON: 3,
    IncidentState.AWAITING_CHECKPOINT: 4,
    IncidentState.CLOSED: 5,
}

_REASON = "gpu-02 reported an uncorrectable memory error; the other ranks only lost their peer."
_EVIDENCE = {
    "text": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    "source": "/logs/llama-70b.out",
    "role": "cause",
    "rule": "cuda.ecc_uncorrectable",
    "line": 1841,
    "at": None,
    "rank": 13,
    "node": "gpu-02",
}
_VERDICT = {
    "failure_class": FailureClass.GPU_HARDWARE,
    "restart": Restart.YES,
    "exclude": Exclude.NODES,
    "confidence": 0.97,
    "reason": _REASON,
    "diagnosis": {
        "failure_class": "gpu_hardware",
        "restart": "yes",
        "exclude": "nodes",
        "nodes": ["gpu-02"],
        "confidence": 0.97,
        "reason": _REASON,
        "evidence": [_EVIDENCE],
        "first_failure": _EVIDENCE,
        "coverage": {"job log": "read to its end"},
    },
}


def _moments(state: IncidentState) -> dict[str, datetime]:
    found = {name: ago(470 - 60 * i) for i, name in enumerate(_MOMENTS[: _PASSED[state]])}
    return found | ({"closed_at": ago(200)} if state is IncidentState.CLOSED else {})


def _verification(state: IncidentState) -> dict[str, Any]:
    found: dict[str, Any] = {"restored_step": 840} if _PASSED[state] >= 4 else {}
    if state is IncidentState.CLOSED:
        found["next_checkpoint_step"] = 860
        found["outcome"] = Outcome.RECOVERED
        found["outcome_reason"] = "Restored at step 840, and checkpoint 860 is complete."
    return found


def make_incident(
    *,
    state: IncidentState = IncidentState.AWAITING_DECISION,
    run: Run | None = None,
    attempt: Attempt | None = None,
    **fields: Any,
) -> Incident:
    """A crash by a GPU memory error eight minutes ago, with every moment that has passed in `state`."""
    attempt = attempt or make_attempt(job=make_job(run=run, state=JobState.FAILED), state=JobState.FAILED)
    defaults = {
        "kind": FindingKind.CRASH,
        "headline": f"{attempt.job.run.name} stopped: uncorrectable GPU memory error on gpu-02.",
        "failed_at": ago(482),
        "detected_at": ago(478),
        "failed_step": 852,
        "expected_step": 840,
        **({} if state is IncidentState.DETECTED else deepcopy(_VERDICT)),  # a test may edit its own
        **_moments(state),
        **_verification(state),
    }
    return Incident.objects.create(run=attempt.job.run, attempt=attempt, state=state, **{**defaults, **fields})


def make_danger(*, in_s: float = 360.0, **fields: Any) -> Incident:
    """A restart from scratch that overwrites step 840 in six minutes, with its three checks."""
    new = make_attempt(
        job=make_job(run=fields.pop("run", None)), number=1, fresh_start=True, first_step=1, last_step=12
    )
    failed = make_attempt(job=new.job, number=0, state=JobState.FAILED)
    alarm = "Restarted from scratch: step 840 was expected to be restored. The trainer says that it starts without one."
    restored = {
        "key": "restored", "state": "not_as_expected", "expected": "It continues at step 840 or later.",
        "seen": "The trainer says that it starts without a checkpoint; step 840 was expected.",
        "places": [{"source": "tracker file", "says": "step 840", "file": "/ckpt/latest.txt", "line": None,
                    "by_word": False}],
        "contradictions": ["The tracker file named step 840, but the trainer says that it starts without one."],
        "at": ago(60).isoformat(), "deadline_at": None, "deadline_from": "", "queued_s": None, "attempt_id": new.pk,
        "waits_for": "",
    }  # fmt: skip
    waiting = {
        "key": "checkpoint", "state": "waiting", "expected": "A complete checkpoint beyond step 840.",
        "seen": "It is at step 12.", "deadline_at": ago(-900).isoformat(), "waits_for": "checkpoint", "at": None,
        "deadline_from": "the longest checkpoint interval of this run so far took 10 m; doubled",
        "places": [{"source": "checkpoint", "says": "step 20 announced", "file": "/ckpt/iter_0000020", "line": None,
                    "by_word": False}],
        "contradictions": [],
    }  # fmt: skip
    converged = {
        "key": "converged",
        "state": "as_expected",
        "expected": "Requeue, restoring step 840.",
        "seen": "Runs.",
        "contradictions": [],
    }
    danger = {
        "state": IncidentState.NEEDS_PERSON, "new_attempt": new, "alarm": alarm, "trouble": Outcome.FROM_SCRATCH,
        "advice": "Cancel the job before step 840 is gone.", "danger_at": ago(-in_s), "danger_step": 840,
        "danger": "It overwrites step 840 with its save at step 840, the 42nd from now.",
        "verification": [{**restored, **converged}, restored, {**restored, **waiting}],
    }  # fmt: skip
    return make_incident(attempt=failed, **{**danger, **fields})


def make_finding(*, incident: Incident | None = None, **fields: Any) -> Finding:
    incident = incident or make_incident()
    defaults = {
        "kind": incident.kind,
        "at": incident.detected_at,
        "since": incident.failed_at,
        "reason": "Slurm says: FAILED with exit code 1.",
        "confidence": 1.0,
        "evidence": [_EVIDENCE],
    }
    return Finding.objects.create(incident=incident, **{**defaults, **fields})


def make_recommendation(*, incident: Incident | None = None, **fields: Any) -> Recommendation:
    """Requeue without gpu-02, to be approved by a person; its hash is that of its facts."""
    incident = incident or make_incident()
    job_id = incident.attempt.job.job_id
    defaults = {
        "action": ActionKind.REQUEUE_EXCLUDING,
        "exclude_nodes": ["gpu-02"],
        "headline": "Requeue without gpu-02, restoring step 840 (12 steps lost).",
        "reasons": ["A GPU of gpu-02 has an uncorrectable memory error.", "Checkpoint 840 is complete."],
        "operations": [
            f"scontrol requeuehold {job_id}",
            f"scontrol update JobId={job_id} ExcNodeList=gpu-02",
            f"scontrol release {job_id}",
        ],
        "restore_step": 840,
        "restore_path": f"{incident.run.checkpoint_dir}/iter_0000840",
        "steps_at_stake": 12,
        "gpu_hours_at_stake": 6.4,
        "gpus_idle": 64,
        "created_at": incident.recommended_at or ago(470),
        "expires_at": timezone.now() + timedelta(hours=1),
        "mode": Mode.APPROVE,
        "mode_reason": "Rule gpu_hardware: a person approves.",
    }
    row = Recommendation(incident=incident, **{**defaults, **fields})
    row.hash = row.hash or shown_hash(row, incident.attempt)
    row.save()
    return row


def make_decision(
    *, recommendation: Recommendation | None = None, actor: User | None = None, **fields: Any
) -> Decision:
    recommendation = recommendation or make_recommendation()
    defaults = {
        "kind": DecisionKind.APPROVE,
        "actor_name": actor.username if actor else "approver",
        "hash": recommendation.hash,
        "at": ago(410),
    }
    return Decision.objects.create(recommendation=recommendation, actor=actor, **{**defaults, **fields})


def make_action(*, recommendation: Recommendation | None = None, **fields: Any) -> Action:
    """An intent whose first scheduler call is still to come."""
    recommendation = recommendation or make_recommendation(incident=make_incident(state=IncidentState.ACTING))
    defaults = {
        "incident": recommendation.incident,
        "key": f"recommendation-{recommendation.pk}",
        "kind": recommendation.action,
        "exclude_nodes": recommendation.exclude_nodes,
        "state": ActionState.INTENDED,
        "intended_at": ago(405),
        "deadline_at": timezone.now() + timedelta(minutes=10),
    }
    return Action.objects.create(recommendation=recommendation, **{**defaults, **fields})


def make_policy(**fields: Any) -> PolicyVersion:
    """The next version; it observes unless rules are given."""
    newest = PolicyVersion.objects.order_by("-number").values_list("number", flat=True).first()
    defaults = {
        "number": (newest or 0) + 1,
        "rules": copy.deepcopy(DEFAULT_RULES),
        "author": "admin",
        "reason": "first rules",
        "created_at": ago(86_400),
    }
    return PolicyVersion.objects.create(**{**defaults, **fields})


def make_event(*, incident: Incident | None = None, **fields: Any) -> Event:
    """The event of an incident's detection unless told otherwise."""
    incident_id = incident.pk if incident else None
    defaults = {
        "at": ago(478),
        "actor_kind": "system",
        "actor_name": "Recovery Desk",
        "subject_kind": "incident",
        "subject_id": str(incident_id or next(numbers)),
        "incident_id": incident_id,
        "verb": "incident.detected",
        "new": "detected",
        "reason": "Slurm says: FAILED with exit code 1.",
    }
    return Event.objects.create(**{**defaults, **fields})
