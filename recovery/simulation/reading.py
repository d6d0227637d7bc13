"""A scenario file as a Scenario. Every error of the file is found in one go; each names the field and the remedy."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from recovery.core.comment import MAX_RESTARTS
from recovery.core.policy import AVOID_SUSPECTS, DEFAULT_RULES, check_rules
from recovery.core.types import Mode
from recovery.simulation.naming import Names, check_places
from recovery.simulation.scenario import (
    Deed,
    DeskSettings,
    Expectation,
    ExpectedIncident,
    ExpectedJob,
    ExpectedOutbreak,
    PlannedEvent,
    PlannedJob,
    Saying,
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
LEAST_POLL_S = 1.0
RULE_FIELDS = ("name", "classes", "mode", "max_restarts")
_JOB_ID = re.compile(r"[1-9][0-9]{0,9}")

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
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # ValueError also for a number of too many digits
        raise BadScenario([f"this is no TOML: {error}."]) from error
    return read_scenario(document)


def read_scenario(document: dict[str, Any]) -> Scenario:
    """Raises BadScenario."""
    errors: list[str] = []
    top = Table(document, "", errors)
    for_s = top.value("for_s", float, None)
    if for_s is not None and not 0 < for_s <= LONGEST_S:
        top.complain("for_s", f"must be more than 0 and at most {LONGEST_S:g} seconds.")
    cluster = _cluster(top)
    before = len(errors)
    jobs = _jobs(top.tables("job"), cluster, for_s)
    names = Names(cluster=cluster, jobs=jobs if len(errors) == before else None)
    given: dict[str, Any] = {
        "desk": _desk(top.table("desk")),
        "policy": _policy(top),
        "events": tuple(e for t in top.tables("event") if (e := _event(t, names, for_s)) is not None),
        "decisions": tuple(d for t in top.tables("decision") if (d := _decision(t, names)) is not None),
        "expect": _expectation(top.table("expect"), names),
    }
    given |= top.fields_of(Scenario, leave=frozenset({"for_s", "cluster", "jobs", *given}))
    given |= {} if for_s is None else {"for_s": for_s}
    made = top.make(Scenario, {"cluster": cluster, "jobs": jobs, **given})
    if made is None or errors:
        raise BadScenario(errors)
    return made


def _check_time(table: Table, at_s: float, for_s: float | None) -> None:
    """What lies behind the end would never happen."""
    if for_s is not None and at_s > for_s:
        table.complain("at_s", f"must be before the end; with for_s = {for_s:g} it never happens.")


def _made(table: Table, kind: type[Any], **extra: Any) -> Any:
    return table.make(kind, {**table.fields_of(kind, leave=frozenset(extra)), **extra})


def _desk(table: Table) -> DeskSettings | None:
    desk: DeskSettings | None = _made(table, DeskSettings)
    if desk is not None and desk.poll_s < LEAST_POLL_S:
        table.complain("poll_s", f"must be at least {LEAST_POLL_S:g}.")
    return desk


# --- the cluster ------------------------------------------------------------------------------------------------------
def _cluster(top: Table) -> ClusterSpec | None:
    seed = top.value("seed", int, 1)
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
    """`nodes` (how many), and what they are alike in; () where that is wrong."""
    numbers = {"nodes": 4, "gpus_per_node": 8, "per_rack": 0}
    least = {"nodes": 1, "gpus_per_node": 0, "per_rack": 0}
    for name in numbers:
        numbers[name] = number = table.value(name, int, numbers[name])
        if not least[name] <= number <= MOST_NODES:
            table.complain(name, f"must be a whole number from {least[name]} to {MOST_NODES}.")
            numbers[name] = -1
    features: tuple[str, ...] = table.value("features", tuple[str, ...], ())
    if min(numbers.values()) < 0:
        return ()
    return make_nodes(numbers["nodes"], gpus=numbers["gpus_per_node"], per_rack=numbers["per_rack"], features=features)


# --- jobs -------------------------------------------------------------------------------------------------------------
def _jobs(tables: list[Table], cluster: ClusterSpec | None, for_s: float | None) -> tuple[PlannedJob, ...]:
    jobs: list[PlannedJob] = []
    for table in tables:
        jobs += _job(table, cluster, for_s)
        if len(jobs) > MOST_JOBS:
            table.complain("count", f"makes more than {MOST_JOBS} jobs in all.")
            return ()
    return tuple(jobs)


def _job(table: Table, cluster: ClusterSpec | None, for_s: float | None) -> list[PlannedJob]:
    faults = [_made(fault, Fault) for fault in table.tables("fault")]
    count = table.value("count", int, None)
    plan = {
        "at_s": table.value("at_s", float, 0.0),
        "resumes_at": table.value("resumes_at", int, 0),
        "job_id": table.value("job_id", str, ""),
    }
    given = table.fields_of(JobSpec, leave=frozenset({"faults"}))
    if plan["job_id"] and not _JOB_ID.fullmatch(plan["job_id"]):
        table.complain("job_id", "must be a number in quotes.")
    if count is not None and not 1 <= count <= MOST_JOBS:
        table.complain("count", f"must be a whole number from 1 to {MOST_JOBS}.")
        count = None
    _check_time(table, plan["at_s"], for_s)
    if None in faults:
        return []
    spec = table.make(JobSpec, {**given, "faults": tuple(faults)})
    if spec is None:
        return []
    _check_wishes(table, spec)
    check_places(table, spec, cluster)
    return [PlannedJob(spec=one, **plan) for one in _copies(table, spec, count)]


def _copies(table: Table, spec: JobSpec, count: int | None) -> list[JobSpec]:
    if count is None:
        return [spec]
    width = len(str(count))
    try:
        return [replace(spec, name=f"{spec.name}-{n:0{width}d}") for n in range(1, count + 1)]
    except ValueError as error:  # the names have become too long
        table.complain("name", str(error))
        return []


def _check_wishes(table: Table, spec: JobSpec) -> None:
    """What the job's comment would ask of the desk in vain; `comment` itself may say anything."""
    if spec.mode and spec.mode not in list(Mode):
        table.complain("mode", f"must be one of {', '.join(Mode)}, not {spec.mode[:50]!r}.")
    if (spec.max_restarts or 0) > MAX_RESTARTS:
        table.complain("max_restarts", f"must be a whole number from 0 to {MAX_RESTARTS}.")


