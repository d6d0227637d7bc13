"""Polling and storing many jobs, against the bare fetch plus parsing of the same answer in the same run.

The answers are squeue's text and sinfo's JSON, made up here and handed out by two scripts in their place: everything is
measured but Slurm itself, from starting a command to storing. On SQLite in a file.
"""

from __future__ import annotations

import json
import math
import tempfile
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.timing import Work, side_by_side, timed
from recovery.models import Cluster, Job
from recovery.pipeline.poll import poll_cluster, way_of
from recovery.slurm import cli_squeue
from recovery.slurm.cli import CliClient

SIZES = (2_000, 5_000, 10_000)
NOW = datetime(2026, 1, 11, 9, 0, tzinfo=UTC)
ROUNDS = 11  # a round now and then meets a pass of the garbage collector over everything
SEPARATOR = "~bench"
JOBS_PER_NODE = 10
COMMENT = '{"recovery": {"run": "llama-%d", "checkpoint_dir": "/ckpt/llama-%d"}}'


def run() -> dict[str, object]:
    sizes = {str(jobs): measure(jobs) for jobs in SIZES}
    first, last = sizes[str(SIZES[0])], sizes[str(SIZES[-1])]
    growth = {
        name: round(math.log(last[name] / first[name]) / math.log(SIZES[-1] / SIZES[0]), 2)
        for name in ("first_picture_ms", "unchanged_ms", "one_percent_changed_ms")
    }
    return {"jobs": sizes, "growth_exponent": growth}


def measure(jobs: int) -> dict[str, float]:
    """The figures of one cluster. `unchanged_ms` compares every job; with a mark (`…_by_mark`) there is no need to."""
    with tempfile.TemporaryDirectory() as folder, patch.object(cli_squeue, "new_separator", lambda: SEPARATOR):
        desk = Recorded(Path(folder), jobs)
        first = timed(desk.poll, rounds=1)
        times = side_by_side(
            {
                "bare": Work(desk.fetch_and_parse),
                "unchanged_by_mark": Work(desk.poll),
                "unchanged": Work(desk.poll, before=desk.forget_mark),
                "one_percent_changed": Work(desk.poll, before=desk.change_one_percent),
            },
            rounds=ROUNDS,
        )
        queries = {
            "unchanged": desk.queries(desk.forget_mark),
            "one_percent_changed": desk.queries(desk.change_one_percent),
        }
        peaks = {"bare": peak_mb(desk.fetch_and_parse), "poll": peak_mb(desk.poll_everything)}
        desk.remove()
    bare = times.pop("bare")
    return {
        "fetch_and_parse_ms": round(bare.seconds * 1000, 1),
        "first_picture_ms": round(first.seconds * 1000, 1),
        "first_picture_jobs_per_s": round(jobs / first.seconds),
        **{f"{name}_ms": round(timing.seconds * 1000, 1) for name, timing in times.items()},
        **{f"{name}_times_bare": round(timing.seconds / bare.seconds, 2) for name, timing in times.items()},
        **{f"{name}_queries": count for name, count in queries.items()},
        **{f"{name}_peak_mb": peak for name, peak in peaks.items()},
        "spread": round(max(bare.spread, *(timing.spread for timing in times.values())), 2),
    }


def peak_mb(work: Callable[[], object]) -> float:
    """What Python allocates at most; tracing makes it slow, so it is never timed."""
    tracemalloc.start()
    try:
        work()
        return round(tracemalloc.get_traced_memory()[1] / 1e6, 1)
    finally:
        tracemalloc.stop()


