"""Talks to Slurm through pyslurm for one NativeClient: a request a line on standard input, an answer a line back.

A program of its own, run by its path: the library behind pyslurm ends the process where there is no configuration, and
may crash it. Standard library and pyslurm only, so that it runs under any Python that has pyslurm.

    {"number": 1, "call": "requeue", "job": {"id": 4711}, "hold": true}
    {"number": 1, "answer": null}
    {"number": 1, "error": {"code": 2024, "name": "ESLURM_JOB_PENDING", "words": "Job is pending execution"}}

The first line, {"ready": "25.11.2"} or {"failed": words}, is written once pyslurm is loaded. Jobs are told in the words
of Slurm's own JSON (as `squeue --json` of 22.05 has them), so that one parser reads them all.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO

UNKNOWN_JOB = "ESLURM_INVALID_JOB_ID"
_ENDED = frozenset(
    {
        *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL"),
        *("PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED"),
    }
)
_HELD_BY_REQUEUE = "job requeued in held state"  # slurmctld's description; pyslurm shows it instead of the reason
_UNNAMED_ERRORS = {2180: "ESLURM_INVALID_NODE_STATE_TRANSITION", 2181: "ESLURM_INVALID_JOB_STATE"}  # slurm_errno.h

Request = Mapping[str, Any]


class NoSuchJob(Exception):
    """Slurm's list holds no such task of an array or component of a heterogeneous job."""


class AlreadyEnded(Exception):
    """pyslurm takes the cancelling of an ended job for a success."""


# --- reading attributes ----------------------------------------------------------------------------------------------


def text(thing: Any, name: str) -> str:
    """An attribute as text, "" for None. What a user wrote may hold bytes that are no UTF-8."""
    try:
        value = getattr(thing, name)
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")
    return "" if value is None else str(value)


def texts(thing: Any, name: str) -> list[str]:
    return [str(value) for value in getattr(thing, name) or ()]


def gpus_of(job: Any) -> dict[str, str]:
    """The first of Slurm's own texts that counts GPUs, by its key: each costs pyslurm a lot to take apart."""
    for key, name in (("tres_alloc_str", "allocated_tres"), ("tres_req_str", "requested_tres")):
        resources = getattr(job, name)
        counted = resources.gres.items() if resources else ()
        found = ",".join(f"gres/{kind}={int(gres.count)}" for kind, gres in counted if kind.partition(":")[0] == "gpu")
        if found:
            return {key: found}
    return {"tres_per_node": ",".join(f"{kind}:{count}" for kind, count in (job.gres_per_node or {}).items())}


def gpu_count(configured: Mapping[str, Any]) -> int:
    """The GPUs in pyslurm's table of a node's resources: {"gpu:a100": 8, "shard": 64}."""
    return sum(int(count) for kind, count in configured.items() if kind.partition(":")[0] == "gpu")


def array_task(job: Any) -> int | None:
    """None outside of an array, and for the one record of all the tasks that wait. pyslurm shows task 0 as None."""
    if job.array_id is None or job.array_tasks_waiting is not None:
        return None
    return int(job.array_task_id or 0)


