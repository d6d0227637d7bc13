"""The back end that speaks Slurm's own protocol through pyslurm, in a process of its own (native_process.py).

Jobs, nodes, partitions and everything that changes them go through pyslurm. Slurm's commands, where they are installed,
do what pyslurm can't (docs/pyslurm.md):
- past attempts: pyslurm shows the last one only (`sacct --duplicates`);
- topology: pyslurm has none (`scontrol`);
- submitting: pyslurm leaves out the #SBATCH lines that it doesn't know (`sbatch`);
- emptying an admin comment or a list of excluded nodes: pyslurm takes an empty text for "leave it" (`scontrol`);
- whose a job of a federation is (`squeue`);
- what pyslurm changes or leaves out of a job's record (native_records.is_doubtful: `squeue`);
- our rights (`sacctmgr`).
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from shutil import which
from typing import Any

from recovery.slurm.base import (
    YES,
    AttemptRecord,
    Can,
    Health,
    JobNotFound,
    JobRecord,
    JobsPicture,
    NodeRecord,
    NotSupported,
    Operation,
    PartitionRecord,
    ReservationRecord,
    Rights,
    SlurmClient,
    SlurmRefused,
    SlurmUnreachable,
    Submission,
)
from recovery.slurm.cli import CliClient
from recovery.slurm.cli_commands import SEARCH_PATH
from recovery.slurm.cli_federation import Told
from recovery.slurm.cli_json import job_record, with_ids
from recovery.slurm.cli_scontrol import DEFAULT_CRED_EXPIRE_S
from recovery.slurm.cli_writes import MAX_ADMIN_COMMENT, MAX_REASON, minutes
from recovery.slurm.federation import is_of_one
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.names import check_job_id, check_node_name, check_node_names, one_line, whole
from recovery.slurm.native_process import NativeProcess
from recovery.slurm.native_records import (
    completed,
    health_of,
    is_doubtful,
    node_of,
    partition_of,
    reservation_of,
)
from recovery.slurm.states import check_not_drained

# What Slurm's commands must do, and what there is to say where there are none.
_BY_COMMANDS: dict[Operation, tuple[str, str]] = {
    Operation.ATTEMPTS: ("sacct", "pyslurm shows the last attempt of a job only"),
    Operation.ENDED_BETWEEN: ("sacct", "pyslurm shows the last attempt of a job only"),
    Operation.TOPOLOGY: ("scontrol", "pyslurm does not tell which switch a node hangs on"),
    Operation.SUBMIT: ("sbatch", "pyslurm leaves out #SBATCH lines that it doesn't know"),
    Operation.REQUEUE_HOLD: ("squeue", "pyslurm can't tell whose hold a held requeue waits in"),
}
MANY_DOUBTFUL = 8  # more than so many are cheaper in a list of all


class NativeClient(SlurmClient):
    """One cluster, through pyslurm. Its process starts with the first question and ends with the client.

    `slurm_conf` is the cluster's slurm.conf ("": Slurm's own default place), `python` the interpreter that has pyslurm
    ("": the one that runs us), `bin_dir` the folder of Slurm's commands ("": the usual places).
    """

    def __init__(self, *, slurm_conf: str = "", bin_dir: str = "", python: str = "", timeout_s: float = 10) -> None:
        self._slurm_conf = slurm_conf
        self._path = f"{bin_dir}:{SEARCH_PATH}" if bin_dir else SEARCH_PATH
        # Complete: nothing is inherited.
        env = {"PATH": self._path, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        if slurm_conf:
            env["SLURM_CONF"] = slurm_conf
        self._process = NativeProcess(python=python or sys.executable, env=env, timeout_s=timeout_s)
        self._commands = CliClient(slurm_conf=slurm_conf, bin_dir=bin_dir, timeout_s=timeout_s)
        self._told: dict[tuple[str, datetime | None], JobRecord] = {}  # ended jobs as Slurm's commands show them

    def can(self, operation: Operation) -> Can:
        program, reason = _BY_COMMANDS.get(operation, ("", ""))
        if not program or self._has(program):
            return YES
        remedy = f"Install Slurm's commands on this machine ({program}), or name their folder: option bin_dir."
        return Can(yes=False, reason=f"{reason}, and there is no {program} here.", remedy=remedy)

    # --- reads -------------------------------------------------------------------------------------------------------

    def health(self) -> Health:
        started = time.monotonic()
        answer = self._ask("configuration", tried="read the configuration")
        latency_s = time.monotonic() - started
        told = self._commands.federation() if self._has("scontrol") else Told(None)
        with _whole("read the configuration"):
            found = health_of(answer, latency_s=latency_s, default_cred_expire_s=DEFAULT_CRED_EXPIRE_S)
        return dataclasses.replace(found, federation=told.name, siblings=told.siblings, unsynced=told.unsynced)

    def rights(self) -> Rights:
        return self._commands.rights()

    def jobs(self) -> list[JobRecord]:
        with _whole("list all jobs"):
            records = [job_record(entry) for entry in with_ids(self._list("jobs", tried="list all jobs"))]
        if any(is_of_one(record.raw_id) for record in records):
            return self._of_federation("list all jobs").jobs()
        ended = {(record.job_id, record.ended_at) for record in records}
        self._told = {key: told for key, told in self._told.items() if key in ended}
        return self._completed(records)

    def jobs_since(self, mark: str) -> JobsPicture:
        """Always all jobs: pyslurm gives no way to ask for changes."""
        return JobsPicture(jobs=self.jobs())

    def job(self, job_id: str) -> JobRecord:
        tried = f"look at job {job_id}"
        wanted = _wanted(job_id)
        if is_of_one(re.split(r"[_+]", job_id)[0]):
            return self._of_federation(tried).job(job_id)
        entry = self._ask("job", tried=tried, job=wanted)
        with _whole(tried):
            record = job_record(entry)
        return self._completed([record])[0]

    def attempts(self, job_ids: Sequence[str], *, since: datetime) -> dict[str, list[AttemptRecord]]:
        self._demand(Operation.ATTEMPTS)
        return self._commands.attempts(job_ids, since=since)

    def ended_between(self, start: datetime, end: datetime) -> list[JobRecord]:
        self._demand(Operation.ENDED_BETWEEN)
        return self._commands.ended_between(start, end)

    def nodes(self) -> list[NodeRecord]:
        with _whole("list all nodes"):
            found = [node_of(entry) for entry in self._list("nodes", tried="list all nodes")]
            if not found:
                raise BadAnswer("it names no node")
            return sorted(found, key=lambda node: node.name)

    def partitions(self) -> list[PartitionRecord]:
        with _whole("list all partitions"):
            return [partition_of(entry) for entry in self._list("partitions", tried="list all partitions")]

    def reservations(self) -> list[ReservationRecord]:
        with _whole("list all reservations"):
            return [reservation_of(entry) for entry in self._list("reservations", tried="list all reservations")]

    def topology(self) -> dict[str, str]:
        self._demand(Operation.TOPOLOGY)
        return self._commands.topology()

    def batch_script(self, job_id: str) -> str:
        return str(self._ask("batch_script", tried=f"read the script of job {job_id}", job=_wanted(job_id)))

    # --- writes ------------------------------------------------------------------------------------------------------

    def requeue(self, job_id: str, *, hold: bool) -> None:
        """Slurm requeues a heterogeneous job as a whole, by its first component "4711+0"; others are refused."""
        if hold:
            self._demand(Operation.REQUEUE_HOLD)
        self._ask("requeue", tried=f"requeue job {job_id}", **_requeued(job_id, hold=hold))

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        """Slurm allows it for pending jobs only: SlurmRefused otherwise."""
        request = _excluded(job_id, nodes)
        if nodes:
            self._ask("change", tried=f"exclude nodes of job {job_id}", **request)
        else:
            self._commands.set_excluded_nodes(job_id, ())

    def release(self, job_id: str) -> None:
        self._ask("release", tried=f"release job {job_id}", job=_wanted(job_id))

    def hold(self, job_id: str) -> None:
        self._ask("hold", tried=f"hold job {job_id}", job=_wanted(job_id))

    def cancel(self, job_id: str) -> None:
        self._ask("cancel", tried=f"cancel job {job_id}", job=_cancelled(job_id))

    def set_time_limit(self, job_id: str, seconds: float) -> None:
        self._ask("change", tried=f"set the time limit of job {job_id}", **_limited(job_id, seconds))

    def set_admin_comment(self, job_id: str, text: str) -> None:
        request = _commented(job_id, text)
        if one_line(text, MAX_ADMIN_COMMENT):
            self._ask("change", tried=f"set the admin comment of job {job_id}", **request)
        else:
            self._commands.set_admin_comment(job_id, "")

    def drain_node(self, name: str, reason: str) -> None:
        request = _drained(name, reason)
        check_not_drained(self.nodes(), name)
        self._ask("change_node", tried=f"drain node {name}", **request)

    def resume_node(self, name: str) -> None:
        self._ask("change_node", tried=f"resume node {name}", **_node(name, state="RESUME"))

    def submit(self, submission: Submission) -> str:
        self._demand(Operation.SUBMIT)
        return self._commands.submit(submission)

    def preview(self, operation: Operation, subject: str, *, nodes: tuple[str, ...] = (), value: str = "") -> str:
        """As pyslurm's own calls, or as the command where it is one of Slurm's."""
        emptied = (operation is Operation.SET_EXCLUDED_NODES and not nodes) or (
            operation is Operation.SET_ADMIN_COMMENT and not one_line(value, MAX_ADMIN_COMMENT)
        )
        if emptied or operation is Operation.SUBMIT:
            return self._commands.preview(operation, subject, nodes=nodes, value=value)
        requests: dict[Operation, tuple[str, Callable[[], Mapping[str, Any]]]] = {
            Operation.REQUEUE: ("requeue", lambda: _requeued(subject, hold=False)),
            Operation.REQUEUE_HOLD: ("requeue", lambda: _requeued(subject, hold=True)),
            Operation.SET_EXCLUDED_NODES: ("change", lambda: _excluded(subject, nodes)),
            Operation.RELEASE: ("release", lambda: {"job": _wanted(subject)}),
            Operation.HOLD: ("hold", lambda: {"job": _wanted(subject)}),
            Operation.CANCEL: ("cancel", lambda: {"job": _cancelled(subject)}),
            Operation.SET_TIME_LIMIT: ("change", lambda: _limited(subject, _number(value))),
            Operation.SET_ADMIN_COMMENT: ("change", lambda: _commented(subject, value)),
            Operation.DRAIN_NODE: ("change_node", lambda: _drained(subject, value)),
            Operation.RESUME_NODE: ("change_node", lambda: _node(subject, state="RESUME")),
        }
        if operation not in requests:
            raise NotSupported("it changes nothing", tried=f"preview {operation}", permanent=True)
        call, request = requests[operation]
        return _previewed(call, request(), subject)

    # --- the door ----------------------------------------------------------------------------------------------------

    def _ask(self, call: str, *, tried: str, **arguments: object) -> Any:
        if self._slurm_conf and not os.access(self._slurm_conf, os.R_OK):  # the library would look for it for a minute
            message = f"there is no readable file {self._slurm_conf}: correct the cluster's slurm_conf option"
            raise SlurmUnreachable(message, tried=_by(tried), permanent=True)
        return self._process.ask(call, arguments, tried=_by(tried))

    def _list(self, call: str, *, tried: str) -> list[Mapping[str, Any]]:
        entries = self._ask(call, tried=tried)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise BadAnswer("it is no list")
        return entries

    def _of_federation(self, tried: str) -> CliClient:
        """pyslurm doesn't tell whose a job of a federation is, and by an id it asks all of its clusters."""
        if not self._has("squeue"):
            message = "in a federation squeue must tell whose a job is: install Slurm's commands beside pyslurm"
            raise SlurmRefused(message, tried=tried, permanent=True)
        return self._commands

    def _completed(self, records: Sequence[JobRecord]) -> list[JobRecord]:
        """With what pyslurm doesn't tell (native_records.is_doubtful), asked of squeue; of an ended job once."""
        doubtful = {record.job_id: record for record in records if is_doubtful(record)}
        told = {name: self._told.get((name, record.ended_at)) for name, record in doubtful.items()}
        new = [name for name, answer in told.items() if answer is None]
        told |= self._ask_squeue(new) if new and self._has("squeue") else {}
        self._told |= {
            (name, answer.ended_at): answer for name, answer in told.items() if answer and answer.state.is_terminal
        }
        return [
            completed(record, told.get(record.job_id)) if record.job_id in doubtful else record for record in records
        ]

    def _ask_squeue(self, names: Sequence[str]) -> dict[str, JobRecord]:
        if len(names) > MANY_DOUBTFUL:
            return {record.job_id: record for record in self._commands.jobs()}
        found = {}
        for name in names:
            with suppress(JobNotFound):
                found[name] = self._commands.job(name)
        return found

    def _has(self, program: str) -> bool:
        return which(program, path=self._path) is not None

    def _demand(self, operation: Operation) -> None:
        can = self.can(operation)
        if not can:
            raise NotSupported(f"{can.reason} {can.remedy}", tried=_by(operation), permanent=True)


