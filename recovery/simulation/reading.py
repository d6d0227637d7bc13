"""A scenario file as a Scenario. Every error of the file is found in one go; each names the field and the remedy."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from recovery.core.policy import DEFAULT_RULES, check_rules
from recovery.core.types import DecisionKind
from recovery.simulation.scenario import (
    Deed,
    DeskSettings,
    Expectation,
    ExpectedIncident,
    ExpectedJob,
    PlannedEvent,
    PlannedJob,
    Scenario,
    ScriptedDecision,
)
from recovery.simulation.tables import Table
from recovery.slurm.simulator import (
    ClusterSpec,
    Fault,
    JobSpec,
    PartitionSpec,
    ReservationSpec,
    make_nodes,
)

LONGEST_S = 7 * 86_400.0
LARGEST = 1_000_000  # bytes of a file
MOST_JOBS, MOST_NODES = 20_000, 20_000

# What each deed needs besides its time.
NEEDS: dict[Deed, tuple[str, ...]] = {
    Deed.CRASH_NODE: ("nodes",),
    Deed.CRASH_RACK: ("rack",),
    Deed.FAIL_NODE: ("nodes",),
    Deed.DRAIN_NODE: ("nodes",),
    Deed.RESTORE_NODE: ("nodes",),
    Deed.RESERVE: ("name", "nodes", "for_s"),
    Deed.CANCEL: ("job",),
    Deed.REQUEUE: ("job",),
    Deed.HOLD: ("job",),
    Deed.RELEASE: ("job",),
    Deed.LOSE_CHECKPOINT: ("job", "step"),
    Deed.TROUBLE: ("for_s",),
    Deed.PAUSE: ("for_s",),
}


class BadScenario(ValueError):
    """A file that can't be played; `errors` are sentences that name the field and the remedy."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


