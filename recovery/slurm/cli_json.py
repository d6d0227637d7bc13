"""What `squeue --json` and `sinfo --json` say, in our words.

Slurm's JSON changed its shape between releases: 22.05 gives plain numbers (null: not set) and states as one string;
later ones give numbers as {"set", "infinite", "number"} and states as lists. Both are read here by what they look
like, not by release (tests/slurm/recorded holds answers of both). Strict where a wrong guess would act on the wrong
thing: one job without an essential field, or a word in `errors` (Slurm 22.05 answers so, with an empty list and exit
code 0, when its controller is down), and the whole answer counts as none.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from recovery.core.types import JobState
from recovery.slurm import federation, hostlist, job_paths
from recovery.slurm import json_values as values
from recovery.slurm.base import JobRecord, NodeRecord
from recovery.slurm.job_gpus import gpus_in_gres, gpus_of
from recovery.slurm.job_paths import PathFacts
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.names import user_name
from recovery.slurm.states import has_jobs, job_state, node_state, state_reason

Entry = TypeVar("Entry", bound=Mapping[str, Any])

YEAR_MINUTES = 365 * 24 * 60  # slurmctld's stand-in for an unlimited time limit once the job runs

_ESSENTIAL = (
    *("job_id", "job_state", "name", "submit_time", "start_time", "end_time", "restart_cnt", "priority", "requeue"),
    *("exit_code", "nodes", "excluded_nodes", "standard_output", "standard_error", "current_working_directory"),
)


def parse_jobs(answer: str) -> list[JobRecord]:
    """Every job of a `squeue --json` answer. Raises BadAnswer."""
    return [job_record(entry) for entry in with_ids(_entries(answer, "jobs"))]


def with_ids(entries: Iterable[Entry]) -> list[Entry]:
    """Without those whose id was taken away, since another cluster of a federation has the job."""
    return [e for e in entries if values.number(e, "job_id") or "REVOKED" not in values.words(e, "job_state")]


def reasons(answer: str) -> dict[str, str]:
    """The `state_reason` of every job by its raw id: squeue's text has a description in its place."""
    found = {}
    for entry in _entries(answer, "jobs"):
        words = (values.text(entry, "state_reason"), values.text(entry, "state_description"))
        found[str(values.number(entry, "job_id"))] = state_reason(*words)
    return found


def _entries(answer: str, *keys: str) -> list[dict[str, Any]]:
    """The list under the first of these keys that the answer has, and a whole one."""
    try:
        data = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"it is no whole JSON document ({error})") from error
    if not isinstance(data, dict):
        raise BadAnswer("it is not a JSON object")
    errors = data.get("errors")
    if errors:
        raise BadAnswer(f"Slurm reports {_errors(errors)}")
    entries = next((data[key] for key in keys if key in data), None)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadAnswer(f"it has no list of {' or '.join(keys)}")
    return entries


def _errors(errors: object) -> str:
    first = errors[0] if isinstance(errors, list) else errors
    if isinstance(first, dict):
        words = (first.get("description"), first.get("error"))
        return values.clean("; ".join(str(word) for word in words if word))[:300] or "an error without words"
    return values.clean(str(first))[:300]


# --- jobs ------------------------------------------------------------------------------------------------------------


def job_record(entry: Mapping[str, Any]) -> JobRecord:
    missing = [key for key in _ESSENTIAL if key not in entry]
    if missing:
        raise BadAnswer(f"job {entry.get('job_id', '?')} has no {', '.join(missing)}")
    raw_id, submitted = values.number(entry, "job_id"), values.time(entry, "submit_time")
    restarts = values.count(entry, "restart_cnt")
    if not raw_id or submitted is None or restarts is None:
        raise BadAnswer(f"job {raw_id or '?'} has no usable job_id, submit_time or restart_cnt")
    state = job_state(values.words(entry, "job_state"))
    exit_code, exit_signal = _exit(entry) if state.is_terminal else (None, None)
    node_list = _allocated(entry) if state is JobState.COMPLETING else values.nodes(entry, "nodes")
    node_count = len(node_list) or values.count(entry, "node_count") or 0
    user = _user(entry)
    stdout, stderr = _outputs(entry, raw_id=raw_id, user=user, nodes=node_list)
    waits = state is JobState.PENDING
    record = JobRecord(
        job_id=_job_id(entry, raw_id),
        raw_id=str(raw_id),
        name=values.text(entry, "name"),
        user=user,
        state=state,
        submitted_at=submitted,
        state_reason=state_reason(values.text(entry, "state_reason"), values.text(entry, "state_description")),
        account=values.text(entry, "account"),
        partition=values.text(entry, "partition"),
        restart_count=restarts,
        requeueable=values.flag(entry, "requeue"),
        held=waits and values.number(entry, "priority") == 0,
        eligible_at=values.time(entry, "eligible_time"),
        started_at=None if waits else values.time(entry, "start_time"),  # of a waiting job: an estimate
        ended_at=values.time(entry, "end_time") if state.is_terminal else None,  # of a running job: when its limit ends
        exit_code=exit_code,
        exit_signal=exit_signal,
        nodes=node_list,
        node_count=node_count,
        excluded_nodes=values.nodes(entry, "excluded_nodes"),
        required_nodes=values.nodes(entry, "required_nodes"),
        gpus=gpus_of(entry, node_count=node_count),
        time_limit_s=_time_limit(entry),
        comment=values.text(entry, "comment"),
        work_dir=values.text(entry, "current_working_directory"),
        stdout=stdout,
        stderr=stderr,
        batch_host=values.text(entry, "batch_host"),
        qos=values.text(entry, "qos"),
        features=values.text(entry, "features"),
        reservation=values.text(entry, "resv_name"),
        admin_comment=values.text(entry, "admin_comment"),
        unique_id=_unique_id(entry),
    )
    return federation.placed(record, place_of(entry))


