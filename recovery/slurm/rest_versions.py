"""The versions of slurmrestd's API, one small step each: what it is the first to do, and what the next one changed.

Entries (a job, a node, …) are taken from the shape of the server's version to the newest one's, step by step; plain
numbers against {"set", "infinite", "number"} and states as text or list are told apart where they are read
(json_values.py), not here. Tried on real servers: v0.0.38 (Slurm 22.05), v0.0.38 and v0.0.39 (23.02), v0.0.40 …
v0.0.42 (24.11) and v0.0.42 … v0.0.45 (26.05).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from recovery.slurm.base import Operation

Entry = dict[str, Any]
Kind = Literal["job", "node", "partition", "reservation", "attempt"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One version. `steps` take an entry to the next version's shape; a kind without one has the same shape there.

    `adds` is what this version is the first to have. `ignores` names what the next version changed and we don't read:
    written down, so that a reader of Slurm's change log knows that it was seen.
    """

    name: str
    release: str  # the first Slurm that serves it
    adds: frozenset[Operation] = frozenset()
    steps: tuple[tuple[Kind, Callable[[Entry], Entry]], ...] = ()
    ignores: tuple[str, ...] = ()


def _partition_38(entry: Entry) -> Entry:
    """Flat, with -1 for an unlimited time. From 23.02 on in groups."""
    limit = entry.get("max_time_limit")
    unlimited = limit is None or (isinstance(limit, int) and limit < 0)
    return {
        "name": entry.get("name"),
        "nodes": {"configured": entry.get("nodes")},
        "partition": {"state": [entry.get("state")]},
        "flags": entry.get("flags"),
        "maximums": {"time": {"set": not unlimited, "infinite": unlimited, "number": 0 if unlimited else limit}},
    }


_READS = frozenset({Operation.JOBS, Operation.JOB, Operation.NODES, Operation.PARTITIONS, Operation.RESERVATIONS})
_FIRST_WRITES = frozenset({Operation.HOLD, Operation.RELEASE, Operation.CANCEL, Operation.SET_TIME_LIMIT})

STEPS: tuple[Step, ...] = (
    Step(
        name="v0.0.38",
        release="22.05",
        adds=_READS | _FIRST_WRITES,
        steps=(("partition", _partition_38),),
        ignores=(
            "slurmdb jobs: every exit code other than 0 reads as success, so attempts are not taken from it",
            "nodes: state_flags became a part of state, active_features a list; both are read as they come",
        ),
    ),
    Step(
        name="v0.0.39",
        release="23.02",
        adds=frozenset(
            {Operation.SET_EXCLUDED_NODES, Operation.SET_ADMIN_COMMENT, Operation.DRAIN_NODE, Operation.RESUME_NODE}
        ),
        ignores=(
            "job_state became a list",
            "jobs and nodes say when they were last changed (last_update)",
            "slurmdb jobs: every exit code other than 0 still reads as success",
            "a field that it does not know is passed over without a word: of ours it knows all",
        ),
    ),
    Step(
        name="v0.0.40",
        release="23.11",
        ignores=("slurmdb jobs: exit codes became objects with a signal",),
    ),
    Step(
        name="v0.0.41",
        release="24.05",
        ignores=(
            "jobs: minimum_switches, oversubscribe, exclusive and show_flags went, priority_by_partition came",
            "slurmdb jobs: restart_cnt came, without which an attempt that is missing would not be missed",
            "jobs/state, a shorter list of jobs, has too little for us",
        ),
    ),
    Step(
        name="v0.0.42",
        release="24.11",
        adds=frozenset({Operation.ATTEMPTS, Operation.ENDED_BETWEEN, Operation.BATCH_SCRIPT}),
        ignores=(
            "jobs: 25.05 gives the pattern as standard_output, with stdout_expanded beside it; both are understood",
            "jobs: licenses_allocated, segment_size, submit_line; nodes: cert_flags, tls_cert_last_renewal, topology",
        ),
    ),
    Step(name="v0.0.43", release="25.05", ignores=("jobs: step_id came: Slurm's unique id of a job is read from it",)),
    Step(
        name="v0.0.44",
        release="25.11",
        ignores=(
            "partitions: flags came: before, nothing says which partition is the default",
            "jobs: power went, container_type, memory_update_delay and memory_update_margin came",
            "nodes: power, external_sensors and tres_weighted went, suspend_time came; partitions: preempt_mode came",
        ),
    ),
    Step(
        name="v0.0.45",
        release="26.05",
        adds=frozenset({Operation.REQUEUE, Operation.REQUEUE_HOLD}),
        ignores=("jobs/requeue (several jobs at once), job/allocate, resources, new/node, licenses, shares",),
    ),
)

# What an older version can't, to go on "slurmrestd's API … can't".
LACKS: dict[Operation, str] = {
    Operation.ATTEMPTS: "tell all past attempts and how they ended",
    Operation.ENDED_BETWEEN: "tell how jobs ended that Slurm has forgotten",
    Operation.TOPOLOGY: "tell which switches topology.conf names",
    Operation.BATCH_SCRIPT: "give a job's script",
    Operation.REQUEUE: "put a job back into the queue",
    Operation.REQUEUE_HOLD: "put a job back into the queue",
    Operation.SET_EXCLUDED_NODES: "exclude nodes from a job",
    Operation.SET_ADMIN_COMMENT: "write an admin comment",
    Operation.DRAIN_NODE: "drain a node",
    Operation.RESUME_NODE: "resume a node",
    Operation.SUBMIT: "read a script's #SBATCH lines, so a job would get other nodes and limits than it asks for",
}
NEWEST_FIRST: tuple[str, ...] = tuple(step.name for step in reversed(STEPS))


@lru_cache(maxsize=len(STEPS))
def operations(version: str) -> frozenset[Operation]:
    """All that a version has."""
    return frozenset().union(*(step.adds for step in STEPS[: _place(version) + 1]))


def since(operation: Operation) -> Step | None:
    """The first version that has it; None where none has."""
    return next((step for step in STEPS if operation in step.adds), None)


def date(version: str, seconds: str) -> str:
    """How `update_time` is written. The first versions with a parser of their own take a bare number for no date: so
    does 24.11, the last release that serves them.
    """
    return f"uts{seconds}" if version in ("v0.0.40", "v0.0.41") else seconds


def asked_in(version: str, kind: Kind) -> str:
    """The version that is asked for entries of this kind: v0.0.39 leaves out whether a partition is up, and its
    releases serve v0.0.38 beside it.
    """
    return "v0.0.38" if (version, kind) == ("v0.0.39", "partition") else version


def is_at_least(version: str, other: str) -> bool:
    return _place(version) >= _place(other)


def newest_shape(version: str, kind: Kind, entries: list[Entry]) -> list[Entry]:
    """The entries of an answer in the shape of the newest version."""
    for step in STEPS[_place(version) :]:
        for own_kind, adapt in step.steps:
            if own_kind == kind:
                entries = [adapt(entry) for entry in entries]
    return entries


def _place(version: str) -> int:
    return next(place for place, step in enumerate(STEPS) if step.name == version)
