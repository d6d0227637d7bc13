"""Looks at ledgers of which nothing has changed: together, cheap, and with the same outcome as keeping each anew."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from recovery.core.ledger import Ledger
from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState, Outcome, Phase
from recovery.models import Attempt, Checkpoint, Incident, LedgerEntry, Run, RunLedger
from recovery.pipeline import account
from recovery.pipeline.ledger_glance import glimpse
from recovery.selectors.ledger_reads import run_pieces
from tests.factories import (
    ago,
    make_attempt,
    make_checkpoint,
    make_incident,
    make_job,
    make_policy,
    make_run,
    make_samples,
    make_signal,
)
from tests.ledger_balance import assert_balanced, stored

pytestmark = pytest.mark.django_db


def running(number: int = 0, **more: Any) -> Attempt:
    run = make_run(key=f"run-{number}")
    job = make_job(run=run, job_id=str(900 + number), first_submitted_at=ago(900), submitted_at=ago(900))
    return make_attempt(job=job, submitted_at=ago(900), started_at=ago(800), phase=Phase.TRAINING, **more)


def look(*, at: datetime) -> int:
    """Look at all that is due; the number of statements of the looks themselves."""
    batches = account.due(at)
    with CaptureQueriesContext(connection) as caught:
        for keys in batches:
            account.watch_ledgers(keys, clock=lambda: at)
    return len(caught)


def test_quiet_ledgers_cost_the_same_statements_however_many_they_are() -> None:
    now = timezone.now()
    running(0)
    look(at=now)
    alone = look(at=now + timedelta(minutes=1))
    for number in range(1, 12):
        attempt = running(number)
        make_checkpoint(run=attempt.job.run, attempt=attempt, completed_at=ago(700))
    look(at=now + timedelta(minutes=1))
    look(at=now + timedelta(minutes=2))
    assert look(at=now + timedelta(minutes=3)) == alone <= 16
    assert {row.next_look_at for row in RunLedger.objects.all()} == {now + timedelta(minutes=4)}


def test_what_a_glance_fetches_of_a_run_does_not_grow_with_its_past() -> None:
    attempt = running()
    run = attempt.job.run
    fetched = []
    for half in range(2):
        for number in range(20 * half, 20 * half + 20):
            ended = {"started_at": ago(9e5), "ended_at": ago(8e5), "closed_at": ago(8e5), "submitted_at": ago(9e5)}
            old = make_attempt(job=make_job(run=run), number=number, state=JobState.NODE_FAIL, **ended)
            make_incident(attempt=old, state=IncidentState.CLOSED, outcome=Outcome.RECOVERED, closed_at=ago(8e5))
            make_checkpoint(run=run, attempt=old, step=number, completed_at=ago(8e5))
        fetched.append(rows_of_a_glance(run))
    assert fetched[0] == fetched[1] <= 5


def rows_of_a_glance(run: Run) -> int:
    from recovery.pipeline import ledger_glance as module  # noqa: PLC0415 - its parts are watched

    rows: list[Any] = []
    with (
        patch.object(module, "_living", _counted(module._living, rows)),
        patch.object(module, "_over", _counted(module._over, rows)),
        patch.object(module, "_cases", _counted(module._cases, rows)),
        patch.object(module, "_saves", _counted(module._saves, rows)),
    ):
        glimpse([run.pk], now=timezone.now())
    return len(rows)


def _counted(inner: Any, rows: list[Any]) -> Any:
    def counted(*args: Any) -> Iterator[Any]:
        for row in inner(*args):
            rows.append(row)
            yield row

    return counted


CHANGES: dict[str, Any] = {
    "it ended": lambda a: Attempt.objects.update(state=JobState.FAILED, ended_at=ago(5)),
    "it is blind": lambda a: Attempt.objects.update(blind_reason="The log can't be read."),
    "it was restored": lambda a: Attempt.objects.update(restored_at=ago(5), restored_step=3),
    "its first step": lambda a: Attempt.objects.update(phase=Phase.FIRST_STEP),
    "its GPUs": lambda a: Attempt.objects.update(gpus=3),
    "it vanished": lambda a: type(a.job).objects.update(vanished_at=ago(5)),
    "another attempt": lambda a: make_attempt(job=a.job, number=1, state=JobState.PENDING, started_at=None),
    "a case": lambda a: make_incident(attempt=a),
    "its policy": lambda a: make_policy(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_moves_an_edge_is_seen_at_the_next_look(what: str) -> None:
    attempt = running()
    now = timezone.now()
    look(at=now)
    CHANGES[what](attempt)
    look(at=now + timedelta(minutes=1))
    assert RunLedger.objects.get().changed_at == now + timedelta(minutes=1)


PAST = {
    "how it ended": lambda: Attempt.objects.filter(number=0).update(state=JobState.TIMEOUT),
    "when it ended": lambda: Attempt.objects.filter(number=0).update(ended_at=ago(8.5e5)),
    "how the case ended": lambda: Incident.objects.update(outcome=Outcome.FALSE_ALARM),
    "when the case ended": lambda: Incident.objects.update(closed_at=ago(7e5)),
}


@pytest.mark.parametrize("what", PAST)
def test_what_changes_of_the_past_is_seen_too(what: str) -> None:
    attempt = running()
    attempt.number = 1
    attempt.save()
    ended = {"started_at": ago(9e5), "ended_at": ago(8e5), "closed_at": ago(8e5), "submitted_at": ago(9e5)}
    old = make_attempt(job=attempt.job, number=0, state=JobState.NODE_FAIL, **ended)
    make_incident(attempt=old, state=IncidentState.CLOSED, outcome=Outcome.RECOVERED, closed_at=ago(8e5))
    now = timezone.now()
    look(at=now)
    PAST[what]()
    look(at=now + timedelta(minutes=1))
    assert RunLedger.objects.get().changed_at == now + timedelta(minutes=1)


def test_saves_alone_wait_some_minutes_and_are_kept_then() -> None:
    attempt = running()
    now = timezone.now()
    look(at=now)
    make_checkpoint(run=attempt.job.run, attempt=attempt, completed_at=ago(1))
    Attempt.objects.update(phase=Phase.SAVING, phase_since=now)
    for minute in range(1, 5):
        look(at=now + timedelta(minutes=minute))
        assert RunLedger.objects.get().changed_at == now
    look(at=now + account.AT_WORK_EVERY)
    assert RunLedger.objects.get().changed_at == now + account.AT_WORK_EVERY


def a_course(attempt: Attempt, minute: int, now: datetime) -> None:
    """What happens in this minute of an hour: steps, saves, a restart, and the end."""
    newest = Attempt.objects.latest("number")
    if newest.state == JobState.RUNNING:
        make_samples(attempt=newest, count=2, first_step=10 * minute + 1, last_at=now, every_s=25)
        Attempt.objects.filter(pk=newest.pk).update(last_progress_at=now)
    if minute % 7 == 3:
        make_signal(attempt=newest, kind="save_started", step=10 * minute, at=now - timedelta(seconds=9))
        make_checkpoint(run=attempt.job.run, attempt=newest, step=10 * minute, completed_at=now, state="complete")
        Attempt.objects.filter(pk=newest.pk).update(phase=Phase.SAVING, phase_since=now)
    elif minute % 7 == 4:
        make_signal(attempt=newest, kind="save_durable", step=10 * minute, at=now - timedelta(seconds=9))
        Attempt.objects.filter(pk=newest.pk).update(phase=Phase.TRAINING, phase_since=now)
    if minute == 26:
        Attempt.objects.filter(pk=newest.pk).update(state=JobState.NODE_FAIL, ended_at=now)
        make_attempt(job=attempt.job, number=1, state=JobState.PENDING, started_at=None, submitted_at=now)
    if minute == 30:
        Attempt.objects.filter(number=1).update(state=JobState.RUNNING, started_at=now, phase=Phase.TRAINING)
    if minute == 45:
        Checkpoint.objects.order_by("step")[:1].get().delete()
    if minute == 55:
        Attempt.objects.filter(number=1).update(state=JobState.COMPLETED, ended_at=now)


def test_an_hour_of_quiet_looks_gives_the_ledger_that_full_looks_give() -> None:
    attempt = running()
    began = timezone.now() + timedelta(minutes=1)

    def play(*, fully: bool) -> tuple[list[Any], list[int]]:
        kept: list[int] = []
        inner = account._keep

        def keep(run: int, *args: Any, now: datetime) -> Ledger:
            kept.append(run)
            return inner(run, *args, now=now)

        with transaction.atomic(), patch.object(account, "_keep", keep):
            for minute in range(60):
                now = began + timedelta(minutes=minute)
                a_course(attempt, minute, now)
                if fully:
                    RunLedger.objects.update(facts_key="")
                look(at=now)
            found = stored(attempt.job.run), run_pieces(run_id=attempt.job.run_id, now=now)
            assert_balanced(attempt.job.run, now=now)
            transaction.set_rollback(True)
        return list(found), kept

    (quiet, few), (full, many) = play(fully=False), play(fully=True)
    assert quiet == full
    assert len(few) < len(many) / 2
    assert len(quiet[0]) > 5


def test_a_look_after_a_change_takes_the_same_statements_and_writes_as_few_rows_however_long_the_run_is() -> None:
    attempt = running()
    now = timezone.now()
    look(at=now)
    taken, kept = [], []
    for half in range(2):
        for number in range(10 * half, 10 * half + 10):
            at = 4e6 - 1e4 * number
            times = {
                "submitted_at": ago(at),
                "started_at": ago(at),
                "ended_at": ago(at - 9e3),
                "closed_at": ago(at - 9e3),
            }
            old = make_attempt(job=attempt.job, number=number + 1, state=JobState.NODE_FAIL, phase="training", **times)
            make_samples(attempt=old, count=5, first_step=1, last_at=ago(at - 8e3), every_s=60)
        now += timedelta(minutes=1)
        look(at=now)
        before = set(LedgerEntry.objects.values_list("pk", flat=True))
        Attempt.objects.filter(pk=attempt.pk).update(blind_reason=f"Nothing is seen, {half}.")
        now += timedelta(minutes=1)
        taken.append(look(at=now))
        kept.append(len(before - set(LedgerEntry.objects.values_list("pk", flat=True))))
    assert taken[0] == taken[1] <= 40
    assert kept[0] == kept[1] <= 2
    assert LedgerEntry.objects.count() > 40