def place_of(entry: Mapping[str, Any]) -> federation.Place:
    here, origin = values.text(entry, "cluster"), values.text(entry, "federation_origin")
    return federation.Place(here=here, origin=origin, active=values.text(entry, "federation_siblings_active"))


def _unique_id(entry: Mapping[str, Any]) -> str:
    step = entry.get("step_id")
    return values.text(step, "sluid") if isinstance(step, dict) else ""


def _allocated(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """All nodes of a job that is ending: its own list shrinks, first of all by the node that was lost."""
    resources = entry.get("job_resources")
    listed = resources.get("nodes") if isinstance(resources, dict) else None
    if isinstance(listed, dict):  # 22.05 has the list itself here, 26.05 a summary that holds it
        listed = listed.get("list")
    all_nodes = values.nodes({"nodes": listed}, "nodes") if isinstance(listed, str) else ()
    return all_nodes or values.nodes(entry, "nodes")


def _job_id(entry: Mapping[str, Any], raw_id: int) -> str:
    """ "4711", "4711_3" for an array task, "4711+1" for a component of a heterogeneous job: as Slurm writes them.

    The tasks of an array that were never started share one record, whose id is the array's own, "4711"; each gets a
    record of its own, "4711_3", when it starts.
    """
    array_id, task = values.number(entry, "array_job_id"), _array_task(entry)
    if array_id and task is not None:
        return f"{array_id}_{task}"
    het_id = values.number(entry, "het_job_id")
    if het_id:
        return f"{het_id}+{values.number(entry, 'het_job_offset') or 0}"
    return str(raw_id)


def _array_task(entry: Mapping[str, Any]) -> int | None:
    """The number of a task; None for what is none, and for several that wait together ("3-9").

    The last one that waits may have its number in the list alone.
    """
    task, waiting = values.number(entry, "array_task_id"), entry.get("array_task_string")
    if task is None and isinstance(waiting, str) and waiting.isascii() and waiting.isdigit() and len(waiting) < 10:
        return int(waiting)
    return task


def _exit(entry: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Exit code and signal (None: no signal). 22.05 gives a raw wait status, later releases an object."""
    value = entry["exit_code"]
    if isinstance(value, dict) and "return_code" in value:
        signal = value.get("signal")
        number = values.number(signal, "id" if "id" in signal else "signal_id") if isinstance(signal, dict) else None
        return (values.number(value, "return_code") or 0) & 0xFF, ((number or 0) & 0x7F) or None
    status = values.number(entry, "exit_code")
    if status is None:
        return None, None
    return (status >> 8) & 0xFF, (status & 0x7F) or None


def _time_limit(entry: Mapping[str, Any]) -> float | None:
    minutes = values.number(entry, "time_limit")
    return None if minutes in (None, 0, YEAR_MINUTES) else float(minutes or 0) * 60


def _outputs(entry: Mapping[str, Any], *, raw_id: int, user: str, nodes: tuple[str, ...]) -> tuple[str, str]:
    """Paths of stdout and stderr; "" for a stderr that goes where stdout goes, and where there is no single file."""
    array_id, task = values.number(entry, "array_job_id") or 0, _array_task(entry)
    no_single_file = array_id and task is None
    if no_single_file or not values.flag(entry, "batch_flag"):
        return "", ""
    facts = PathFacts(
        raw_id=raw_id,
        array_id=array_id,
        array_task=task,
        name=values.text(entry, "name"),
        user=user,
        node=values.text(entry, "batch_host") or (nodes[0] if nodes else ""),
        work_dir=values.text(entry, "current_working_directory"),
    )
    out_pattern = values.text(entry, "standard_output") or job_paths.default_pattern(facts)
    stdout, stderr = values.text(entry, "stdout_expanded"), values.text(entry, "stderr_expanded")
    if not stdout or (task is not None and values.number(entry, "array_task_id") is None):  # Slurm has no number for it
        stdout, stderr = job_paths.expand(out_pattern, facts), ""
    stderr = stderr or job_paths.expand(values.text(entry, "standard_error"), facts)
    return stdout, "" if stderr == stdout else stderr


def _user(entry: Mapping[str, Any]) -> str:
    name, uid = values.text(entry, "user_name"), values.number(entry, "user_id")
    if name or uid is None:
        return name
    return user_name(uid)


# --- nodes -----------------------------------------------------------------------------------------------------------


def parse_nodes(answer: str) -> list[NodeRecord]:
    """Every node of a `sinfo --json` answer, by name. Raises BadAnswer.

    22.05 lists nodes; later releases list groups of alike nodes per partition under "sinfo".
    """
    found: dict[str, NodeRecord] = {}
    for entry in _entries(answer, "nodes", "sinfo"):
        for record in _group(entry) if "nodes" in entry else [node_record(entry)]:
            known = found.get(record.name)
            found[record.name] = record if known is None else _in_more_partitions(known, record)
    return sorted(found.values(), key=lambda record: record.name)


def node_record(entry: Mapping[str, Any]) -> NodeRecord:
    name = values.text(entry, "name")
    if not hostlist.is_node_name(name) or "state" not in entry:
        raise BadAnswer(f"a node has no usable name or state ({values.clean(str(entry))[:200]})")
    words = values.words(entry, "state") + values.words(entry, "state_flags")
    partitions = entry.get("partitions")
    return NodeRecord(
        name=name,
        state=node_state(words),
        partitions=tuple(values.clean(str(name)) for name in partitions) if isinstance(partitions, list) else (),
        raw_state="+".join(words),
        reason=values.text(entry, "reason"),
        reason_by=values.text(entry, "reason_set_by_user"),
        reason_at=values.time(entry, "reason_changed_at"),
        features=_features(entry.get("active_features")),
        gpus=gpus_in_gres(values.text(entry, "gres")),
        switch=_leaf(values.text(entry, "topology")),
        jobs_on_it=has_jobs(words),
    )


def _leaf(topology: str) -> str | None:
    """ "tree:sw-root:sw-3": a topology's name and its units down to the leaf; of several topologies the first.

    Behind a ring's name a node's place in it follows ("ring:ring1:2"). Only what slurm.conf says of the node itself
    stands here; what topology.conf or topology.yaml says of it does not (tried on 26.05).
    """
    _, *units = topology.partition(",")[0].split(":")
    names = [unit for unit in units if not unit.isdigit()] or units[:1]
    return names[-1].strip() or None if names else None


def _features(value: object) -> tuple[str, ...]:
    """ "h100,ib" or ["h100", "ib"]: releases and surfaces differ."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(values.clean(str(part)).strip() for part in parts if str(part).strip())


def _group(entry: Mapping[str, Any]) -> list[NodeRecord]:
    """The nodes of one group. `sinfo -N` makes one group of each node and partition."""
    inner = {key: value if isinstance(value, dict) else {} for key, value in entry.items()}
    names = inner["nodes"].get("nodes")
    if not isinstance(names, list) or "state" not in inner.get("node", {}):
        raise BadAnswer("a group of nodes has no names or no state")
    partition, reason = values.text(inner.get("partition", {}), "name"), inner.get("reason", {})
    alike = {
        "state": inner["node"]["state"],
        "partitions": [partition] if partition else [],
        "reason": values.text(reason, "description"),
        "reason_set_by_user": values.text(entry, "reason_set_by_user") or values.text(reason, "user"),  # 26.05, 24.11
        "reason_changed_at": reason.get("time"),
        "active_features": inner.get("features", {}).get("active"),
        "gres": values.text(inner.get("gres", {}), "total"),
    }
    return [node_record({**alike, "name": name}) for name in names]


def _in_more_partitions(known: NodeRecord, record: NodeRecord) -> NodeRecord:
    return dataclasses.replace(known, partitions=tuple(dict.fromkeys(known.partitions + record.partitions)))
