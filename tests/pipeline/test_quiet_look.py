"""An attempt of which nothing is new costs little to look at, whatever is known of it."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery.core.types import CheckpointState, SignalKind
from recovery.models import Attempt, Checkpoint, Sample, Signal
from recovery.pipeline import watch
from recovery.pipeline.facts import SIGNALS, attempt_facts
from recovery.pipeline.look_at_checkpoints import LOOK_AGAIN
from tests.pipeline.conftest import Desk


def look(desk: Desk) -> list[str]:
    """The statements of one look; the bounds of transactions are not counted."""
    desk.now += timedelta(seconds=2)
    pk = desk.attempt.pk
    with CaptureQueriesContext(connection) as queries:
        watch.watch_attempt(pk, client_for=lambda cluster: desk.slurm, clock=lambda: desk.now)
    return [query["sql"] for query in queries.captured_queries if "SAVEPOINT" not in query["sql"]]


def test_a_quiet_look_takes_a_dozen_statements_however_much_is_known(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.tick(times=2)
    assert len(look(desk)) <= 12
    for step in range(20, 80):
        desk.save(step)
    desk.tick(times=3)
    assert len(look(desk)) <= 12
    Sample.objects.bulk_create(
        Sample(attempt=desk.attempt, step=100 + n, at=desk.now - timedelta(hours=1, seconds=n)) for n in range(300)
    )
    assert len(look(desk)) <= 13  # the first samples of a long attempt are read besides its newest


def test_a_look_that_reads_something_stores_it(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.tick(times=2)
    desk.step(13)
    look(desk)
    assert desk.attempt.last_step == 13
    look(desk)
    assert desk.attempt.read_at == desk.now  # that nothing was there is told too


def test_checkpoints_that_stay_as_they_are_tell_now_and_then_that_they_were_checked(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.tick(times=3)
    before = Checkpoint.objects.get()
    assert before.state == CheckpointState.COMPLETE
    desk.now += LOOK_AGAIN
    look(desk)
    after = Checkpoint.objects.get()
    assert after.checked_at == desk.now
    assert (after.state, after.completed_at, after.fingerprint) == (
        before.state, before.completed_at, before.fingerprint,
    )  # fmt: skip


def test_a_flood_of_failure_lines_hides_neither_the_first_nor_the_newest_signals(desk: Desk) -> None:
    desk.run_with_checkpoint()
    attempt: Attempt = desk.attempt
    Signal.objects.all().delete()
    at = desk.now
    Signal.objects.bulk_create(
        Signal(
            attempt=attempt, kind=SignalKind.FAILURE, rule="r", at=at + timedelta(seconds=n), file="f", line=n,
            offset=n, text="failure",
        )
        for n in range(SIGNALS + 50)
    )  # fmt: skip
    Signal.objects.create(
        attempt=attempt, kind=SignalKind.LOADED, rule="r", at=at + timedelta(hours=1), file="f", line=9999, offset=9999
    )
    signals = attempt_facts(attempt, now=desk.now).signals
    assert signals[0].line == 0
    assert signals[-1].kind is SignalKind.LOADED
