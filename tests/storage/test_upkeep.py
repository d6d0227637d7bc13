"""What upkeep does with samples, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from recovery.core.lifecycle import IncidentState
from recovery.core.logs import LogParser
from recovery.core.logs.lines import LARGEST
from recovery.core.types import LogLine
from recovery.models import Attempt, MinuteRollup, RollupDue, Sample, Signal, TenMinuteRollup, Upkeep
from recovery.pipeline import partitions, rollup, upkeep
from recovery.pipeline.samples import store_samples
from tests.factories import make_attempt, make_incident, make_signal

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture
def attempt() -> Attempt:
    return make_attempt()


def sample(attempt: Attempt, step: int, at: datetime, **fields: float | None) -> Sample:
    return Sample(attempt=attempt, step=step, at=at, **{"loss": 2.0, **fields})


def pass_at(now: datetime) -> Upkeep:
    (pk,) = upkeep.due(now)
    upkeep.keep(pk, clock=lambda: now)
    return Upkeep.objects.get()


def steps(model: type[MinuteRollup | TenMinuteRollup]) -> list[tuple[datetime, int, int]]:
    return list(model.objects.order_by("at", "rank").values_list("at", "samples", "step"))


def test_a_sample_is_stored_once_however_often_it_comes(attempt: Attempt) -> None:
    rows = [sample(attempt, 1, NOON), sample(attempt, 1, NOON, loss=9.0), sample(attempt, 2, NOON, tokens=1e12)]
    store_samples(rows)
    store_samples(rows)
    stored = list(Sample.objects.order_by("step").values_list("step", "at", "loss", "throughput", "tokens"))
    assert stored == [(1, NOON, 2.0, None, None), (2, NOON, 2.0, None, 1e12)]


def test_nothing_to_store_is_no_query(attempt: Attempt, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        store_samples([])


def test_a_batch_costs_as_many_queries_as_a_sample(
    attempt: Attempt, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    rows = [sample(attempt, step, NOON + step * timedelta(seconds=0.1)) for step in range(3000)]
    with django_assert_num_queries(4):  # two statements in a savepoint
        store_samples(rows)
    assert Sample.objects.count() == 3000


def test_minutes_and_ten_minutes_hold_means_and_the_last_step(attempt: Attempt) -> None:
    store_samples([
        sample(attempt, 1, NOON, loss=4.0, throughput=100.0, tokens=10.0),
        sample(attempt, 2, NOON + 20 * timedelta(seconds=1), loss=2.0, throughput=None, tokens=20.0),
        sample(attempt, 3, NOON + MINUTE, loss=None),
    ])  # fmt: skip
    pass_at(NOON + 12 * MINUTE)
    assert steps(MinuteRollup) == [(NOON, 2, 2), (NOON + MINUTE, 1, 3)]
    assert steps(TenMinuteRollup) == [(NOON, 3, 3)]
    first = MinuteRollup.objects.earliest("at")
    assert (first.loss, first.throughput, first.tokens) == (3.0, 100.0, 20.0)
    assert first.last_at == NOON + timedelta(seconds=20)
    assert MinuteRollup.objects.latest("at").loss is None


def test_a_job_that_prints_numbers_beyond_measure_stops_nobodys_upkeep(attempt: Attempt) -> None:
    read, number = LogParser(), itertools.count()
    for loss in ("1e200", "-1e200", "1.7e308", f"{LARGEST}", f"-{LARGEST}", "2.5", "1e-320"):
        line = LogLine(text=f"iter {next(number)}: loss {loss}, time 1e-320ms", file="a", number=1, offset=0)
        store_samples([
            sample(attempt, s.step or 0, NOON, loss=s.loss, throughput=s.loss, step_time_s=s.step_time_s)
            for s in read.feed(line)
        ])  # fmt: skip
    assert Sample.objects.count() == 7
    assert pass_at(NOON + 12 * MINUTE).error == ""
    [row] = MinuteRollup.objects.all()
    assert (row.samples, row.loss is not None and abs(row.loss) <= LARGEST) == (7, True)


def test_each_rank_has_its_own_and_so_has_each_attempt(attempt: Attempt) -> None:
    other = make_attempt()
    store_samples([sample(attempt, 5, NOON), Sample(attempt=attempt, rank=3, step=6, at=NOON), sample(other, 7, NOON)])
    pass_at(NOON + 12 * MINUTE)
    found = TenMinuteRollup.objects.order_by("step").values_list("attempt_id", "rank", "step")
    assert list(found) == [(attempt.pk, -1, 5), (attempt.pk, 3, 6), (other.pk, -1, 7)]


def test_a_stretch_is_rolled_up_when_it_is_over_and_not_before(attempt: Attempt) -> None:
    store_samples([sample(attempt, 1, NOON)])
    pass_at(NOON + 10 * MINUTE)
    assert not TenMinuteRollup.objects.exists()
    pass_at(NOON + 11 * MINUTE)
    assert TenMinuteRollup.objects.count() == 1
    assert not RollupDue.objects.exists()


def test_a_step_that_goes_back_shows_as_the_last_one(attempt: Attempt) -> None:
    store_samples([sample(attempt, 90, NOON), sample(attempt, 41, NOON + timedelta(seconds=1))])
    pass_at(NOON + 12 * MINUTE)
    assert steps(MinuteRollup) == [(NOON, 2, 41)]


def test_what_comes_late_is_rolled_up_anew(attempt: Attempt) -> None:
    store_samples([sample(attempt, 1, NOON)])
    pass_at(NOON + 12 * MINUTE)
    store_samples([sample(attempt, 2, NOON + MINUTE)])
    pass_at(NOON + 13 * MINUTE)
    assert steps(TenMinuteRollup) == [(NOON, 2, 2)]


def test_what_comes_when_its_day_is_gone_neither_breaks_nor_spoils_anything(attempt: Attempt) -> None:
    store_samples([sample(attempt, step, NOON + step * MINUTE) for step in range(5)])
    pass_at(NOON + 12 * MINUTE)
    later = NOON + 40 * DAY
    pass_at(later)
    assert not Sample.objects.exists()
    store_samples([sample(attempt, 9, NOON + 9 * MINUTE)])
    assert Sample.objects.count() == 1
    pass_at(later + DAY)
    assert steps(TenMinuteRollup) == [(NOON, 5, 4)]  # of what was there, not of what is left
    assert steps(MinuteRollup)[-1] == (NOON + 9 * MINUTE, 1, 9)  # a minute of which nothing was known is added
    assert not Sample.objects.exists()


def test_a_backlog_of_days_is_rolled_up_like_everything_else(attempt: Attempt) -> None:
    store_samples([sample(attempt, step, NOON + step * 30 * MINUTE) for step in range(100)])
    row = pass_at(NOON + 3 * DAY)
    assert row.done["stretches rolled up"] == 100
    assert [step for _, _, step in steps(TenMinuteRollup)] == list(range(100))


def test_each_kind_is_kept_as_long_as_the_site_says(attempt: Attempt, settings: Settings) -> None:
    settings.KEEP_SAMPLES_DAYS, settings.KEEP_MINUTES_DAYS, settings.KEEP_TEN_MINUTES_DAYS = 2, 4, 6
    store_samples([sample(attempt, day, NOON + day * DAY) for day in range(8)])
    pass_at(NOON + 7 * DAY + 12 * MINUTE)
    kept = {model: [step for *_, step in steps(model)] for model in (MinuteRollup, TenMinuteRollup)}
    assert sorted(Sample.objects.values_list("step", flat=True)) == [5, 6, 7]
    assert kept == {MinuteRollup: [4, 5, 6, 7], TenMinuteRollup: [2, 3, 4, 5, 6, 7]}


def test_what_is_removed_is_removed_in_batches(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "BATCH", 10)
    store_samples([sample(attempt, step, NOON + step * MINUTE) for step in range(25)])
    assert pass_at(NOON + 60 * DAY).done["samples removed"] == 25


def test_failure_lines_of_closed_attempts_go_and_those_of_open_cases_stay(settings: Settings) -> None:
    settings.KEEP_FAILURE_LINES_DAYS = 10
    old, busy, running = make_attempt(closed_at=NOON), make_attempt(closed_at=NOON), make_attempt(closed_at=None)
    make_incident(attempt=busy, run=busy.job.run, state=IncidentState.AWAITING_DECISION)
    for attempt in (old, busy, running):
        make_signal(attempt=attempt, at=NOON)
    saved = make_signal(attempt=old, at=NOON, kind="save_durable", rule="megatron.saved")
    pass_at(NOON + 11 * DAY)
    assert not Signal.objects.filter(attempt=old, kind="failure").exists()
    assert Signal.objects.filter(pk=saved.pk).exists()  # the ledger rests on it
    assert Signal.objects.filter(attempt__in=[busy, running]).count() == 2


def test_sessions_that_ran_out_are_removed() -> None:
    Session.objects.create(session_key="old", session_data="", expire_date=NOON - DAY)
    Session.objects.create(session_key="new", session_data="", expire_date=NOON + DAY)
    pass_at(NOON)
    assert [each.session_key for each in Session.objects.all()] == ["new"]


def test_upkeep_is_due_every_minute_and_done_by_one_worker() -> None:
    row = pass_at(NOON)
    assert row.next_look_at == NOON + upkeep.EVERY
    assert upkeep.due(NOON) == []
    assert row.take_lease(NOON + upkeep.EVERY)
    assert upkeep.due(NOON + upkeep.EVERY) == []


def test_a_pass_that_takes_long_stops_and_goes_on_in_the_next(attempt: Attempt) -> None:
    store_samples([sample(attempt, step, NOON + step * DAY) for step in range(5)])
    clock = iter(NOON + 9 * DAY + number * timedelta(seconds=8) for number in range(100))
    (pk,) = upkeep.due(NOON + 9 * DAY)
    upkeep.keep(pk, clock=lambda: next(clock))
    row = Upkeep.objects.get()
    assert 0 < TenMinuteRollup.objects.count() < 5
    assert row.done["more"] == 1
    assert row.next_look_at is not None
    assert row.next_look_at <= next(clock)  # at once
    pass_at(NOON + 9 * DAY + MINUTE * 10)
    assert TenMinuteRollup.objects.count() == 5


def test_samples_of_a_long_outage_are_rolled_up_before_they_go(attempt: Attempt) -> None:
    store_samples([sample(attempt, 1, NOON)])
    pass_at(NOON)
    later = NOON + 40 * DAY
    moments = iter([later, later])  # took its lease, began
    upkeep.keep(upkeep.due(later)[0], clock=lambda: next(moments, later + 2 * upkeep.PASS))
    assert Sample.objects.exists()
    pass_at(later + MINUTE)
    assert not Sample.objects.exists()
    assert steps(TenMinuteRollup) == [(NOON, 1, 1)]


def test_a_pass_that_fails_says_why_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> int:
        raise RuntimeError("no room")

    monkeypatch.setattr(upkeep, "roll_up", fail)
    row = pass_at(NOON)
    assert row.error == "RuntimeError: no room"
    monkeypatch.undo()
    row = pass_at(NOON + 5 * MINUTE)
    assert (row.error, row.at) == ("", NOON + 5 * MINUTE)


def test_days_are_made_ahead_and_dropped_when_they_are_old(attempt: Attempt) -> None:
    """On PostgreSQL; SQLite has one table, and the same rows are there and gone."""
    store_samples([sample(attempt, 1, NOON), sample(attempt, 2, NOON - 3 * DAY)])
    pass_at(NOON)
    if partitions.divided():
        names = [part.name for part in partitions.parts()]
        expected = [7, 10, 11, 12, 13]
        assert names == [f"recovery_sample_day_202603{day:02d}" for day in expected]
        assert _rows("recovery_sample_default") == 0
        assert _rows("recovery_sample_day_20260307") == 1
    pass_at(NOON + 29 * DAY)
    assert list(Sample.objects.values_list("step", flat=True)) == [1]
    if partitions.divided():
        assert "recovery_sample_day_20260307" not in [part.name for part in partitions.parts()]


def _rows(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - our own names
        return int(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_a_sample_that_is_being_stored_while_its_minutes_are_rolled_up_is_not_left_out() -> None:
    attempt = make_attempt()
    store_samples([sample(attempt, 1, NOON)])
    now = NOON + 12 * MINUTE

    def roll_up() -> None:
        rollup.roll_up(now=now, whole_since=NOON - DAY, go_on=lambda: True)
        connection.close()

    other = Thread(target=roll_up)
    with transaction.atomic():
        store_samples([sample(attempt, 2, NOON + MINUTE)])
        other.start()
        other.join(0.3)  # waits for us
    other.join(10)
    rollup.roll_up(now=now, whole_since=NOON - DAY, go_on=lambda: True)
    assert steps(TenMinuteRollup) == [(NOON, 2, 2)]