def describe_job(job: Any) -> dict[str, Any]:
    reason = text(job, "state_reason")
    requeued = reason == _HELD_BY_REQUEUE
    component = None if job.heterogeneous_id is None else job.heterogeneous_offset or 0
    return {
        "job_id": job.id,
        "array_job_id": job.array_id or 0,
        "array_task_id": array_task(job),
        "het_job_id": job.heterogeneous_id or 0,
        "het_job_offset": component,
        "name": text(job, "name"),
        "user_id": job.user_id,
        "account": text(job, "account"),
        "partition": text(job, "partition"),
        "qos": text(job, "qos"),
        "job_state": text(job, "state"),
        "state_reason": "JobHeldUser" if requeued else reason,
        "state_description": reason if requeued else "",
        "restart_cnt": job.requeue_count,
        "requeue": bool(job.is_requeueable),
        "batch_flag": bool(job.is_batch_job),
        "priority": job.priority,
        "submit_time": job.submit_time or 0,
        "eligible_time": job.eligible_time or 0,
        "start_time": job.start_time or 0,
        "end_time": job.end_time or 0,
        "exit_code": (job.exit_code or 0) << 8 | (job.exit_code_signal or 0),
        "nodes": text(job, "allocated_nodes"),
        "node_count": job.num_nodes,
        "excluded_nodes": text(job, "excluded_nodes"),
        "required_nodes": text(job, "required_nodes"),
        "batch_host": text(job, "batch_host"),
        "features": ",".join(texts(job, "constraints")),
        "resv_name": text(job, "reservation"),
        **gpus_of(job),
        "time_limit": job.time_limit,
        "comment": text(job, "comment"),
        "admin_comment": text(job, "admin_comment"),
        "current_working_directory": text(job, "working_directory"),
        "standard_output": "",
        "standard_error": "",
        "stdout_expanded": text(job, "standard_output"),
        "stderr_expanded": text(job, "standard_error"),
    }


def describe_node(node: Any) -> dict[str, Any]:
    return {
        "name": text(node, "name"),
        "state": text(node, "state"),
        "partitions": texts(node, "partitions"),
        "reason": text(node, "reason"),
        "reason_set_by_user": text(node, "reason_user"),
        "reason_changed_at": node.reason_time or 0,
        "features": texts(node, "active_features"),
        "gpus": gpu_count(node.configured_gres or {}),
    }


def describe_partition(partition: Any) -> dict[str, Any]:
    limit = partition.max_time  # minutes, or pyslurm's word for none
    return {
        "name": text(partition, "name"),
        "state": text(partition, "state"),
        "nodes": text(partition, "nodes"),
        "default": bool(partition.is_default),
        "max_minutes": limit if isinstance(limit, int) else None,
    }


def describe_reservation(reservation: Any) -> dict[str, Any]:
    return {
        "name": text(reservation, "name"),
        "nodes": text(reservation, "nodes"),
        "start_time": reservation.start_time or 0,
        "end_time": reservation.end_time or 0,
        "users": texts(reservation, "users"),
        "accounts": texts(reservation, "accounts"),
        "maintenance": "MAINTENANCE" in str(reservation.flags),
    }


def describe_configuration(config: Any) -> dict[str, Any]:
    return {
        "release": text(config, "version"),
        "cluster_name": text(config, "cluster_name"),
        "storage": text(config, "accounting_storage_type"),
        "store_flags": texts(config, "accounting_store_flags"),
        "auth_info": texts(config, "auth_info"),
        "min_job_age": config.min_job_age,
    }


# --- calls -----------------------------------------------------------------------------------------------------------


class Calls:
    """One method for each call of a request. Whatever pyslurm raises goes through."""

    def __init__(self, pyslurm: Any) -> None:
        self._slurm = pyslurm

    def configuration(self, request: Request) -> object:
        return describe_configuration(self._slurm.slurmctld.Config.load())

    def jobs(self, request: Request) -> object:
        return [describe_job(job) for job in self._slurm.Jobs.load().values()]

    def job(self, request: Request) -> object:
        return describe_job(self._find(request["job"]))

    def nodes(self, request: Request) -> object:
        return [describe_node(node) for node in self._slurm.Nodes.load().values()]

    def partitions(self, request: Request) -> object:
        return [describe_partition(partition) for partition in self._slurm.Partitions.load().values()]

    def reservations(self, request: Request) -> object:
        return [describe_reservation(found) for found in self._slurm.Reservations.load().values()]

    def batch_script(self, request: Request) -> object:
        return text_of(self._find(request["job"]).get_batch_script)

    def requeue(self, request: Request) -> None:
        self._find(request["job"]).requeue(hold=request["hold"])

    def release(self, request: Request) -> None:
        self._find(request["job"]).release()

    def hold(self, request: Request) -> None:
        self._find(request["job"]).hold()

    def cancel(self, request: Request) -> None:
        job = self._find(request["job"])
        if text(job, "state") in _ENDED:
            raise AlreadyEnded
        job.cancel()

    def change(self, request: Request) -> None:
        """`set`: excluded_nodes (a list that is not empty), time_limit (minutes) or admin_comment."""
        self._find(request["job"]).modify(self._slurm.JobSubmitDescription(**request["set"]))

    def change_node(self, request: Request) -> None:
        self._slurm.Node(request["node"]).modify(self._slurm.Node(**request["set"]))

    def _find(self, wanted: Mapping[str, Any]) -> Any:
        """The job {"id"}, the task {"id", "task"} of an array or the component {"id", "component"}.

        Slurm numbers tasks and components on its own; the last task that starts takes the array's number. So the
        record that Slurm gives for a number is only the one that was meant where it is neither.
        """
        if "task" not in wanted and "component" not in wanted:
            job = self._slurm.Job.load(wanted["id"])
            if _matches(job, wanted):
                return job
        found = next((job for job in self._slurm.Jobs.load().values() if _matches(job, wanted)), None)
        if found is None:
            raise NoSuchJob
        return found


