"""Reading all jobs of a real Slurm by its commands, against the bare command in the same run."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.timing import Timing, timed
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
    """Times as seen on a clock, and processor time, which other work on the machine changes less."""
    found = client.jobs()
    if len(found) != count:
        raise RuntimeError(f"{len(found)} jobs instead of {count}")
    controller = int((lab.root / "run" / "slurmctld.pid").read_text().split()[0])
    bare, bare_cpu_s = _timed(lambda: _bare(lab))
    json, json_cpu_s = _timed(lambda: _output(lab, "squeue", "--json"))
    before = _cpu_s(controller)
    polled, polled_cpu_s = _timed(client.jobs)
    controller_cpu_s = (_cpu_s(controller) - before) / ROUNDS
    mark = client.jobs_since("").mark
    unchanged, unchanged_cpu_s = _timed(lambda: client.jobs_since(mark))
    one, _ = _timed(lambda: client.job(found[count // 2].job_id))
    return {
        "jobs_ms": _ms(polled.seconds),
        "jobs_cpu_ms": _ms(polled_cpu_s),
        "jobs_cpu_times_command": round(polled_cpu_s / bare_cpu_s, 2),
        "unchanged_ms": _ms(unchanged.seconds),
        "unchanged_cpu_ms": _ms(unchanged_cpu_s),
        "job_ms": _ms(one.seconds),
        "command_ms": _ms(bare.seconds),
        "command_cpu_ms": _ms(bare_cpu_s),
        "command_json_ms": _ms(json.seconds),
        "command_json_cpu_ms": _ms(json_cpu_s),
        "slurmctld_cpu_ms": _ms(controller_cpu_s),
        "spread": round(polled.spread, 2),
    }


def _timed(work: Callable[[], object]) -> tuple[Timing, float]:
    """The middle round, and the processor seconds of a round on average: ours and those of the commands."""
    before = _used_s()
    timing = timed(work, rounds=ROUNDS)
    return timing, (_used_s() - before) / ROUNDS


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _bare(lab: SlurmLab) -> None:
    """What squeue needs for the same question, and for the one beside it, without anybody reading its answers."""
    _output(lab, "squeue", *cli_squeue.OPTIONS, SQUEUE_FORMAT2=cli_squeue.format_of("~separator"))
    _output(lab, "squeue", *cli_squeue.OPTIONS, f"--format={cli_squeue.EXCLUDED_FORMAT}")


def _output(lab: SlurmLab, *argv: str, **env: str) -> bytes:
    return subprocess.run(argv, env=lab.env | env, capture_output=True, check=True).stdout


def _used_s() -> float:
    """Of this process and of the commands that it ran."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