def _by(tried: str) -> str:
    return f"pyslurm: {tried}"


@contextmanager
def _whole(tried: str) -> Iterator[None]:
    """An answer that can't be used is none."""
    try:
        yield
    except BadAnswer as error:
        raise SlurmUnreachable(f"the answer can't be used: {error}", tried=_by(tried)) from error


def _wanted(job_id: str) -> dict[str, int]:
    """The job as the process is asked for it. Raises JobNotFound for what is no id."""
    check_job_id(job_id)
    for sign, part in (("_", "task"), ("+", "component")):
        number, found, place = job_id.partition(sign)
        if found:
            return {"id": int(number), part: int(place)}
    return {"id": int(job_id)}


def _requeued(job_id: str, *, hold: bool) -> dict[str, object]:
    whole(job_id, tried=_by(f"requeue {job_id}"))
    return {"job": _wanted(job_id), "hold": hold}


def _cancelled(job_id: str) -> dict[str, int]:
    """The first component's own number is the whole job's."""
    whole(job_id, tried=_by(f"cancel {job_id}"))
    return _wanted(job_id)


def _excluded(job_id: str, nodes: tuple[str, ...]) -> dict[str, object]:
    wanted = _wanted(job_id)
    check_node_names(nodes, tried=_by(f"exclude nodes of job {job_id}"))
    return {"job": wanted, "set": {"excluded_nodes": list(nodes)}}


