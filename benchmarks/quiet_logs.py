"""A pass over many job logs of which none has grown, against a bare os.stat of the same files in the same run.

`pass`: as the tick's workers do it, with leases and all that is asked of the database. `glance`: what tells that an
attempt is quiet, alone. `read`: each log is opened and compared instead, as where its file system tells nothing.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks.fleet import Fleet, allowed, forget_marks
from benchmarks.timing import Work, side_by_side
from recovery.models import Attempt
from recovery.pipeline.glance import quiet_attempts
from recovery.pipeline.judge import site_digest
from recovery.pipeline.watch import BATCH

LOGS = 10_000
ROUNDS = 3


def run() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, allowed(Path(name)):
        fleet = Fleet(Path(name), LOGS)
        names = [str(log) for log in fleet.logs]
        times = side_by_side(
            {
                "stat": Work(lambda: [os.stat(log) for log in names]),  # noqa: PTH116 - the bare call
                "pass": Work(fleet.look),
                "glance": Work(lambda: _glance(fleet)),
                "read": Work(fleet.look, before=forget_marks),
            },
            rounds=ROUNDS,
        )
        fleet.remove()
    bare = times["stat"].seconds
    return {
        "logs": LOGS,
        **{f"{kind}_ms": round(timing.seconds * 1000, 1) for kind, timing in times.items()},
        **{f"{kind}_times_stat": round(times[kind].seconds / bare, 1) for kind in ("pass", "glance", "read")},
        "pass_us_per_log": round(times["pass"].seconds * 1e6 / LOGS, 1),
        "spread": round(max(timing.spread for timing in times.values()), 2),
    }


def _glance(fleet: Fleet) -> None:
    keys = list(Attempt.objects.filter(job__cluster=fleet.cluster).values_list("pk", flat=True))
    site = site_digest()
    for start in range(0, len(keys), BATCH):
        if len(quiet_attempts(keys[start : start + BATCH], site, now=fleet.now)) != len(keys[start : start + BATCH]):
            raise RuntimeError("not all of them are quiet")
