"""Stage 4, diagnose: from a finding and everything known of the attempt to a verdict with its reasons."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta

from recovery.core.detectors import detect
from recovery.core.diagnose import diagnose
from recovery.core.lifecycle import IncidentState
from recovery.core.types import AttemptFacts, Diagnosis, Finding, FindingKind
from recovery.models import Incident
from recovery.pipeline.detect import VERB
from recovery.pipeline.facts import as_json, attempt_facts, limits, past_failures
from recovery.pipeline.fleet import open_outbreak
from recovery.pipeline.recommend import stored_diagnosis
from recovery.pipeline.suspects import reasons
from recovery.pipeline.transition import advance
from recovery.slurm.base import HELD_BY_PEOPLE

LOG_WAIT = timedelta(seconds=10)  # so long a verdict waits for the last lines of an ended job's log to be read


def diagnose_incident(incident: Incident, *, now: datetime) -> Diagnosis | None:
    """Give the verdict on a detected incident and store it. None: not yet, the log is not read to its end."""
    attempt = incident.attempt
    unread = attempt.started_at is not None and (attempt.read_at is None or attempt.read_at < (attempt.ended_at or now))
    if attempt.ended_at is not None and unread and now - incident.detected_at < LOG_WAIT:
        return None
    verdict = _verdict(incident, now=now)
    headline = f"{incident.run.name} {VERB[FindingKind(incident.kind)]}: {_fact(verdict.reason)}"
    advance(
        incident, IncidentState.DIAGNOSED, now=now, why=verdict.reason,
        failure_class=verdict.failure_class, restart=verdict.restart, exclude=verdict.exclude,
        confidence=verdict.confidence, reason=verdict.reason[:500], diagnosis=as_json(verdict),
        failed_step=attempt.last_step,
        evidence_key=evidence_key(incident, verdict), headline=headline[:300],
    )  # fmt: skip
    return verdict


def has_new_evidence(incident: Incident, *, now: datetime) -> bool:
    """Whether the verdict would be another one today: a node went down later, say, or accounting spoke."""
    return evidence_key(incident, _verdict(incident, now=now)) != incident.evidence_key


def rest_on_outbreak(incident: Incident) -> None:
    """Note that the verdict now rests on the outbreak, too, that the case has joined since it was given."""
    incident.evidence_key = evidence_key(incident, stored_diagnosis(incident))
    Incident.objects.filter(pk=incident.pk).update(evidence_key=incident.evidence_key)


def evidence_key(incident: Incident, verdict: Diagnosis) -> str:
    """Digest of what a recommendation depends on: the verdict and where the job stands."""
    job = incident.attempt.job
    content = [
        verdict.failure_class, verdict.restart, verdict.exclude, list(verdict.nodes),
        incident.attempt.state, job.restart_count, job.held, job.requeueable, incident.kind,
        job.state_reason in HELD_BY_PEOPLE,
    ]  # fmt: skip
    if (outbreak := open_outbreak(incident)) is not None:
        content.append(outbreak.pk)  # what is held while it is open is proposed anew when it ends
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _verdict(incident: Incident, *, now: datetime) -> Diagnosis:
    facts = attempt_facts(incident.attempt, now=now)
    suspects = reasons(incident.run.cluster_id, facts.nodes, now=now)
    return diagnose(facts, _finding(incident, facts), past_failures(incident, now=now), suspects)


def _finding(incident: Incident, facts: AttemptFacts) -> Finding:
    """What the detectors say now, else the finding that opened the case."""
    for finding in detect(facts, limits()):
        if finding.kind == incident.kind:
            return finding
    own = incident.findings.filter(attempt=None)  # others are of executions that failed beside it
    row = own.filter(kind=incident.kind).order_by("-at").first() or own.latest("at")
    return Finding(kind=FindingKind(row.kind), since=row.since, reason=row.reason, confidence=row.confidence)


def _fact(reason: str) -> str:
    """What happened, without the advice that follows it, for use behind a colon; GPU, Slurm and n2 stay as they are."""
    first, stop, _ = reason.partition(". ")
    plain = (first[1:2].islower() or first[1:2] == " ") and not first.startswith("Slurm")
    return (first[:1].lower() + first[1:] if plain else first) + ("." if stop else "")
