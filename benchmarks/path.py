"""The watched path for many running jobs: one look at all of them, while none and while each of them has reported.

Everything between the tick and the database but the poll, which benchmarks/polling.py measures: leases, the files,
parsing, storing, checkpoint folders, judging. On SQLite in a file, in one process; workers share the batches.
"""

from __future__ import annotations

import math
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from benchmarks.fleet import Fleet, allowed
from benchmarks.timing import Timing, timed
from recovery.pipeline.watch import BATCH

SIZES = (1_000, 5_000, 10_000)
ROUNDS = 3


def run() -> dict[str, object]:
    sizes = {str(size): measure(size) for size in SIZES}
    first, last = sizes[str(SIZES[0])], sizes[str(SIZES[-1])]
    growth = {
        name: round(math.log(last[name] / first[name]) / math.log(SIZES[-1] / SIZES[0]), 2)
        for name in ("quiet_pass_ms", "growing_pass_ms")
    }
    return {"attempts": sizes, "growth_exponent": growth}


def measure(size: int) -> dict[str, float]:
    """One pass over `size` attempts; `growing`: each has one new line of progress."""
    with tempfile.TemporaryDirectory() as name, allowed(Path(name)):
        fleet = Fleet(Path(name), size)
        quiet = timed(fleet.look, rounds=ROUNDS)
        growing = timed(fleet.look, rounds=ROUNDS, before=fleet.write_one_step)
        peaks = {"quiet": _peak_mb(fleet.look)}
        fleet.write_one_step()
        peaks["growing"] = _peak_mb(fleet.look)
        statements = {"quiet": fleet.statements_of_a_batch(BATCH)}
        fleet.write_one_step()
        statements["growing"] = fleet.statements_of_a_batch(BATCH)
        fleet.remove()
    return {
        **_figures("quiet", quiet, size),
        **_figures("growing", growing, size),
        **{f"{kind}_peak_mb": peak for kind, peak in peaks.items()},
        **{f"{kind}_statements_per_batch": count for kind, count in statements.items()},
        "batch": BATCH,
        "spread": round(max(quiet.spread, growing.spread), 2),
    }


def _figures(kind: str, timing: Timing, size: int) -> dict[str, float]:
    return {
        f"{kind}_pass_ms": round(timing.seconds * 1000, 1),
        f"{kind}_ms_per_attempt": round(timing.seconds * 1000 / size, 3),
    }


def _peak_mb(work: Callable[[], object]) -> float:
    """What Python allocates at most; tracing makes it slow, so it is never timed."""
    tracemalloc.start()
    try:
        work()
        return round(tracemalloc.get_traced_memory()[1] / 1e6, 1)
    finally:
        tracemalloc.stop()
