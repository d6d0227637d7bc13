"""Stands in for pyslurm where there is none: as much of it as native_child.py uses, with the same oddities.

SLURM_CONF names a JSON file that says what is there and what happens: {"at_import": "exit", "jobs": [{"id": 1, …}],
"on": {"Jobs.load": "hang"}}. What was changed is written beside it, a line each: FILE.done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SCENE = json.loads(Path(os.environ["SLURM_CONF"]).read_text(encoding="utf-8"))
DONE = Path(os.environ["SLURM_CONF"] + ".done")
__version__ = "25.11.2"
ESLURM_INVALID_JOB_ID = 2017
ESLURM_TRANSITION_STATE_NO_UPDATE = 2020
ESLURM_JOB_PENDING = 2024
SLURM_COMMUNICATIONS_CONNECTION_ERROR = 1800


class RPCError(Exception):
    def __init__(self, errno: int, words: str) -> None:
        super().__init__(words)
        self.errno = errno


def happens(where: str) -> None:
    what = SCENE.get("on", {}).get(where) or SCENE.get(where)
    if what == "exit":
        print("fatal: Could not establish a configuration source", file=sys.stderr, flush=True)
        os._exit(1)
    if what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "hang":
        time.sleep(600)
    if what == "talk":
        print("debug: words of a library on standard output", flush=True)
    if what == "garbage":
        os.write(3, b"\xff{not json\n")
    if what == "flood":
        os.write(3, b"x" * 300_000)
    if what == "break":
        raise AttributeError("no such thing in this release")
    if isinstance(what, list):
        raise RPCError(*what)


happens("at_import")


def done(*words: Any) -> None:
    happens(words[0])
    with DONE.open("a", encoding="utf-8") as file:
        file.write(json.dumps(words) + "\n")


class Job:
    NUMBERS = (
        *("array_id", "array_task_id", "array_tasks_waiting", "heterogeneous_id", "heterogeneous_offset"),
        *("time_limit", "exit_code", "exit_code_signal", "eligible_time", "start_time", "end_time"),
    )

    def __init__(self, **facts: Any) -> None:
        plain: dict[str, Any] = {"state": "RUNNING", "state_reason": "None", "requeue_count": 0, "is_requeueable": True}
        plain |= {"is_batch_job": True, "priority": 10, "submit_time": 1_795_000_000, "num_nodes": 1, "constraints": []}
        plain |= {"allocated_tres": None, "requested_tres": None, "gres_per_node": {}}
        self.__dict__.update(dict.fromkeys(self.NUMBERS) | plain | facts)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @property
    def name(self) -> str:
        return b"\xff\xfe".decode() if self.id == 666 else "train"

    @staticmethod
    def load(number: int) -> Job:
        happens("Job.load")
        found = [Job(**facts) for facts in SCENE.get("jobs", []) if number in (facts["id"], facts.get("array_id"))]
        if not found:
            raise RPCError(ESLURM_INVALID_JOB_ID, "Invalid job id specified")
        return found[0]

    def get_batch_script(self) -> str:
        return "#!/bin/sh\n"

    def requeue(self, hold: bool) -> None:
        done("requeue", self.id, hold)

    def release(self) -> None:
        done("release", self.id)

    def hold(self) -> None:
        done("hold", self.id)

    def cancel(self) -> None:
        done("cancel", self.id)

    def modify(self, change: JobSubmitDescription) -> None:
        done("modify", self.id, vars(change))


class Jobs:
    @staticmethod
    def load() -> dict[int, Job]:
        happens("Jobs.load")
        return {number: Job(**facts) for number, facts in enumerate(SCENE.get("jobs", []))}


class JobSubmitDescription(SimpleNamespace):
    pass


class Node(SimpleNamespace):
    def __init__(self, name: str = "", **change: Any) -> None:
        super().__init__(name=name, **change)

    def modify(self, change: Node) -> None:
        done("modify_node", self.name, {key: value for key, value in vars(change).items() if key != "name"})


class _Listed:
    """Nodes, Partitions or Reservations, as the scene has them."""

    def __init__(self, key: str) -> None:
        self.key = key

    def load(self) -> dict[int, SimpleNamespace]:
        happens(f"{self.key}.load")
        return {place: SimpleNamespace(**facts) for place, facts in enumerate(SCENE.get(self.key, []))}


Nodes, Partitions, Reservations = _Listed("nodes"), _Listed("partitions"), _Listed("reservations")


class _Config:
    @staticmethod
    def load() -> SimpleNamespace:
        happens("Config.load")
        plain: dict[str, Any] = {
            "version": "26.05.5",
            "cluster_name": "lab",
            "auth_info": ["cred_expire=5"],
            "min_job_age": 300,
        }
        plain |= {"accounting_storage_type": "accounting_storage/slurmdbd", "accounting_store_flags": ["JOB_COMMENT"]}
        return SimpleNamespace(**(plain | SCENE.get("config", {})))


slurmctld = SimpleNamespace(Config=_Config)
