"""People whose roles reach over a part of a site, and what lies within and outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState
from recovery.models import Cluster, Incident, Job, Membership, Recommendation
from recovery.models.access import Role, Scope
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_recommendation, make_run


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run that failed and waits for a decision, somewhere."""

    job: Job
    incident: Incident
    recommendation: Recommendation


def make_case(*, cluster: Cluster, user: str = "mira", partition: str = "train", account: str = "research") -> Case:
    run = make_run(cluster=cluster, user=user)
    job = make_job(run=run, state=JobState.FAILED, partition=partition, account=account)
    attempt = make_attempt(job=job, state=JobState.FAILED)
    incident = make_incident(attempt=attempt, state=IncidentState.AWAITING_DECISION)
    return Case(job=job, incident=incident, recommendation=make_recommendation(incident=incident))


@dataclass(frozen=True, kw_only=True)
class Site:
    """Two clusters; on alpha four cases that differ in partition, account and user, on beta one."""

    alpha: Cluster
    beta: Cluster
    cases: dict[str, Case]


def make_site() -> Site:
    alpha, beta = make_cluster(name="alpha"), make_cluster(name="beta")
    cases = {
        "plain": make_case(cluster=alpha),
        "debug": make_case(cluster=alpha, partition="long,debug"),
        "nlp": make_case(cluster=alpha, account="nlp"),
        "jonas": make_case(cluster=alpha, user="jonas"),
        "beta": make_case(cluster=beta, partition="debug", account="nlp", user="jonas"),
    }
    return Site(alpha=alpha, beta=beta, cases=cases)


def make_person(role: Role, scope: Scope, name: str = "", cluster: Cluster | None = None, **fields: Any) -> User:
    user = User.objects.create_user(fields.get("username", f"{role}-{scope}-{name or 'any'}"))
    Membership.objects.create(user=user, role=role, scope=scope, cluster=cluster, name=name)
    return user
