"""A folder of shell scripts in the place of Slurm's commands: what they answer is said here, byte by byte."""

from __future__ import annotations

from pathlib import Path

from recovery.slurm.cli import CliClient
from recovery.slurm.cli_squeue import Row

COMMANDS = ("squeue", "sinfo", "sacct", "scontrol", "scancel", "sbatch", "sacctmgr")
SEPARATOR = "~separator~"  # stands in an answer where squeue would put the question's own

JOB = Row(
    raw_id="12",
    array_id="12",
    array_task="N/A",
    het_id="N/A",
    het_offset="N/A",
    state="RUNNING",
    reason="None",
    submitted="2026-11-24T09:00:00",
    restarts="0",
    priority="4294901759",
    requeue="1",
    eligible="2026-11-24T09:00:00",
    start="2026-11-24T09:00:05",
    end="2027-11-24T09:00:05",
    exit_code="0:0",
    nodes="gpu-[01-02]",
    node_count="2",
    tasks="2",
    required="",
    tres="cpu=2,node=2,billing=2,gres/gpu=16",
    tres_per_job="N/A",
    tres_per_node="gres/gpu:8",
    tres_per_task="N/A",
    time_limit="1-12:00:00",
    user="ada",
    uid="1000",
    account="lab",
    partition="gpu",
    qos="normal",
    batch="1",
    batch_host="gpu-01",
    reservation="(null)",
    features="(null)",
    name="train",
    comment="(null)",
    admin_comment="(null)",
    work_dir="/home/ada",
    stdout="slurm-%j.out",
    stderr="(null)",
    excluded="",
    unique_id="",
)


def squeue_answer(*rows: Row, separator: str = SEPARATOR) -> str:
    """What squeue prints for these jobs."""
    return "".join("".join(f"{field}{separator}" for field in row) + "\n" for row in rows)


class FakeSlurm:
    """`calls` is what the commands were called with, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "calls"

    def answers(self, body: str, *commands: str) -> None:
        """Each of these commands (or every one) does this; the rest goes on as it was told."""
        for name in commands or COMMANDS:
            script = self.folder / name
            script.write_text(f'#!/bin/sh\nprintf "%s\\0" {name} "$@" "" >>{self._log}\n{body}\n')
            script.chmod(0o755)

    def prints(self, text: str, *commands: str) -> None:
        """Each of these commands (or every one) prints this; squeue with the separator of its question in it."""
        answer = self.folder / f"answer-{'-'.join(commands) or 'all'}"
        answer.write_text(text)
        self.answers(
            f'separator=${{SQUEUE_FORMAT2%%,*}}\nexec sed "s/{SEPARATOR}/${{separator#JobID:0}}/g" {answer}', *commands
        )

    @property
    def calls(self) -> list[list[str]]:
        if not self._log.exists():
            return []
        return [call.split("\0") for call in self._log.read_text().removesuffix("\0\0").split("\0\0")]

    def client(self, *, timeout_s: float = 5) -> CliClient:
        return CliClient(bin_dir=str(self.folder), timeout_s=timeout_s)
