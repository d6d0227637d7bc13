"""The ledger of 90 days and 20,000 attempts: how long a report takes, what a change costs, and how it grows.

Some runs are kept by the product's own stage from samples, signals and checkpoints; their stored ledgers are then
copied to as many runs as are wanted, whole days apart.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from copy import copy
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.models import Model

from benchmarks.__main__ import HERE
from benchmarks.timing import timed
from recovery.api.parsing import LARGEST_PAGE
from recovery.core.ledger.figures import Figures
from recovery.core.ledger.slices import DAY
from recovery.models import (
    Attempt,
    Checkpoint,
    Cluster,
    Incident,
    IncidentCost,
    Job,
    LedgerDay,
    LedgerEntry,
    Run,
    RunLedger,
    Sample,
    Signal,
)
from recovery.pipeline import account
from recovery.pipeline.report import report
from recovery.selectors.ledger_reads import Window

DAYS, RUNS, ATTEMPTS = 90, 2000, 10  # attempts of each run
KEPT = 8  # runs that the stage itself keeps
SAMPLES = 600  # of each attempt, one a minute
CHECKPOINT_EVERY = 30  # samples
NOW = datetime(2026, 4, 1, 9, 30, 17, tzinfo=UTC)
ATTEMPT = timedelta(hours=11)
BATCH = 2000

Row = TypeVar("Row", bound=Model)


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

    keep_ms = _furnish()
    figures: dict[str, Any] = {"keep_a_run_ms": keep_ms, **_changes()}
    _copy()
    figures |= {name: timed(_asks(name), rounds=3).seconds for name in ("run", "user", "account", "policy", "day")}
    figures |= {"due_ms": _due(), **_growth()}
    attempts = Attempt.objects.count()
    return {
        "days": DAYS, "runs": Run.objects.count(), "attempts": attempts, "interruptions": IncidentCost.objects.count(),
        "entries_per_attempt": round(LedgerEntry.objects.count() / attempts, 1),
        "day_rows_per_attempt": round(LedgerDay.objects.count() / attempts, 2),
        **{f"report_by_{name}_s" if name in GROUPS else name: round(value, 3) for name, value in figures.items()},
    }  # fmt: skip


GROUPS = ("run", "user", "account", "policy", "day")


def _asks(by: str) -> Callable[[], object]:

    window = Window(start=NOW - timedelta(days=DAYS), end=NOW, only={})

    def ask() -> list[Figures]:
        """As much as the API answers with."""
        found = report(window, by=by, now=NOW)
        return [line.figures for line in (*found.lines[:LARGEST_PAGE], found.total)]

    return ask


# --- rows ------------------------------------------------------------------------------------------------------------
def _furnish() -> float:
    """Runs with all that is known of them, kept by the stage. Milliseconds per run."""

    cluster = Cluster.objects.create(name="bench", backend="cli")
    runs = [_make_run(cluster, number, ATTEMPTS) for number in range(KEPT)]
    kept = timed(lambda: [account.keep_run(run, now=NOW) for run in runs], rounds=1)
    return kept.seconds * 1000 / KEPT


@transaction.atomic
def _make_run(cluster: Cluster, number: int, attempts: int) -> int:

    begin = NOW - ATTEMPT * attempts - timedelta(hours=number)
    run = Run.objects.create(
        cluster=cluster, key=f"kept-{number}-{attempts}", name=f"run {number}", user=f"u{number % 40}", created_at=begin
    )
    job = Job.objects.create(
        cluster=cluster, run=run, job_id=str(run.pk), first_submitted_at=begin, submitted_at=begin, user=run.user,
        account=f"a{number % 12}", partition=f"p{number % 4}", state="running", gpus=512, seen_at=NOW,
    )  # fmt: skip
    for place in range(attempts):
        _make_attempt(run, job, place, begin + ATTEMPT * place, last=place == attempts - 1)
    return run.pk


def _make_attempt(run: Run, job: Job, place: int, start: datetime, *, last: bool) -> None:

    end = start + timedelta(minutes=SAMPLES + 20)
    attempt = Attempt.objects.create(
        job=job, number=place, state="running" if last else "node_fail", submitted_at=start,
        started_at=start + timedelta(minutes=5), ended_at=None if last else end, closed_at=None if last else end,
        gpus=512, seen_at=NOW, read_at=NOW, phase="training",
    )  # fmt: skip
    origin = place * (SAMPLES - CHECKPOINT_EVERY)
    at = [start + timedelta(minutes=15 + n) for n in range(SAMPLES)]
    Sample.objects.bulk_create(
        [Sample(attempt=attempt, step=origin + n + 1, at=when) for n, when in enumerate(at)], batch_size=BATCH
    )
    saves = range(CHECKPOINT_EVERY, SAMPLES, CHECKPOINT_EVERY)
    marks = [(start + timedelta(minutes=12), "loaded", origin)]
    marks += [(at[n] + timedelta(seconds=2), "save_started", origin + n) for n in saves]
    marks += [(at[n] + timedelta(seconds=40), "save_durable", origin + n) for n in saves]
    Signal.objects.bulk_create(
        Signal(attempt=attempt, kind=kind, step=step, at=when, rule="bench", file="job.out", line=n, offset=n, text="")
        for n, (when, kind, step) in enumerate(marks)
    )
    Checkpoint.objects.bulk_create(
        Checkpoint(run=run, attempt=attempt, step=origin + n, path=f"{attempt.pk}/{n}", state="complete",
                   first_seen_at=at[n], completed_at=at[n] + timedelta(seconds=45), checked_at=NOW)
        for n in saves
    )  # fmt: skip
    if last:
        return
    moments = ("failed_at", "detected_at", "recommended_at", "decided_at", "acted_at", "restored_at", "checkpoint_at")
    times = {name: end + timedelta(seconds=20 * n * (1 + place)) for n, name in enumerate(moments)}
    Incident.objects.create(
        run=run, attempt=attempt, state="closed", kind="crash", failure_class="node_fault", outcome="recovered",
        closed_at=times["checkpoint_at"], failed_step=origin + SAMPLES,
        restored_step=origin + SAMPLES - CHECKPOINT_EVERY, **times,
    )  # fmt: skip


@transaction.atomic
def _copy() -> None:
    """Every stored ledger for many runs more, whole days apart, back to the first day."""
    originals = list(Run.objects.order_by("pk")[:KEPT])
    for number, original in zip(range(RUNS - KEPT), itertools.cycle(originals), strict=False):
        days = 1 + number * (DAYS - 6) // (RUNS - KEPT)
        (run,) = _again([original], days, key=f"copy-{number}", name=f"copy {number}", user=f"u{number % 40}")
        place = {"account": f"a{number % 12}", "partition": f"p{number % 4}"}
        (job,) = _again(Job.objects.filter(run=original), days, run=run, job_id=f"c{number}", **place)
        attempts = list(Attempt.objects.filter(job__run=original).order_by("pk"))
        keys = [attempt.pk for attempt in attempts]
        followers = dict(zip(keys, _again(attempts, days, job=job), strict=True))
        _copy_rows(LedgerEntry, original, run, job, days)
        _copy_rows(LedgerDay, original, run, job, days)
        costs = list(IncidentCost.objects.filter(run=original).select_related("incident").order_by("pk"))
        cases = [cost.incident for cost in costs]
        for case in cases:
            case.attempt = followers[case.attempt_id]
        for cost, case in zip(costs, _again(cases, days, run=run), strict=True):
            cost.incident, cost.run, cost.job, cost.fault_at = case, run, job, case.failed_at
        IncidentCost.objects.bulk_create(costs)


def _copy_rows(kind: type[Model], original: Run, run: Run, job: Job, days: int) -> None:
    """The many rows of a ledger, within the database."""
    earlier = f"day - {days}" if connection.vendor == "postgresql" else f"date(day, '-{days} days')"
    changed = {"run_id": str(run.pk), "job_id": str(job.pk), "day": earlier}
    changed |= {name: f"{name} - {days * DAY}" for name in ("start_us", "end_us")}
    names = [str(field.column) for field in kind._meta.concrete_fields if not field.primary_key]
    wanted = ", ".join(changed.get(name, name) for name in names)
    table = kind._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {wanted} FROM {table} WHERE run_id = %s",  # noqa: S608
            [original.pk],
        )


def _again(rows: Iterable[Row], days: int, **changes: Any) -> list[Row]:
    """The same rows once more, so many days earlier."""
    rows, shift = [copy(row) for row in rows], timedelta(days=days)
    for row in rows:
        for field in type(row)._meta.concrete_fields:
            value = getattr(row, field.attname)
            if isinstance(value, date):
                setattr(row, field.attname, value - shift)
        for name, value in changes.items():
            setattr(row, name, value)
        row.pk = None
    return list(type(rows[0])._default_manager.bulk_create(rows, batch_size=BATCH)) if rows else []


# --- changes ---------------------------------------------------------------------------------------------------------
def _changes() -> dict[str, float]:
    """What a look costs where nothing has changed, and where the running attempt has saved another checkpoint.

    The looks lie far enough apart that what was saved is not put off.
    """
    run = Run.objects.order_by("pk")[0]
    later = itertools.count(1)

    def watch() -> None:
        account.watch_ledger(run.pk, clock=lambda: NOW + next(later) * account.AT_WORK_EVERY)

    def save() -> None:
        newest = Checkpoint.objects.filter(run=run).order_by("-step")[0]
        newest.pk, newest.step, newest.path = None, newest.step + 1, f"{newest.path}+"
        newest.completed_at = NOW + next(later) * account.AT_WORK_EVERY
        newest.save(force_insert=True)

    watch()
    quiet, changed = timed(watch), timed(watch, before=save)
    return {"quiet_look_ms": quiet.seconds * 1000, "changed_look_ms": changed.seconds * 1000}


def _due() -> float:
    """What finding the ledgers costs that are to be looked at, where hardly one is. Milliseconds."""
    RunLedger.objects.bulk_create(
        [RunLedger(run=run) for run in Run.objects.filter(ledger=None)], batch_size=BATCH
    )  # fmt: skip
    return timed(lambda: account.due(NOW)).seconds * 1000


def _growth() -> dict[str, float]:
    """Keeping a run of four times as many attempts, against the usual one: 4 is linear."""
    cluster = Run.objects.order_by("pk")[0].cluster
    one, four = _make_run(cluster, 1000, ATTEMPTS), _make_run(cluster, 1001, 4 * ATTEMPTS)
    keep = [timed(lambda run=run: account.keep_run(run, now=NOW), rounds=3).seconds for run in (one, four)]  # type: ignore[misc]
    return {"keep_4_times_the_attempts": keep[1] / keep[0]}
