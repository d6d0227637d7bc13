"""An attempt of which nothing is new costs little to look at, whatever is known of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery.core.lifecycle import IncidentState
from recovery.core.types import CheckpointState, Finding, FindingKind, SignalKind
from recovery.models import Attempt, Checkpoint, Cluster, Incident, Sample, Signal
from recovery.pipeline import judge, watch
from recovery.pipeline.facts import SIGNALS, attempt_facts
from recovery.pipeline.look_at_checkpoints import LOOK_AGAIN
from tests.factories import make_incident
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


@pytest.mark.parametrize(("kind", "reports"), [(FindingKind.SLOWDOWN, True), (FindingKind.HANG, False)])
def test_what_was_dealt_with_in_a_closed_case_is_judged_once_a_minute(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, kind: FindingKind, reports: bool
) -> None:
    desk.run_with_checkpoint()
    desk.tick(times=3)
    stands = Finding(kind=kind, since=desk.now, reason="As before.", confidence=1.0)
    judged: list[int] = []
    monkeypatch.setattr(judge, "detect", lambda facts, limits: [stands])
    monkeypatch.setattr(judge, "detect_attempt", lambda attempt, now: judged.append(attempt.pk))
    Attempt.objects.update(quiet_until=None)
    for number in range(60):
        if reports and number % 5 == 0:
            desk.step(20 + number)
        Cluster.objects.update(seen_at=desk.now)
        look(desk)
    assert 1 <= len(judged) <= 4  # in two minutes
    desk.tick()
    judged.clear()
    make_incident(attempt=desk.attempt, state=IncidentState.WATCHING)
    Attempt.objects.update(quiet_until=None)
    look(desk)
    look(desk)
    assert len(judged) == 2
    assert Incident.objects.count() == 1