def _matches(job: Any, wanted: Mapping[str, Any]) -> bool:
    if "component" in wanted:
        return bool(job.heterogeneous_id == wanted["id"] and (job.heterogeneous_offset or 0) == wanted["component"])
    if job.heterogeneous_id is not None:
        return False
    number = job.array_id if "task" in wanted else job.id
    return bool(number == wanted["id"] and array_task(job) == wanted.get("task"))


def text_of(read: Callable[[], object]) -> str:
    """What a call gives, as text."""
    try:
        return str(read() or "")
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")


# --- the line protocol -----------------------------------------------------------------------------------------------


def error_names(pyslurm: Any) -> dict[int, str]:
    """Slurm's names of its error numbers, as pyslurm was compiled, and those that pyslurm leaves out."""
    found = ((getattr(pyslurm, name), name) for name in dir(pyslurm) if name.startswith(("ESLURM_", "SLURM_")))
    return _UNNAMED_ERRORS | {number: name for number, name in found if isinstance(number, int)}


def answer(calls: Calls, request: Request, names: Mapping[int, str], rpc_error: type[Exception]) -> dict[str, Any]:
    number = request["number"]
    try:
        return {"number": number, "answer": getattr(calls, request["call"])(request)}
    except NoSuchJob:
        error = {"code": 0, "name": UNKNOWN_JOB, "words": "the controller knows no such job"}
    except AlreadyEnded:
        error = {"code": 0, "name": "ESLURM_ALREADY_DONE", "words": "the job has ended already"}
    except rpc_error as failed:
        code = int(getattr(failed, "errno", None) or 0)
        error = {"code": code, "name": names.get(code, ""), "words": str(failed)}
    except Exception as failed:  # noqa: BLE001 (this process has nobody else to tell; the other side knows no answer)
        error = {"code": 0, "name": "", "words": f"{type(failed).__name__}: {failed}"}
    return {"number": number, "error": error}


def requests(source: Iterable[str]) -> Iterator[Request]:
    return (json.loads(line) for line in source)


def serve(source: Iterable[str], say: Callable[[Mapping[str, Any]], None]) -> None:
    try:
        import pyslurm  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415 (it reads the configuration, and may end the process)
    except ImportError as error:
        say({"failed": f"{type(error).__name__}: {error}"})
        return
    say({"ready": str(pyslurm.__version__)})
    calls, names = Calls(pyslurm), error_names(pyslurm)
    for request in requests(source):
        say(answer(calls, request, names, pyslurm.RPCError))


def main() -> None:
    own_folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (before anything else is loaded)
    if sys.path and sys.path[0] == own_folder:  # our neighbours are no library of pyslurm's
        del sys.path[0]
    # Libraries write to standard output as they please: the answers get a way of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    serve(sys.stdin, lambda line: _write(answers, line))


def _write(answers: TextIO, line: Mapping[str, Any]) -> None:
    json.dump(line, answers)
    answers.write("\n")
    answers.flush()


if __name__ == "__main__":
    main()
