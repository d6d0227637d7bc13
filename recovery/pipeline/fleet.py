"""Beside the path: incidents of several runs that failed together get a parent, and are held and staggered by it.

1. After each verdict `gather` looks at the failures of the same minutes; recovery/core/fleet.py says what belongs
   together.
2. Those get one outbreak, and the cases that were waiting are looked at again: no node is left out while it is open.
3. Restarts of its jobs begin one after the other (`wait_for_turn`).
4. `review` ends it when nothing is left to be done for its incidents.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from recovery import audit
from recovery.access import SYSTEM, Actor, Permission, Place, require
from recovery.core.fleet import Case, FleetLimits, Group, Layout, outbreak_of, runs_at_once, why_over
from recovery.core.lifecycle import IncidentState
from recovery.core.plans import RULES
from recovery.core.types import ActionKind, FailureClass, FindingKind, NodeState, Outcome
from recovery.models import Action, Cluster, Incident, Node, NodeEvent, Outbreak
from recovery.pipeline.facts import as_json, current_rules

STOPS = tuple(kind for kind in FindingKind if kind.is_stop)
NO_FAILURES = (Outcome.FALSE_ALARM, Outcome.STOPPED_ON_PURPOSE)
REACH = 5  # windows before and after a failure that are looked at: an outbreak may go on for longer than one
MOST = 1000  # cases that are looked at together


def fleet_limits() -> FleetLimits:
    breaker = current_rules()["breaker"]
    return FleetLimits(failures=breaker["fleet_failures"], window_s=breaker["fleet_window_s"])


def gather(incident: Incident, *, now: datetime) -> bool:
    """Look whether a diagnosed incident is part of an outbreak, and join or open it. True where it is, newly."""
    if incident.outbreak_id is not None or incident.kind not in STOPS:
        return False
    limits = fleet_limits()
    rows = _rows_beside(incident, limits)
    known = [row.pk for row in rows if row.outbreak_id is not None]
    if not known and runs_at_once(_case(incident), [_case(row) for row in rows], limits) < limits.failures:
        return False  # the usual: it failed by itself
    with transaction.atomic():
        Cluster.objects.select_for_update().get(pk=incident.run.cluster_id)  # one worker at a time joins or opens
        return _join_or_open(incident, limits, now=now)


def _rows_beside(incident: Incident, limits: FleetLimits) -> list[Incident]:
    """The stops of the cluster around the time of this one, itself included; of ended outbreaks none."""
    reach = REACH * limits.window
    rows = Incident.objects.filter(run__cluster=incident.run.cluster_id, kind__in=STOPS)
    rows = rows.filter(failed_at__gte=incident.failed_at - reach, failed_at__lte=incident.failed_at + reach)
    rows = rows.exclude(outcome__in=NO_FAILURES).filter(outbreak__closed_at=None)
    return list(rows.select_related("run", "attempt__job").order_by("failed_at", "pk")[:MOST])


def _join_or_open(incident: Incident, limits: FleetLimits, *, now: datetime) -> bool:
    rows = _rows_beside(incident, limits)
    down = _went_down(rows, limits)
    cases = [_case(row, down) for row in rows]
    known = [row.pk for row in rows if row.outbreak_id is not None]
    own = next((case for case in cases if case.key == incident.pk), None)
    group = outbreak_of(own, cases, _layout(incident.run.cluster_id), limits, known=known) if own else None
    if group is None:
        return False
    members = {case.key for case in group.cases}
    open_ones = [row.outbreak_id for row in rows if row.pk in members and row.outbreak_id is not None]
    if open_ones:
        outbreak = Outbreak.objects.get(pk=open_ones[-1])
        _fill(outbreak, group)
        outbreak.save()
    else:
        outbreak = Outbreak(cluster_id=incident.run.cluster_id, opened_at=now, restart_from=now)
        _fill(outbreak, group)
        outbreak.save()
        _record(outbreak, "outbreak.opened", actor=SYSTEM, now=now, reason=outbreak.headline)
    joining = [row for row in rows if row.outbreak_id is None and (row.pk in members or _struck_again(row, group))]
    _join(outbreak, joining, now=now)
    incident.outbreak = outbreak
    return True


def _struck_again(row: Incident, group: Group) -> bool:
    """A case of a run of the outbreak that ended before its verdict, because the next node of the run died."""
    within = group.began_at <= row.failed_at <= group.last_failed_at
    return within and row.state == IncidentState.CLOSED and not row.failure_class and row.run_id in group.run_keys


def _fill(outbreak: Outbreak, group: Group) -> None:
    outbreak.headline, outbreak.runs = group.headline[:300], group.runs
    outbreak.shared = as_json(group.shared)
    outbreak.began_at, outbreak.last_failed_at = group.began_at, group.last_failed_at


def _join(outbreak: Outbreak, joining: Sequence[Incident], *, now: datetime) -> None:
    """What was proposed for those that wait is looked at anew: it may leave out nodes."""
    keys = [row.pk for row in joining]
    Incident.objects.filter(pk__in=keys, outbreak=None).update(outbreak=outbreak)
    waiting = Incident.objects.filter(pk__in=keys, next_look_at__gt=now, error="")
    waiting.exclude(state=IncidentState.CLOSED).update(next_look_at=now)
    for row in joining:
        audit.record_incident(
            row, "incident.joined_outbreak", actor=SYSTEM, at=now, new=str(outbreak.pk), reason=outbreak.headline
        )


# --- rows as values ---------------------------------------------------------------------------------------------------


def _case(row: Incident, down: frozenset[str] = frozenset()) -> Case:
    first: dict[str, Any] = row.diagnosis.get("first_failure") or {}
    nodes = tuple(row.attempt.nodes)
    seen = {*row.diagnosis.get("nodes", ()), str(first.get("node") or ""), *(node for node in nodes if node in down)}
    return Case(
        key=row.pk, run=row.run_id, user=row.run.user, failed_at=row.failed_at,
        failure_class=FailureClass(row.failure_class) if row.failure_class else None,
        rule=str(first.get("rule") or ""), text=str(first.get("text") or ""), nodes=nodes,
        bad_nodes=tuple(node for node in nodes if node in seen), roots=_roots(row),
    )  # fmt: skip


def _roots(row: Incident) -> tuple[str, ...]:
    """The configured folders that hold the log and the checkpoints of a case: what is mounted as one, mostly."""
    every = {root.rstrip("/") for root in (*settings.LOG_ROOTS, *settings.CHECKPOINT_ROOTS)}
    found = []
    for path in (row.attempt.job.stdout, row.run.checkpoint_dir):
        holding = [root for root in every if path == root or path.startswith(f"{root}/")]
        found += [max(holding, key=len)] if holding else []
    return tuple(dict.fromkeys(found))


def _went_down(rows: Sequence[Incident], limits: FleetLimits) -> frozenset[str]:
    """Nodes of the cluster that Slurm saw go down around these failures."""
    if not rows:
        return frozenset()
    begin, end = rows[0].failed_at - limits.window, rows[-1].failed_at + limits.window
    events = NodeEvent.objects.filter(cluster=rows[0].run.cluster_id, new=NodeState.DOWN)
    return frozenset(events.filter(at__gte=begin, at__lte=end).values_list("node", flat=True)[:MOST])


def _layout(cluster: int) -> Layout:
    rows = list(Node.objects.filter(cluster=cluster).values_list("name", "switch"))
    return Layout(switches={name: switch for name, switch in rows if switch}, nodes=frozenset(name for name, _ in rows))


# --- while it is open -------------------------------------------------------------------------------------------------


def open_outbreak(incident: Incident) -> Outbreak | None:
    """The one that holds back what would be done in this case; None where it is in none, or that is over."""
    if incident.outbreak_id is None:
        return None
    return Outbreak.objects.filter(pk=incident.outbreak_id, closed_at=None).first()


def failures_beside(incident: Incident) -> int:
    """How many runs failed with this case, for the breaker: never fewer than its open outbreak has."""
    limits = fleet_limits()
    rows = [_case(row) for row in _rows_beside(incident, limits)]
    outbreak = open_outbreak(incident)
    return max(runs_at_once(_case(incident), rows, limits), outbreak.runs if outbreak is not None else 0)


def wait_for_turn(action: Action, *, now: datetime) -> datetime | None:
    """When to look again at a decided restart whose turn has not come; None where it may begin.

    A guarded update of one column gives each turn to one worker. Whatever isn't a restart, and undoing, never waits.
    """
    outbreak = open_outbreak(action.incident)
    if outbreak is None or action.called_at is not None or not ActionKind(action.kind).restarts:
        return None
    step = timedelta(seconds=FleetLimits().stagger_s)
    turn = Outbreak.objects.filter(pk=outbreak.pk, restart_from__lte=now)
    if turn.update(restart_from=now + step) == 1:
        return None
    begins = Outbreak.objects.values_list("restart_from", flat=True).get(pk=outbreak.pk)
    deadline = begins + timedelta(seconds=RULES[ActionKind(action.kind)].time_s)
    said = f"It waits for its turn: restarts of outbreak {outbreak.pk} begin {step.total_seconds():.0f} s apart."
    Action.objects.filter(pk=action.pk, called_at=None).update(deadline_at=deadline, detail=said)
    Incident.objects.filter(pk=action.incident_id, state=IncidentState.ACTING).update(deadline_at=deadline)
    return begins


def why_held(action: Action) -> str:
    """Why a decided action is not begun now, as a clause: nothing but undoing takes nodes away meanwhile."""
    takes = bool(action.exclude_nodes) or action.kind == ActionKind.DRAIN
    outbreak = open_outbreak(action.incident) if takes and "undoes" not in action.parameters else None
    return f"exclusions and drains are held while outbreak {outbreak.pk} is open" if outbreak is not None else ""


# --- its end ----------------------------------------------------------------------------------------------------------


def review(*, now: datetime) -> None:
    """End the outbreaks that are over. Two queries, and one for each that ends."""
    open_ones = {row.pk: row for row in Outbreak.objects.filter(closed_at=None)}
    if not open_ones:
        return
    states: dict[int, list[IncidentState]] = {pk: [] for pk in open_ones}
    for outbreak_id, state in Incident.objects.filter(outbreak__in=open_ones).values_list("outbreak_id", "state"):
        states[outbreak_id].append(IncidentState(state))
    limits = fleet_limits()
    for pk, row in open_ones.items():
        if why := why_over(states[pk], row.last_failed_at, limits, now=now):
            _close(row, why, actor=SYSTEM, now=now)


def _close(outbreak: Outbreak, why: str, *, actor: Actor, now: datetime) -> bool:
    """End it once; cases that still wait are looked at again, as nodes may be left out now."""
    with transaction.atomic():
        row = Outbreak.objects.filter(pk=outbreak.pk, closed_at=None)
        if row.update(closed_at=now, closed_reason=why[:300]) != 1:
            return False
        _record(outbreak, "outbreak.closed", actor=actor, now=now, reason=why)
        waiting: QuerySet[Incident] = Incident.objects.filter(outbreak=outbreak, next_look_at__gt=now, error="")
        waiting.exclude(state=IncidentState.CLOSED).update(next_look_at=now)
    return True


def end_outbreak(outbreak: Outbreak, *, reason: str, actor: Actor, now: datetime) -> bool:
    """A person says that its failures don't belong together, or that it is over. False: it was over already.

    Raises Forbidden: it is of a whole cluster, not of the jobs by which somebody sees it.
    """
    require(actor, Permission.OPERATE, Place(outbreak.cluster_id))
    return _close(outbreak, reason, actor=actor, now=now)


def _record(outbreak: Outbreak, verb: str, *, actor: Actor, now: datetime, reason: str) -> None:
    audit.record(verb, actor=actor, at=now, subject_kind="outbreak", subject_id=outbreak.pk, reason=reason)