# --- what happens and who decides -------------------------------------------------------------------------------------
def _event(table: Table, names: Names, for_s: float | None) -> PlannedEvent | None:
    event: PlannedEvent | None = _made(table, PlannedEvent)
    if event is None:
        return None
    _check_time(table, event.at_s, for_s)
    for name in NEEDS[event.do]:
        if not getattr(event, name):
            table.complain(name, f"is missing; {event.do} needs it.")
    names.check_job(table, "job", event.job)
    names.check_nodes(table, "nodes", event.nodes)
    names.check_rack(table, "rack", event.rack)
    return event


def _decision(table: Table, names: Names) -> ScriptedDecision | None:
    decision: ScriptedDecision | None = _made(table, ScriptedDecision)
    if decision is None:
        return None
    if decision.say is Saying.REJECT and not decision.reason.strip():
        table.complain("reason", "is missing; a rejection needs one.")
    names.check_run(table, "run", decision.run)
    return decision


def _policy(top: Table) -> dict[str, Any] | None:
    """Rules of recovery/core/policy.py, with the defaults for what is left out."""
    there = top.has("policy")
    table = top.table("policy")
    document = {
        "rules": [rule.only(RULE_FIELDS) for rule in table.tables("rule")],
        "default": {"mode": table.take("default", DEFAULT_RULES["default"]["mode"])},
        "breaker": {**DEFAULT_RULES["breaker"], **table.table("breaker").only(tuple(DEFAULT_RULES["breaker"]))},
        "expires_after_s": table.take("expires_after_s", DEFAULT_RULES["expires_after_s"]),
        AVOID_SUSPECTS: table.take(AVOID_SUSPECTS, False),
    }
    table.end()
    for error in check_rules(document):
        shown = error.replace("rules[", "rule[", 1).replace("default.mode:", "default:", 1)
        table.errors.append(f"policy.{shown}")
    return document if there else None


def _expectation(table: Table, names: Names) -> Expectation | None:
    incidents = [_expected_incident(t, names) for t in table.tables("incident")]
    jobs = [_expected_job(t, names) for t in table.tables("job")]
    outbreaks = [_made(t, ExpectedOutbreak) for t in table.tables("outbreak")]
    given = table.fields_of(Expectation, leave=frozenset({"incidents", "jobs", "outbreaks"}))
    names.check_nodes(table, "suspects", given.get("suspects") or ())
    if None in (*incidents, *jobs, *outbreaks):
        return None
    lists = {"incidents": tuple(incidents), "jobs": tuple(jobs), "outbreaks": tuple(outbreaks)}
    return table.make(Expectation, {**lists, **given})


def _expected_incident(table: Table, names: Names) -> ExpectedIncident | None:
    expected = table.make(ExpectedIncident, table.fields_of(ExpectedIncident, names={"failure_class": "class"}))
    if expected is not None:
        names.check_run(table, "run", expected.run)
        names.check_nodes(table, "excluded", expected.excluded or ())
    return expected


def _expected_job(table: Table, names: Names) -> ExpectedJob | None:
    expected: ExpectedJob | None = _made(table, ExpectedJob)
    if expected is None:
        return None
    names.check_job(table, "name", expected.name)
    names.check_nodes(table, "not_on", expected.not_on)
    if expected.refused and expected != ExpectedJob(name=expected.name, refused=True):
        table.complain("refused", "is true: then nothing else can be expected of the job; leave the rest out.")
    return expected
