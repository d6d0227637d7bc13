"""The contract suite's harness over a real lab: everything by the lab's own commands and files."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from recovery.demo.lab import SlurmLab
from recovery.demo.lab_conf import LabError
from recovery.demo.processes import wait_until
from recovery.slurm.base import SlurmClient
from tests.slurm.harness import JobTruth, NodeTruth

LOG_SHOWN = 20_000  # bytes


class LabHarness:
    """Its time is real time. Whoever runs the lab is root, and so is `user`."""

    user = "root"

    def __init__(self, lab: SlurmLab, client: SlurmClient, folder: Path) -> None:
        self._lab = lab
        self._folder = folder
        self._jobs: list[str] = []
        self._reservations: list[str] = []
        self._client = client
        self._log = lab.root / "log" / "slurmctld.log"
        self._log_from = self._log.stat().st_size

    @property
    def client(self) -> SlurmClient:
        return self._client

    # --- jobs --------------------------------------------------------------------------------------------------------

    def submit(
        self,
        *,
        seconds: float,
        nodes: int = 1,
        exit_code: int = 0,
        requeue: bool = True,
        name: str = "train",
        comment: str = "",
        stdout: str = "",
    ) -> str:
        options = [f"--nodes={nodes}", "--exclusive", f"--job-name={name}", f"--comment={comment}"]
        options += ["--requeue" if requeue else "--no-requeue", *([f"--output={stdout}"] if stdout else [])]
        return self._submit(options, seconds=seconds, exit_code=exit_code)

    def submit_array(self, *, tasks: int, seconds: float) -> list[str]:
        job_id = self._submit([f"--array=0-{tasks - 1}"], seconds=seconds)
        names = [f"{job_id}_{task}" for task in range(tasks)]
        assert wait_until(lambda: self._run_now(job_id) == names, timeout_s=20), "the array does not start"
        return names

    def _run_now(self, job_id: str) -> list[str]:
        """The tasks of an array that run: each is a job of its own only when it starts."""
        return sorted(self._lab.run("squeue", "-h", "-t", "running", "-j", job_id, "-o", "%i").split())

    def submit_het(self, *, components: int, seconds: float) -> list[str]:
        options = ["--nodes=1", *(word for _ in range(components - 1) for word in (":", "--nodes=1"))]
        job_id = self._submit(options, seconds=seconds)
        return [f"{job_id}+{offset}" for offset in range(components)]

    def _submit(self, options: Sequence[str], *, seconds: float, exit_code: int = 0) -> str:
        script = f"#!/bin/sh\nsleep {seconds}\nexit {exit_code}\n"
        job_id = self._lab.submit(script, work_dir=self._folder, options=options)
        self._jobs.append(job_id)
        return job_id

    def cancel(self, job_id: str) -> None:
        self._lab.run("scancel", job_id)

    def user_hold(self, job_id: str) -> None:
        self._lab.run("scontrol", "uhold", job_id)

    def admin_hold(self, job_id: str) -> None:
        self._lab.run("scontrol", "hold", job_id)

    def admin_release(self, job_id: str) -> None:
        self._lab.run("scontrol", "release", job_id)

    def admin_requeue(self, job_id: str) -> None:
        self._lab.run("scontrol", "requeue", job_id)

    def job_truth(self, job_id: str) -> JobTruth | None:
        """By one `squeue --Format` for each field, so that no value can run into another."""
        try:
            fields = {name: self._field(job_id, name) for name in _TRUTH}
        except LabError:
            return None
        limit = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", fields["TimeLimit"])
        days, hours, minutes, seconds = (int(part or 0) for part in limit.groups()) if limit else (365, 0, 0, 0)
        return JobTruth(
            state=fields["State"],
            held=fields["PriorityLong"] == "0",
            restart_count=int(fields["RestartCnt"]),
            time_limit_s=None if days == 365 else ((days * 24 + hours) * 60 + minutes) * 60 + seconds,
            name=fields["Name"],
            user=fields["UserName"],
            account=fields["Account"],
            partition=fields["Partition"],
            comment=fields["Comment"],
            admin_comment=fields["admin_comment"],
            work_dir=fields["WorkDir"],
            excluded_nodes=_expanded(self._lab.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%x")),
        )

    def _field(self, job_id: str, name: str) -> str:
        value = self._lab.run("squeue", "-h", "-t", "all", "-j", job_id, "-O", f"{name}:0").removesuffix("\n")
        return "" if value == "(null)" else value

    def script_of(self, job_id: str) -> str:
        return (self._kept(job_id) / "script").read_bytes().removesuffix(b"\0").decode()

    def environment_of(self, job_id: str) -> Mapping[str, str]:
        """The file begins with a count that has no name."""
        content = (self._kept(job_id) / "environment").read_bytes().decode(errors="replace")
        found = (part.partition("=") for part in content.split("\0"))
        return {re.sub(r"^\W+", "", name): value for name, equals, value in found if equals}

    def _kept(self, job_id: str) -> Path:
        """Where slurmctld keeps what was submitted."""
        (folder,) = (self._lab.root / "state").glob(f"hash.*/job.{job_id}")
        return folder

    # --- nodes -------------------------------------------------------------------------------------------------------

    def admin_drain(self, name: str, reason: str) -> None:
        self._lab.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    def admin_resume(self, name: str) -> None:
        self._lab.run("scontrol", "update", f"NodeName={name}", "State=RESUME")

    def reserve(self, name: str, nodes: tuple[str, ...], *, maintenance: bool) -> None:
        flags = "MAINT" if maintenance else "SPEC_NODES"
        options = (f"Nodes={','.join(nodes)}", f"Users={self.user}", "StartTime=now", "Duration=60", f"Flags={flags}")
        self._lab.run("scontrol", "create", "reservation", f"ReservationName={name}", *options)
        self._reservations.append(name)

    def node_truth(self, name: str) -> NodeTruth:
        words = self._lab.run("sinfo", "-h", "-N", "-n", name, "-O", "StateComplete:0").strip().split("+")
        reason = self._lab.run("sinfo", "-h", "-N", "-n", name, "-O", "Reason:0").strip()
        reason = "" if reason == "none" else reason
        return NodeTruth(drained="drain" in words, down="down" in words, reason=reason)

    def switch_of(self, name: str) -> str:
        (leaf,) = [leaf for leaf, nodes in self._lab.spec.switches.items() if name in nodes]
        return leaf

    def fail_node(self, name: str) -> None:
        self._lab.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=power supply")

    def controller_log(self) -> str:
        """What slurmctld has written since this test began, the last of it."""
        with self._log.open("rb") as log:
            log.seek(self._log_from)
            return log.read()[-LOG_SHOWN:].decode(errors="replace")

    # --- time and the end --------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def close(self) -> None:
        """Whatever the test did to the nodes, and whatever the client submitted besides."""
        for name in self._reservations:
            self._lab.run("scontrol", "delete", f"ReservationName={name}")
        self._lab.run("scancel", "--user=root")
        assert wait_until(self._comes_to_rest, timeout_s=30), "the lab does not come to rest"

    def _comes_to_rest(self) -> bool:
        for name in self._lab.node_names:
            truth = self.node_truth(name)
            if truth.down or truth.drained:
                with suppress(LabError):  # it came back by itself in this moment
                    self.admin_resume(name)
        states = set(self._lab.run("sinfo", "-h", "-N", "-o", "%T").split())
        return states == {"idle"} and not self._lab.run("squeue", "-h", "-o", "%A").split()


_TRUTH = (
    *("State", "PriorityLong", "RestartCnt", "TimeLimit", "Name", "UserName", "Account", "Partition"),
    *("Comment", "admin_comment", "WorkDir"),
)


def _expanded(hostlist: str) -> tuple[str, ...]:
    """ "n[1-2],n4" of a lab, whose names are n and a number."""
    numbers: list[int] = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", hostlist):
        numbers += range(int(first), int(last or first) + 1)
    return tuple(f"n{number}" for number in numbers)
