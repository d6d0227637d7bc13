"""Beside the path: the list of suspects, from strikes of nodes and by hand.

Persons put nodes on the list and take them off; what was before somebody took a node off counts no more. Whatever is
on the list runs out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Max, QuerySet

from recovery import audit
from recovery.access import SYSTEM, Actor, Permission, Place, require
from recovery.core.node_memory import MemoryLimits, Standing, Strike, ToldBy, standing
from recovery.core.policy import AVOID_SUSPECTS, room_for_exclusions
from recovery.core.types import FailureClass
from recovery.models import Cluster, Node, NodeStrike, Suspect
from recovery.pipeline.facts import current_rules
from recovery.pipeline.held import nodes_held
from recovery.pipeline.invalid import Invalid

LIMITS = MemoryLimits()
LONGEST = timedelta(days=365)  # that a person can put a node on the list for


def strikes_of(cluster: int, nodes: Iterable[str], *, now: datetime) -> dict[str, list[Strike]]:
    """Those that count, by node: not too old, and not before a person took the node off the list. Two queries."""
    names = list(nodes)
    pardons = Suspect.objects.filter(cluster=cluster, node__in=names).exclude(ended_by="")
    forgiven = dict(pardons.order_by().values_list("node").annotate(Max("ended_at")))
    rows = NodeStrike.objects.filter(cluster=cluster, node__in=names)
    rows = rows.filter(at__gte=now - timedelta(seconds=LIMITS.keep_s)).select_related("incident__run")
    found: dict[str, list[Strike]] = defaultdict(list)
    for row in rows:
        if row.node not in forgiven or row.at > forgiven[row.node]:
            found[row.node].append(as_strike(row))
    return found


def as_strike(row: NodeStrike) -> Strike:
    run = row.incident.run
    return Strike(
        at=row.at, run=run.pk, user=run.user, proven=row.proven, told_by=ToldBy(row.told_by),
        failure_class=FailureClass(row.failure_class), elsewhere=row.elsewhere,
    )  # fmt: skip


# --- the list ---------------------------------------------------------------------------------------------------------


def suspects(cluster: int, *, now: datetime) -> QuerySet[Suspect]:
    """Those that are suspect now: a person's word first, then the worst."""
    rows = Suspect.objects.filter(cluster=cluster, ended_at=None, until__gt=now)
    return rows.order_by(F("score").desc(nulls_first=True), "node")


def reasons(cluster: int, nodes: Sequence[str], *, now: datetime) -> dict[str, str]:
    """Why those of `nodes` that are suspects are so, as clauses."""
    rows = suspects(cluster, now=now).filter(node__in=nodes)
    return {row.node: f"{row.added_by}: {row.reason}" if row.added_by else row.reason for row in rows}


def to_avoid(cluster: Cluster, *, now: datetime) -> tuple[tuple[str, ...], int]:
    """The suspects that the policy lets a restart keep away from, the worst first, and how many the caps leave room
    for."""
    rules = current_rules()
    if not rules.get(AVOID_SUSPECTS):
        return (), 0
    names = tuple(suspects(cluster.pk, now=now).values_list("node", flat=True))
    if not names:
        return (), 0
    total = Node.objects.filter(cluster=cluster).count()
    return names, room_for_exclusions(rules["breaker"], excluded=len(nodes_held(cluster, now=now)), total=total)


def reconsider(cluster: int, nodes: Iterable[str], *, now: datetime) -> None:
    """Put nodes on the list, renew them, or take them off, by their strikes. What a person put there stays."""
    names = sorted(nodes)
    strikes = strikes_of(cluster, names, now=now)
    listed = {row.node: row for row in Suspect.objects.filter(cluster=cluster, node__in=names, ended_at=None)}
    for node in names:
        found, row = standing(strikes.get(node, []), LIMITS, now=now), listed.get(node)
        if row is not None and row.until <= now:
            _end(row, by="", reason="It ran out.", actor=SYSTEM, now=now)
            row = None
        if row is None and found.until is not None:
            _list(cluster, node, found, until=found.until, now=now)
        elif row is not None and not row.added_by and found.until is None:
            _end(row, by="", reason="What is known of it now makes it none.", actor=SYSTEM, now=now)
        elif row is not None and not row.added_by and (row.score, row.until) != (found.score, found.until):
            Suspect.objects.filter(pk=row.pk).update(score=found.score, until=found.until, reason=found.reason)


def _list(cluster: int, node: str, found: Standing, *, until: datetime, now: datetime) -> None:
    row = Suspect(cluster_id=cluster, node=node, since=now, until=until, score=found.score, reason=found.reason)
    _add(row, actor=SYSTEM, now=now)


def _add(row: Suspect, *, actor: Actor, now: datetime) -> bool:
    """False where it is on the list already: another worker or person was first."""
    try:
        with transaction.atomic():
            row.save()
            _record(row, "suspect.added", actor=actor, now=now, reason=row.reason)
    except IntegrityError:
        return False
    return True


def _end(row: Suspect, *, by: str, reason: str, actor: Actor, now: datetime) -> bool:
    with transaction.atomic():
        open_one = Suspect.objects.filter(pk=row.pk, ended_at=None)
        if open_one.update(ended_at=now, ended_by=by, ended_reason=reason[:300]) != 1:
            return False
        _record(row, "suspect.ended", actor=actor, now=now, reason=reason)
    return True


def _record(row: Suspect, verb: str, *, actor: Actor, now: datetime, reason: str) -> None:
    audit.record(
        verb, actor=actor, at=now, subject_kind="node", subject_id=row.node, reason=reason, cluster=row.cluster_id
    )


def let_expire(*, now: datetime) -> None:
    """End what ran out; one query where nothing did."""
    for row in Suspect.objects.filter(ended_at=None, until__lte=now):
        _end(row, by="", reason="It ran out.", actor=SYSTEM, now=now)


# --- by hand ----------------------------------------------------------------------------------------------------------


def add_suspect(cluster: int, node: str, *, reason: str, until: datetime, actor: Actor, now: datetime) -> Suspect:
    """A person puts a node on the list. Raises Forbidden or Invalid."""
    require(actor, Permission.OPERATE, Place(cluster))
    errors = [] if reason.strip() else ["reason: say why; it is shown wherever the node is left out."]
    if not Node.objects.filter(cluster=cluster, name=node).exists():
        errors.append(f"node: there is no node {node[:100] or 'without a name'} on this cluster; see its nodes.")
    if not now < until <= now + LONGEST:
        errors.append(f"until: must be in the future, and at most {LONGEST.days} days from now.")
    if errors:
        raise Invalid(errors)
    let_expire(now=now)
    row = Suspect(
        cluster_id=cluster, node=node, since=now, until=until, reason=reason.strip()[:500], added_by=actor.name
    )
    if not _add(row, actor=actor, now=now):
        raise Invalid([f"node: {node} is on the list already; take it off first to change until when or why."])
    return row


def remove_suspect(pk: int, *, reason: str, actor: Actor, now: datetime) -> Suspect:
    """A person takes a node off the list; its strikes until now count no more.

    Raises Forbidden, Invalid or Suspect.DoesNotExist.
    """
    row = Suspect.objects.get(pk=pk)
    require(actor, Permission.OPERATE, Place(row.cluster_id))
    if not reason.strip():
        raise Invalid(["reason: say why, such as what was repaired; it stands in the audit trail."])
    if not _end(row, by=actor.name, reason=reason.strip(), actor=actor, now=now):
        raise Invalid([f"{row.node} is not on the list any more."])
    return row
