"""The scenario of ten thousand jobs at a time: ten virtual minutes of the whole path, poll and all.

In a process of its own, as its memory is part of the figure. `held` tells that it came out as the scenario expects.

`python -m benchmarks.ten_thousand [JOBS [VIRTUAL_S]]` plays it with so many jobs for so long, and tells twice a virtual
minute what it has cost so far: seconds of CPU by stage of the desk, and memory.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from recovery.simulation.scenario import Scenario

TOP = Path(__file__).parents[1]
FILE = TOP / "scenarios" / "large" / "ten-thousand.toml"
TOLD_EVERY = 30  # virtual seconds


def run() -> dict[str, object]:
    """All of it; progress goes to standard error."""
    command = [sys.executable, "-m", "benchmarks.ten_thousand"]
    played = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False)
    told: dict[str, object] = json.loads(played.stdout)
    return told


def with_fewer(scenario: Scenario, jobs: int) -> Scenario:
    """With `jobs` jobs, among them all that something happens to, and without the nodes that the others would need."""
    healthy = [job for job in scenario.jobs if not job.spec.faults]
    struck = [job for job in scenario.jobs if job.spec.faults]
    spare = len(scenario.cluster.nodes) - len(scenario.jobs)
    kept = (*healthy[: max(0, jobs - len(struck))], *struck)
    cluster = replace(scenario.cluster, nodes=scenario.cluster.nodes[: len(kept) + spare], partitions=())
    return replace(scenario, jobs=kept, cluster=cluster)


class Costs:
    """Seconds of CPU by stage: what is called through a wrapper counts for its name, the rest for "other"."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._began = time.process_time()

    def counting(self, owner: Any, name: str, stage: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        @wraps(inner)
        def counted(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return inner(*args, **kwargs)
            finally:
                self.spent[stage] += time.process_time() - began  # type: ignore[assignment]

        setattr(owner, name, counted)

    def told(self) -> dict[str, float]:
        total = time.process_time() - self._began
        parts = {**self.spent, "other": total - sum(self.spent.values()), "total": total}
        return {stage: round(seconds, 1) for stage, seconds in parts.items()}


def play(jobs: int | None, for_s: float | None) -> dict[str, object]:
    """Play it in this process. The settings must be known before the desk is imported."""
    from recovery.pipeline import account, reconcile  # noqa: PLC0415
    from recovery.simulation.database import throw_away_database  # noqa: PLC0415
    from recovery.simulation.judging import differences  # noqa: PLC0415
    from recovery.simulation.reading import read_file  # noqa: PLC0415
    from recovery.simulation.running import play as play_scenario  # noqa: PLC0415
    from recovery.slurm.simulator import SimulatedCluster  # noqa: PLC0415

    scenario = read_file(FILE)
    scenario = with_fewer(scenario, jobs) if jobs else scenario
    scenario = replace(scenario, for_s=for_s) if for_s else scenario
    costs = Costs()
    for name in ("advance", "submit"):
        costs.counting(SimulatedCluster, name, "simulated cluster")
    costs.counting(reconcile, "watch_cluster", "poll")
    costs.counting(reconcile, "watch_attempts", "attempts")
    costs.counting(reconcile, "work_on_incident", "cases")
    for name in ("due", "watch_ledgers"):
        costs.counting(account, name, "ledgers")
    _tell_at_each_tick(reconcile, costs)
    with tempfile.TemporaryDirectory(prefix="recovery-bench-") as folder, throw_away_database():
        story = play_scenario(scenario, Path(folder))
        wrong = differences(scenario.expect, story)
    return {
        "jobs": len(story.jobs), "virtual_s": story.virtual_s, "wall_s": round(story.wall_s, 1),
        "cpu_s": costs.told(), "peak_mb": _peak_mb(), "incidents": len(story.incidents),
        "held": not wrong, "differences": wrong[:10],
    }  # fmt: skip


def _tell_at_each_tick(reconcile: Any, costs: Costs) -> None:
    inner, next_told = reconcile.tick, [0.0]
    began: list[float] = []

    def tick(*, client_for: Any, clock: Any) -> Any:
        now = clock().timestamp()
        began.append(now) if not began else None
        if now - began[0] >= next_told[0]:
            next_told[0] = now - began[0] + TOLD_EVERY
            parts = ", ".join(f"{stage} {seconds}" for stage, seconds in costs.told().items())
            print(f"{now - began[0]:6.0f} s  CPU {parts}  {_peak_mb()} MB", file=sys.stderr, flush=True)
        return inner(client_for=client_for, clock=clock)

    reconcile.tick = tick


def _peak_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, 1)


def main(arguments: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery.settings")
    django.setup()
    jobs, for_s = (*(float(argument) for argument in arguments), None, None)[:2]
    print(json.dumps(play(int(jobs) if jobs else None, for_s), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