def _limited(job_id: str, seconds: float) -> dict[str, object]:
    wanted = _wanted(job_id)
    return {"job": wanted, "set": {"time_limit": minutes(seconds, tried=_by(f"set the time limit of job {job_id}"))}}


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return math.nan


def _commented(job_id: str, text: str) -> dict[str, object]:
    return {"job": _wanted(job_id), "set": {"admin_comment": one_line(text, MAX_ADMIN_COMMENT)}}


def _drained(name: str, reason: str) -> dict[str, object]:
    words = one_line(reason, MAX_REASON)
    request = _node(name, state="DRAIN", reason=words)
    if not words:
        raise SlurmRefused("Slurm drains no node without a reason", tried=_by(f"drain node {name}"), permanent=True)
    return request


def _node(name: str, **change: str) -> dict[str, object]:
    check_node_name(name, tried=_by("change a node"))
    return {"node": name, "set": change}


def _previewed(call: str, request: Mapping[str, Any], subject: str) -> str:
    """A request as pyslurm's own call: "Job(4711).requeue(hold=True)"."""
    changes = request.get("set", {"hold": request["hold"]} if "hold" in request else {})
    words = ", ".join(f"{name}={value!r}" for name, value in changes.items())
    kind, verb = ("Node", "modify") if call == "change_node" else ("Job", "modify" if call == "change" else call)
    return f"pyslurm.{kind}({subject}).{verb}({words})"
