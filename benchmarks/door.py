"""Reading all jobs of a real Slurm by its commands, against the bare command in the same run."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.timing import timed
from recovery.demo import lab_host
from recovery.demo.lab import SlurmLab
from recovery.slurm import cli_squeue
from recovery.slurm.cli import CliClient

COUNTS = (2_000, 5_000, 10_000)
ROUNDS = 5
COMMENT = '{"recovery": {"run": "llama-70b", "checkpoint_dir": "/ckpt/llama-70b"}}'
_SUBMIT = (
    'seq {count} | xargs -P 6 -I{{}} sbatch --parsable --hold --nodes=2 --job-name="llama-{{}}" --comment="$COMMENT" '
    "--output=%x-%j.log --wrap='sleep 1' >/dev/null"
)


def run() -> dict[str, Any]:
    """Pending jobs only; figures by their number. Needs a real Slurm here, and two minutes."""
    reason = lab_host.why_impossible(accounting=False)
    if reason:
        return {"left_out": reason}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # munge wants it so
        lab = SlurmLab(Path(folder) / "lab", base_port=lab_host.free_base_port())
        try:
            return _measured(lab)
        finally:
            lab.wipe()


def _measured(lab: SlurmLab) -> dict[str, Any]:
    lab.up()
    with lab.conf.open("a") as conf:
        conf.write(f"MaxJobCount={2 * COUNTS[-1]}\n")
    lab.kill_controller()
    lab.start_controller()
    client = CliClient(slurm_conf=str(lab.conf), timeout_s=60)
    figures, there = {}, 0
    for count in COUNTS:
        env = lab.env | {"COMMENT": COMMENT}
        subprocess.run(["sh", "-c", _SUBMIT.format(count=count - there)], env=env, cwd=lab.root, check=True)
        there = count
        figures[str(count)] = _figures(lab, client, count)
    return figures


def _figures(lab: SlurmLab, client: CliClient, count: int) -> dict[str, Any]:
    found = client.jobs()
    if len(found) != count:
        raise RuntimeError(f"{len(found)} jobs instead of {count}")
    controller = int((lab.root / "run" / "slurmctld.pid").read_text().split()[0])
    bare = timed(lambda: _bare(lab), rounds=ROUNDS)
    json = timed(lambda: _output(lab, "squeue", "--json"), rounds=ROUNDS)
    before = _cpu_s(controller)
    own = _own_cpu_s(client.jobs)
    polled = timed(client.jobs, rounds=ROUNDS)
    per_poll = (_cpu_s(controller) - before) / (ROUNDS + 1)
    one = timed(lambda: client.job(found[count // 2].job_id), rounds=ROUNDS)
    mark = client.jobs_since("").mark
    unchanged = timed(lambda: client.jobs_since(mark), rounds=ROUNDS)
    return {
        "jobs_ms": round(polled.seconds * 1000),
        "jobs_times_command": round(polled.seconds / bare.seconds, 2),
        "jobs_unchanged_ms": round(unchanged.seconds * 1000),
        "job_ms": round(one.seconds * 1000, 1),
        "command_ms": round(bare.seconds * 1000),
        "command_json_ms": round(json.seconds * 1000),
        "own_cpu_ms": round(own * 1000),
        "slurmctld_cpu_ms": round(per_poll * 1000),
        "spread": round(polled.spread, 2),
    }


def _bare(lab: SlurmLab) -> None:
    """What squeue needs for the same question, and for the one beside it, without anybody reading its answers."""
    _output(lab, "squeue", *cli_squeue.OPTIONS, SQUEUE_FORMAT2=cli_squeue.format_of("~separator"))
    _output(lab, "squeue", *cli_squeue.OPTIONS, f"--format={cli_squeue.EXCLUDED_FORMAT}")


def _output(lab: SlurmLab, *argv: str, **env: str) -> bytes:
    return subprocess.run(argv, env=lab.env | env, capture_output=True, check=True).stdout


def _own_cpu_s(work: Callable[[], object]) -> float:
    before = _used_s()
    work()
    return _used_s() - before


def _used_s() -> float:
    """Of this process and of the commands that it ran."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