def read_file(path: Path) -> Scenario:
    """Raises BadScenario, and OSError where the file can't be read."""
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)  # it may have no end: /dev/zero
    if len(data) > LARGEST:
        raise BadScenario([f"the file has more than {LARGEST} bytes."])
    try:
        return read_scenario(tomllib.loads(data.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadScenario([f"this is no TOML: {error}."]) from error


def read_scenario(document: dict[str, Any]) -> Scenario:
    """Raises BadScenario."""
    errors: list[str] = []
    top = Table(document, "", errors)
    cluster = _cluster(top)
    jobs = _jobs(top.tables("job"), cluster)
    given: dict[str, Any] = {
        "desk": _made(top.table("desk"), DeskSettings),
        "policy": _policy(top),
        "events": tuple(e for t in top.tables("event") if (e := _event(t, cluster, jobs)) is not None),
        "decisions": tuple(d for t in top.tables("decision") if (d := _decision(t)) is not None),
        "expect": _expectation(top.table("expect")),
    }
    leave = frozenset({"cluster", "jobs", *given})
    given |= top.fields_of(Scenario, leave=leave)
    if not 0 < given.get("for_s", 1) <= LONGEST_S:
        top.complain("for_s", f"must be more than 0 and at most {LONGEST_S:g} seconds.")
    if cluster is None or errors:
        top.make(Scenario, {"cluster": cluster, "jobs": jobs, **given}, required=("title", "for_s"))
        raise BadScenario(errors)
    made = top.make(Scenario, {"cluster": cluster, "jobs": jobs, **given}, required=("title", "for_s"))
    if made is None:
        raise BadScenario(errors)
    return made


def _made(table: Table, kind: type[Any], **extra: Any) -> Any:
    return table.make(kind, {**table.fields_of(kind, leave=frozenset(extra)), **extra})


# --- the cluster ------------------------------------------------------------------------------------------------------
def _cluster(top: Table) -> ClusterSpec | None:
    seed = top.take("seed")
    if seed is None:
        seed = 1
    if isinstance(seed, bool) or not isinstance(seed, int):
        top.complain("seed", "must be a whole number.")
        return None
    table = top.table("cluster")
    nodes = _nodes(table)
    given = {
        "partitions": tuple(_made(t, PartitionSpec) for t in table.tables("partition")),
        "reservations": tuple(_made(t, ReservationSpec) for t in table.tables("reservation")),
    }
    leave = frozenset({"seed", "nodes", "workload", "pause_after_s", "keep_records_s", *given})
    given |= table.fields_of(ClusterSpec, leave=leave)
    if any(part is None for name in ("partitions", "reservations") for part in given[name]) or not nodes:
        return None
    return table.make(ClusterSpec, {"seed": seed, "nodes": nodes, **given})


def _nodes(table: Table) -> tuple[Any, ...]:
    """`nodes` (how many), and what they are alike in."""
    numbers = {"nodes": 4, "gpus_per_node": 8, "per_rack": 0}
    for name in numbers:
        value = table.take(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_NODES:
            table.complain(name, f"must be a whole number up to {MOST_NODES}.")
            return ()
        numbers[name] = value
    features = table.take("features") or []
    if not isinstance(features, list) or not all(isinstance(feature, str) for feature in features):
        table.complain("features", "must be a list of texts.")
        return ()
    if numbers["nodes"] < 1:
        table.complain("nodes", "must be at least 1.")
    return make_nodes(
        numbers["nodes"], gpus=numbers["gpus_per_node"], per_rack=numbers["per_rack"], features=tuple(features)
    )


# --- jobs -------------------------------------------------------------------------------------------------------------
def _jobs(tables: list[Table], cluster: ClusterSpec | None) -> tuple[PlannedJob, ...]:
    jobs: list[PlannedJob] = []
    for table in tables:
        jobs += _job(table, cluster)
        if len(jobs) > MOST_JOBS:
            table.complain("count", f"makes more than {MOST_JOBS} jobs in all.")
            return ()
    return tuple(jobs)


def _job(table: Table, cluster: ClusterSpec | None) -> list[PlannedJob]:
    faults = [_made(fault, Fault) for fault in table.tables("fault")]
    count = table.take("count")
    plan = {name: value for name in ("at_s", "resumes_at", "job_id") if (value := table.take(name)) is not None}
    for name, wanted in (("at_s", int | float), ("resumes_at", int), ("job_id", str)):
        if name in plan and (isinstance(plan[name], bool) or not isinstance(plan[name], wanted)):
            table.complain(name, f"must be {'text in quotes' if wanted is str else 'a number'}.")
            return []
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_JOBS):
        table.complain("count", f"must be a whole number from 1 to {MOST_JOBS}.")
        return []
    given = table.fields_of(JobSpec, leave=frozenset({"faults"}))
    if None in faults:
        return []
    spec = table.make(JobSpec, {**given, "faults": tuple(faults)}, required=("name",))
    if spec is None:
        return []
    _check_places(table, spec, cluster)
    planned = PlannedJob(spec=spec, **{"at_s": 0.0, **plan})
    if count is None:
        return [planned]
    width = len(str(count))
    return [replace(planned, spec=replace(spec, name=f"{spec.name}-{n:0{width}d}")) for n in range(1, count + 1)]


def _check_places(table: Table, spec: JobSpec, cluster: ClusterSpec | None) -> None:
    if cluster is None:
        return
    if cluster.partition(spec.partition) is None:
        known = ", ".join(partition.name for partition in cluster.partitions)
        table.complain("partition", f"there is no partition {spec.partition!r}; the cluster has {known}.")
    for fault in spec.faults:
        if fault.node:
            _check_nodes(table, (fault.node,), cluster, "fault.node")


def _check_nodes(table: Table, names: tuple[str, ...], cluster: ClusterSpec, field: str) -> None:
    known = {node.name for node in cluster.nodes}
    for name in sorted(set(names) - known):
        first, last = cluster.nodes[0].name, cluster.nodes[-1].name
        table.complain(field, f"there is no node {name!r}; they are called {first} to {last}.")


# --- what happens and who decides -------------------------------------------------------------------------------------
def _event(table: Table, cluster: ClusterSpec | None, jobs: tuple[PlannedJob, ...]) -> PlannedEvent | None:
    given = table.fields_of(PlannedEvent)
    event = table.make(PlannedEvent, given, required=("at_s", "do"))
    if event is None:
        return None
    for name in NEEDS[event.do]:
        if not getattr(event, name):
            table.complain(name, f"is missing; {event.do} needs it.")
    if event.job and event.job not in {planned.spec.name for planned in jobs}:
        table.complain("job", f"there is no job {event.job!r}; name one of the [[job]] tables.")
    if cluster is not None:
        _check_nodes(table, event.nodes, cluster, "nodes")
        racks = sorted({node.rack for node in cluster.nodes} - {""})
        if event.rack and event.rack not in racks:
            known = f"they are {', '.join(racks)}" if racks else "set cluster.per_rack"
            table.complain("rack", f"there is no rack {event.rack!r}; {known}.")
    return event


def _decision(table: Table) -> ScriptedDecision | None:
    decision = table.make(ScriptedDecision, table.fields_of(ScriptedDecision), required=("say",))
    if decision is None:
        return None
    if decision.say not in (DecisionKind.APPROVE, DecisionKind.REJECT):
        table.complain("say", "must be approve or reject.")
    if decision.say is DecisionKind.REJECT and not decision.reason.strip():
        table.complain("reason", "is missing; a rejection needs one.")
    return decision


def _policy(top: Table) -> dict[str, Any] | None:
    """Rules of recovery/core/policy.py, with the defaults for what is left out."""
    if not top.has("policy"):
        return None
    table = top.table("policy")
    rules = table.take("rule") or []
    breaker = table.take("breaker") or {}
    document = {
        "rules": rules,
        "default": {"mode": table.take("default") or DEFAULT_RULES["default"]["mode"]},
        "breaker": {**DEFAULT_RULES["breaker"], **breaker} if isinstance(breaker, dict) else breaker,
        "expires_after_s": table.take("expires_after_s") or DEFAULT_RULES["expires_after_s"],
    }
    table.end(("rule", "default", "breaker", "expires_after_s"))
    top.errors += [f"policy.{error.replace('rules[', 'rule[', 1)}" for error in check_rules(document)]
    return document


def _expectation(table: Table) -> Expectation | None:
    incidents = [
        t.make(ExpectedIncident, t.fields_of(ExpectedIncident, names={"failure_class": "class"}), required=("run",))
        for t in table.tables("incident")
    ]
    jobs = [t.make(ExpectedJob, t.fields_of(ExpectedJob), required=("name",)) for t in table.tables("job")]
    given = table.fields_of(Expectation, leave=frozenset({"incidents", "jobs"}))
    if None in incidents or None in jobs:
        return None
    return table.make(Expectation, {"incidents": tuple(incidents), "jobs": tuple(jobs), **given})