class Recorded:
    """A cluster whose commands hand out files; `change_one_percent` lets one job of a hundred fail."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.rows = [_row(number) for number in range(1, jobs + 1)]
        self.failed = 0
        self.now = NOW
        self.squeue, self.sinfo = folder / "squeue.txt", folder / "sinfo.json"
        nodes = [_node(number) for number in range(max(1, jobs // JOBS_PER_NODE))]
        self.sinfo.write_text(json.dumps({"errors": [], "nodes": nodes}))
        for name, answer in (("squeue", self.squeue), ("sinfo", self.sinfo)):
            script = folder / name
            script.write_text(f"#!/bin/sh\nexec cat {answer}\n")
            script.chmod(0o700)
        self._write()
        self.client = CliClient(bin_dir=str(folder))
        self.cluster = Cluster.objects.create(
            name=f"bench-{jobs}", backend="cli", seen_at=NOW, health_at=NOW, partitions_at=NOW
        )
        self.cluster.jobs_mark_of = way_of(self.cluster)  # as the last look, so that no settings are asked for

    def fetch_and_parse(self) -> int:
        return len(self.client.jobs()) + len(self.client.nodes())

    def poll(self) -> None:
        self.now += timedelta(milliseconds=100)
        outcome = poll_cluster(self.cluster, client=self.client, now=self.now)
        if not outcome.observed:
            raise RuntimeError(outcome.error)

    def poll_everything(self) -> None:
        self.forget_mark()
        self.poll()

    def forget_mark(self) -> None:
        self.cluster.jobs_mark = ""

    def change_one_percent(self) -> None:
        share = max(1, len(self.rows) // 100)
        for place in range(self.failed, min(self.failed + share, len(self.rows))):
            self.rows[place] |= {"state": "FAILED", "reason": "NonZeroExitCode", "end": "2026-01-11T09:00:00"}
            self.rows[place]["exit_code"] = "1:0"
        self.failed += share
        self._write()

    def queries(self, before: Callable[[], None]) -> int:
        before()
        with CaptureQueriesContext(connection) as captured:
            self.poll()
        return len(captured)

    def remove(self) -> None:
        Job.objects.filter(cluster=self.cluster).delete()
        self.cluster.delete()

    def _write(self) -> None:
        text = "\n".join("".join(row[name] + SEPARATOR for name in cli_squeue.FIELDS) for row in self.rows)
        self.squeue.write_text(text + "\n")


def _row(number: int) -> dict[str, str]:
    """A running job of four nodes, as squeue writes it. Every second one waits."""
    waits = number % 2 == 0
    first = number % 1000
    written = {
        "raw_id": str(number), "array_id": str(number), "array_task": "N/A", "het_id": "0", "het_offset": "0",
        "state": "PENDING" if waits else "RUNNING", "reason": "Priority" if waits else "None",
        "submitted": f"2026-01-11T08:{number // 60 % 60:02}:{number % 60:02}", "restarts": "0", "priority": "4294901",
        "requeue": "1", "eligible": "2026-01-11T08:00:00", "start": "N/A" if waits else "2026-01-11T08:30:00",
        "end": "N/A", "exit_code": "0:0", "nodes": "" if waits else f"gpu-[{first:04}-{first + 3:04}]",
        "node_count": "4", "tasks": "4", "tres": "cpu=64,mem=512G,node=4,billing=64,gres/gpu=32",
        "time_limit": "1-00:00:00", "user": f"user{number % 40}", "uid": str(1000 + number % 40), "account": "research",
        "partition": "main", "qos": "normal", "batch": "1", "batch_host": "" if waits else f"gpu-{first:04}",
        "name": f"train-{number}", "comment": COMMENT % (number, number), "work_dir": f"/home/user{number % 40}/runs",
        "stdout": f"/logs/train-{number}.out", "stderr": f"/logs/train-{number}.out",
    }  # fmt: skip
    return {name: written.get(name, "") for name in cli_squeue.FIELDS}


def _node(number: int) -> dict[str, object]:
    return {
        "name": f"gpu-{number:04}", "state": "allocated", "state_flags": [], "partitions": ["main"], "reason": "",
        "reason_changed_at": 0, "reason_set_by_user": None, "active_features": "h100,ib", "features": "h100,ib",
        "gres": "gpu:8",
    }  # fmt: skip
