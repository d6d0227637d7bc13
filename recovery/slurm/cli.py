"""The back end that runs Slurm's own commands: the surface that every release has in full.

Reads: `squeue --json` (jobs), `sinfo --json` (nodes), `sacct` as text (past attempts), `scontrol show config` (health).
Writes: `scontrol requeue`, `requeuehold`, `update … ExcNodeList=`, `release`.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from recovery.slurm import cli_json, command, sacct
from recovery.slurm.base import (
    AttemptRecord,
    Health,
    JobNotFound,
    JobRecord,
    NodeRecord,
    Operation,
    SlurmClient,
    SlurmRefused,
    SlurmUnreachable,
)
from recovery.slurm.command import Answer
from recovery.slurm.json_values import BadAnswer, clean
from recovery.slurm.names import check_job_id, check_node_names

T = TypeVar("T")

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin:/usr/local/sbin:/usr/sbin:/sbin"
DEFAULT_CRED_EXPIRE_S = 120  # slurm.conf(5), AuthInfo

_CONFIG = re.compile(r"^(\w+)\s*= ?(.*)$", re.MULTILINE)

_UNKNOWN_JOB = "Invalid job id specified"
# Slurm's own words (slurm_errno.c) for a clear no: it was reached and did nothing. Everything else that ends with an
# error is taken for no answer.
_REFUSALS = (
    "Job is pending execution",
    "Job is no longer pending execution",
    "Job has already finished",
    "Job/step already completing or completed",
    "Requested operation is presently disabled",
    "Access/permission denied",
    "Invalid user id",
    "Invalid node name specified",
    "Job not heterogeneous job leader",
    "Only batch jobs are accepted or processed",
    "Slurm accounting storage is disabled",
)
_PARTLY_DONE = ": No error"  # one line per task of an array, and at least one of them worked
_REFUSED_FOR_NOW = ("Job can not be altered now, try again later",)


class CliClient(SlurmClient):
    """One cluster, reached by its commands. Holds nothing but its configuration: any number may exist.

    `slurm_conf` is the cluster's slurm.conf ("": Slurm's own default place), `bin_dir` the folder of its commands (""
    looks in the usual places). It runs as whoever we are; that user needs operator rights in Slurm to requeue
    and change other users' jobs.
    """

    def __init__(self, *, slurm_conf: str = "", bin_dir: str = "", timeout_s: float = 10) -> None:
        self._slurm_conf = slurm_conf
        self._bin_dir = bin_dir
        self._timeout_s = timeout_s
        # Complete: nothing is inherited. Times in text are UTC and in Slurm's standard format.
        path = f"{bin_dir}:{SEARCH_PATH}" if bin_dir else SEARCH_PATH
        self._env = {"PATH": path, "LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
        if slurm_conf:
            self._env["SLURM_CONF"] = slurm_conf

    # --- reads -------------------------------------------------------------------------------------------------------

    def health(self) -> Health:
        """The controller answers `scontrol show config` itself, so an answer is a sign of life too."""
        started = time.monotonic()
        answer = self._run("scontrol", "show", "config")
        latency_s = time.monotonic() - started
        settings = dict(_CONFIG.findall(answer.output))
        release = settings.get("SLURM_VERSION", "")
        if not release:
            raise SlurmUnreachable("the answer names no SLURM_VERSION", tried=answer.tried)
        storage = settings.get("AccountingStorageType", "").strip()
        return Health(
            release=release.strip(),
            accounting=storage.endswith("slurmdbd"),
            requeue_delay_s=_cred_expire_s(settings.get("AuthInfo", "")) + 1.0,
            latency_s=latency_s,
        )

    def jobs(self) -> list[JobRecord]:
        # Releases after 22.05 leave ended jobs out unless asked; 22.05 gives everything whatever is asked.
        return self._parsed(self._run("squeue", "--json", "--all", "--states=all"), cli_json.parse_jobs)

    def job(self, job_id: str) -> JobRecord:
        """Read out of all jobs on 22.05, whose `squeue --json` ignores --jobs; later releases send the one."""
        check_job_id(job_id)
        answer = self._run("squeue", "--json", "--all", "--states=all", f"--jobs={job_id}")
        for record in self._parsed(answer, cli_json.parse_jobs):
            if record.job_id == job_id:
                return record
        raise JobNotFound("the controller knows no such job", tried=answer.tried, permanent=True)

    def attempts(self, job_ids: Sequence[str], *, since: datetime) -> dict[str, list[AttemptRecord]]:
        for job_id in job_ids:
            check_job_id(job_id)
        if not job_ids:
            return {}
        answer = self._run("sacct", *sacct.arguments(job_ids, since=since))
        found = self._parsed(answer, lambda output: {job: sacct.parse_attempts(output, job) for job in job_ids})
        return {job: attempts for job, attempts in found.items() if attempts}

    def nodes(self) -> list[NodeRecord]:
        # Releases after 22.05 answer in groups of alike nodes: --Node makes a group of each.
        return self._parsed(self._run("sinfo", "--json", "--all", "--Node"), cli_json.parse_nodes)

    # --- writes ------------------------------------------------------------------------------------------------------

    def requeue(self, job_id: str, *, hold: bool) -> None:
        """Slurm requeues a heterogeneous job as a whole, by its first component "4711+0"; others are refused.

        The id of an array, "4711", stands for all its tasks: the record of that id is one that waits, so a caller that
        requeues what runs or has ended never names it.
        """
        self._run(*_requeue(job_id, hold=hold))

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        """Slurm allows it for pending jobs only: SlurmRefused otherwise."""
        self._run(*_set_excluded_nodes(job_id, nodes))

    def release(self, job_id: str) -> None:
        self._run(*_release(job_id))

    def preview(self, operation: Operation, subject: str, *, nodes: tuple[str, ...] = (), value: str = "") -> str:
        """One of requeue, requeue_hold, set_excluded_nodes, release; KeyError for another word."""
        commands: dict[str, Callable[[], tuple[str, ...]]] = {
            "requeue": lambda: _requeue(subject, hold=False),
            "requeue_hold": lambda: _requeue(subject, hold=True),
            "set_excluded_nodes": lambda: _set_excluded_nodes(subject, nodes),
            "release": lambda: _release(subject),
        }
        return shlex.join(commands[operation]())

    # --- the door ----------------------------------------------------------------------------------------------------

    def _run(self, *argv: str) -> Answer:
        """The answer of a command that ended well; SlurmError otherwise."""
        if self._slurm_conf and not _is_file(self._slurm_conf):  # the commands would look for it for a minute
            message = f"there is no readable file {self._slurm_conf}: correct the cluster's slurm_conf option"
            raise SlurmUnreachable(message, tried=shlex.join(argv), permanent=True)
        program = str(Path(self._bin_dir) / argv[0]) if self._bin_dir else argv[0]
        answer = command.run([program, *argv[1:]], env=self._env, timeout_s=self._timeout_s)
        if answer.code != 0:
            raise _error(answer)
        return answer

    def _parsed(self, answer: Answer, parse: Callable[[str], T]) -> T:
        try:
            return parse(answer.output)
        except BadAnswer as error:
            raise SlurmUnreachable(f"the answer can't be used: {error}", tried=answer.tried) from error


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError:  # a folder on the way that we may not enter
        return False


def _requeue(job_id: str, *, hold: bool) -> tuple[str, ...]:
    check_job_id(job_id)
    leader, plus, offset = job_id.partition("+")
    if plus and offset != "0":
        message = f"{job_id} is one component of a heterogeneous job, which Slurm only requeues as a whole: {leader}+0"
        raise SlurmRefused(message, tried=f"requeue {job_id}", permanent=True)
    return ("scontrol", "requeuehold" if hold else "requeue", leader)


def _set_excluded_nodes(job_id: str, nodes: tuple[str, ...]) -> tuple[str, ...]:
    check_job_id(job_id)
    check_node_names(nodes, tried=f"exclude nodes of job {job_id}")
    return ("scontrol", "update", f"JobId={job_id}", f"ExcNodeList={','.join(nodes)}")


def _release(job_id: str) -> tuple[str, ...]:
    check_job_id(job_id)
    return ("scontrol", "release", job_id)


def _error(answer: Answer) -> SlurmRefused | SlurmUnreachable:
    words = clean(answer.errors.strip() or answer.output.strip())
    message = " ".join(words.split())[:500] or f"it ended with exit code {answer.code} and no word"
    if _PARTLY_DONE in words:
        return SlurmUnreachable(f"done for a part of the array only: {message}", tried=answer.tried)
    if _UNKNOWN_JOB in words:
        return JobNotFound(message, tried=answer.tried, permanent=True)
    if any(refusal in words for refusal in _REFUSALS):
        return SlurmRefused(message, tried=answer.tried, permanent=True)
    if any(refusal in words for refusal in _REFUSED_FOR_NOW):
        return SlurmRefused(message, tried=answer.tried)
    return SlurmUnreachable(message, tried=answer.tried)


def _cred_expire_s(auth_info: str) -> int:
    """A requeued job waits until the old job's credential has expired (slurmctld's job_mgr.c)."""
    found = re.search(r"cred_expire=(\d{1,6})", auth_info)
    return int(found[1]) if found else DEFAULT_CRED_EXPIRE_S
