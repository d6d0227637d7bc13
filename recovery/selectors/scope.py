"""What somebody may see: the one place where roles for scopes become a condition of a query.

It says in SQL what `Grant.allows` says of one row; tests/access/ holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import reduce
from operator import or_
from typing import TypeVar

from django.db.models import Model, Q, QuerySet

from recovery.access import Actor, Grant, Permission, Place, Subject, require
from recovery.models import (
    Action,
    Alarm,
    Attempt,
    Channel,
    Checkpoint,
    Cluster,
    Delivery,
    Event,
    Incident,
    Job,
    LedgerDay,
    LedgerEntry,
    Node,
    NodeEvent,
    NodeStrike,
    Outbreak,
    PolicyVersion,
    Promotion,
    PushToken,
    Recommendation,
    Run,
    RunLedger,
    Suspect,
)
from recovery.models.access import Scope
from recovery.selectors.base import NotFound

M = TypeVar("M", bound=Model)
NOTHING = Q(pk__in=())
EVERYTHING = Q(pk__isnull=False)  # not Q(): that is no condition, and or-ed with another one it is left out
NOWHERE = Place(0)  # where nobody has a role but for everything
PRIVATE = ("account", "token", "push_token", "audit", "channel")  # subjects of events that are about people

# how a row's job is reached from it
_JOB: dict[type[Model], str] = {
    Job: "",
    Attempt: "job__",
    Incident: "attempt__job__",
    Recommendation: "incident__attempt__job__",
    Action: "incident__attempt__job__",
}
# … its run
_RUN: dict[type[Model], str] = {
    Alarm: "run_id", Checkpoint: "run_id", RunLedger: "run_id", LedgerDay: "run_id", LedgerEntry: "run_id",
}  # fmt: skip
# … its cluster, for what belongs to no job: whoever may see anything on a cluster may see these
_CLUSTER: dict[type[Model], str] = {
    Cluster: "pk", Node: "cluster_id", NodeEvent: "cluster_id", Suspect: "cluster_id", PushToken: "cluster_id",
}  # fmt: skip
# … nowhere, as it is of the whole site: everybody reads the policy; a proposal's figures are of everybody's incidents
_SITE: dict[type[Model], Q] = {PolicyVersion: EVERYTHING, Promotion: NOTHING}
# … its incident
_INCIDENT: dict[type[Model], str] = {Event: "incident_id", NodeStrike: "incident_id"}


def visible_to(rows: QuerySet[M], actor: Actor) -> QuerySet[M]:
    """Those of `rows` that the actor may see: no further query, a condition more."""
    return within(rows, actor, Permission.VIEW)


def within(rows: QuerySet[M], actor: Actor, permission: Permission) -> QuerySet[M]:
    """Those of `rows` for which the actor holds the permission."""
    if permission not in actor.permissions:
        return rows.none()
    if actor.grants is None:
        return rows
    grants = [grant for grant in actor.grants if permission in grant.permissions]
    if any(grant.scope == Scope.ALL for grant in grants):
        return _public(rows, actor)
    return rows.filter(_any(grants, _condition(rows.model, actor)))


def _public(rows: QuerySet[M], actor: Actor) -> QuerySet[M]:
    """Of the audit trail, what is not about people; everything of other tables."""
    if rows.model is not Event or actor.can(Permission.AUDIT_VIEW):
        return rows
    return rows.exclude(subject_kind__in=PRIVATE)


def _any(grants: list[Grant], condition: Callable[[Grant], Q]) -> Q:
    return reduce(or_, (condition(grant) for grant in grants), NOTHING)


def _condition(model: type[Model], actor: Actor) -> Callable[[Grant], Q]:
    if model in _JOB:
        return lambda grant: _of_job(grant, _JOB[model])
    if model is Run:
        return lambda grant: Q(pk__in=Job.objects.filter(_of_job(grant, "")).values("run_id"))
    if model in _RUN:
        return lambda grant: Q(**{f"{_RUN[model]}__in": Job.objects.filter(_of_job(grant, "")).values("run_id")})
    if model in _CLUSTER:
        return lambda grant: EVERYTHING if grant.cluster_id is None else Q(**{_CLUSTER[model]: grant.cluster_id})
    if model in _SITE:
        return lambda grant: _SITE[model]
    if model in _INCIDENT:
        return lambda grant: Q(**{f"{_INCIDENT[model]}__in": _incidents(grant).values("pk")})
    if model in (Channel, Delivery):  # of the whole site: for those whose role is for everything
        return lambda grant: NOTHING
    if model is Outbreak:  # one of its incidents is enough
        return lambda grant: Q(pk__in=_incidents(grant).exclude(outbreak=None).values("outbreak_id"))
    raise TypeError(f"Nothing says who may see rows of {model.__name__}: add it to recovery/selectors/scope.py.")


def _incidents(grant: Grant) -> QuerySet[Incident]:
    return Incident.objects.filter(_of_job(grant, _JOB[Incident]))


def _of_job(grant: Grant, job: str) -> Q:
    found = Q() if grant.cluster_id is None else Q(**{f"{job}cluster_id": grant.cluster_id})
    match grant.scope:
        case Scope.CLUSTER:
            return found if grant.cluster_id is not None else NOTHING
        case Scope.PARTITION:  # a pending job may name several: "gpu,debug"
            column, name = f"{job}partition", grant.name
            one_of = Q(**{f"{column}__startswith": f"{name},"}) | Q(**{f"{column}__endswith": f",{name}"})
            return found & (Q(**{column: name}) | one_of | Q(**{f"{column}__contains": f",{name},"}))
        case Scope.ACCOUNT:
            return found & Q(**{f"{job}account": grant.name})
        case Scope.USER:
            return found & Q(**{f"{job}user": grant.name})
    return NOTHING


def runs_of(actor: Actor) -> QuerySet[Run] | None:
    """The runs to which a report is held; None for whoever sees everything."""
    return None if actor.sees_everything else visible_to(Run.objects.order_by(), actor).only("pk")


def places_of(incident_ids: Collection[int]) -> dict[int, Place]:
    """Where these incidents are, in one query."""
    if not incident_ids:
        return {}
    job = "attempt__job__"
    columns = ("pk", f"{job}cluster", f"{job}partition", f"{job}account", f"{job}user")
    return {
        pk: Place(cluster, frozenset(partition.split(",")), frozenset({account}), user)
        for pk, cluster, partition, account, user in Incident.objects.filter(pk__in=incident_ids).values_list(*columns)
    }


def reach(model: type[M], pk: int, actor: Actor, permission: Permission = Permission.VIEW) -> None:
    """Raises NotFound where the actor may not see the row, as if there were none; Forbidden where only that is allowed.

    A row that is not there is the business of whoever reads it: nobody learns here that it is.
    """
    if actor.grants is None or all(grant.scope == Scope.ALL for grant in actor.grants):
        return
    row = visible_to(model._default_manager.filter(pk=pk), actor).first()
    if row is None:
        raise NotFound(f"There is no {model._meta.verbose_name} {pk}.")
    if isinstance(row, Subject) and permission is not Permission.VIEW:
        require(actor, permission, row)
    elif not within(model._default_manager.filter(pk=pk), actor, permission).exists():
        require(actor, permission, NOWHERE)
