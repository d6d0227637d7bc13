"""Samples on their way into the database and out of it: storing, charts of thirty days, upkeep."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction

from benchmarks.timing import Work, side_by_side, timed
from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Job, MinuteRollup, Run, Sample, Upkeep
from recovery.pipeline import upkeep
from recovery.pipeline.samples import FIELDS, store_samples, stored
from recovery.selectors import samples_for

HERE = "samples-here"  # on the database of the environment
ROWS = 20_000
BATCH = 2_000  # about what one look at a job that was not read for a while finds
DAYS, EVERY_S = 30, 30  # of the run whose chart is drawn
WIDTHS = (360, 800, 1400, 2800)  # pixels
NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)


def run() -> dict[str, Any]:
    """Figures by database."""
    return {"sqlite": measure(), "postgresql": _on_postgres()}


def _on_postgres() -> Any:
    command = [sys.executable, "-m", "tests.postgres", "-m", "benchmarks", HERE]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.stdout.startswith("{"):
        return json.loads(told.stdout)[HERE]
    return told.stdout.strip() or told.stderr.strip()[-500:]


def measure() -> dict[str, Any]:
    """On the database that Django is set up with, which must be empty."""
    attempt = _attempt()
    figures = _storing(attempt)
    began = NOW - timedelta(days=DAYS)
    steps = DAYS * 86_400 // EVERY_S
    for first in range(0, steps, BATCH):
        numbers = range(first, min(first + BATCH, steps))
        store_samples([_sample(attempt, n, began + n * timedelta(seconds=EVERY_S)) for n in numbers])
    figures["chart_rows"] = Sample.objects.count()
    figures["chart_ms_without_rollups"] = _charts(attempt, WIDTHS[2:3], rounds=1)
    figures |= _upkeep(attempt)
    figures["chart_ms"] = _charts(attempt, WIDTHS)
    window: dict[str, Any] = {"since": NOW - timedelta(hours=1), "until": NOW}
    figures["zoom_of_an_hour_ms"] = _ms(timed(lambda: samples_for(attempt_id=attempt.pk, **window), rounds=3).seconds)
    return figures


def _attempt() -> Attempt:
    cluster = Cluster.objects.create(name="samples", backend="cli")
    run = Run.objects.create(cluster=cluster, key="samples", name="samples", user="ada", created_at=NOW)
    began = NOW - timedelta(days=DAYS)
    times = {"first_submitted_at": began, "submitted_at": began, "seen_at": NOW}
    job = Job.objects.create(cluster=cluster, run=run, job_id="1", state=JobState.RUNNING, **times)
    return Attempt.objects.create(
        job=job, number=0, state=JobState.RUNNING, submitted_at=began, started_at=began, seen_at=NOW
    )


def _sample(attempt: Attempt, step: int, at: datetime) -> Sample:
    return Sample(
        attempt_id=attempt.pk, rank=-1, step=step, at=at, loss=2 + math.sin(step / 100), throughput=402.5 + step % 7,
        step_time_s=4.2, tokens=step * 1e6,
    )  # fmt: skip


def _storing(attempt: Attempt) -> dict[str, Any]:
    rows = [_sample(attempt, step, NOW + step * timedelta(seconds=0.1)) for step in range(ROWS)]
    batches = [rows[first : first + BATCH] for first in range(0, ROWS, BATCH)]
    bare = _copy if connection.vendor == "postgresql" else _insert
    works = {
        "ours": Work(lambda: _each(batches, store_samples), before=_forget),
        "bare": Work(lambda: _each(batches, bare), before=_forget),
    }
    taken = side_by_side(works)
    again = timed(lambda: _each(batches, store_samples), rounds=3)
    _forget()
    per_s = {name: round(ROWS / timing.seconds) for name, timing in taken.items()}
    return {
        "stored_per_s": per_s["ours"],
        "copy_per_s" if bare is _copy else "executemany_per_s": per_s["bare"],
        "share_of_it": round(per_s["ours"] / per_s["bare"], 2),
        "stored_again_per_s": round(ROWS / again.seconds),
        "spread": round(taken["ours"].spread, 2),
    }


def _each(batches: list[list[Sample]], store: Callable[[list[Sample]], None]) -> None:
    for batch in batches:
        store(batch)


def _copy(rows: list[Sample]) -> None:
    """The rows alone, as fast as the database takes them: no key is looked up, nothing is noted."""
    with transaction.atomic(), connection.cursor() as cursor:
        statement = f"COPY recovery_sample ({', '.join(FIELDS)}) FROM STDIN"
        with cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row([getattr(row, field) for field in FIELDS])


def _insert(rows: list[Sample]) -> None:
    columns, places = ", ".join(FIELDS), ", ".join("%s" for _ in FIELDS)
    with transaction.atomic(), connection.cursor() as cursor:
        statement = f"INSERT INTO recovery_sample ({columns}) VALUES ({places})"  # noqa: S608 - our own names
        cursor.executemany(statement, [[_value(row, field) for field in FIELDS] for row in rows])


def _value(row: Sample, field: str) -> Any:
    value = getattr(row, field)
    return stored(value) if field == "at" else value


def _forget() -> None:
    Sample.objects.all()._raw_delete(Sample.objects.db)


def _charts(attempt: Attempt, widths: Sequence[int], *, rounds: int = 3) -> dict[str, float]:
    since = NOW - timedelta(days=DAYS)

    def draw(width: int) -> Callable[[], object]:
        return lambda: samples_for(attempt_id=attempt.pk, max_points=width, since=since, until=NOW)

    return {str(width): _ms(timed(draw(width), rounds=rounds).seconds) for width in widths}


def _upkeep(attempt: Attempt) -> dict[str, Any]:
    """The first passes work off thirty days; then one as it is every minute with nothing, and with ten minutes, due."""
    (pk,) = upkeep.due(NOW)
    clock = iter(NOW + timedelta(minutes=number) for number in range(10_000))

    def keep() -> None:
        now = next(clock)
        Upkeep.objects.filter(pk=pk).update(next_look_at=now)
        upkeep.keep(pk, clock=lambda: now)

    first = timed(keep, rounds=1)
    quiet = timed(keep, rounds=3)
    return {
        "rolled_up_per_s": round(Sample.objects.count() / first.seconds),
        "minutes": MinuteRollup.objects.count(),
        "quiet_pass_ms": _ms(quiet.seconds),
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
