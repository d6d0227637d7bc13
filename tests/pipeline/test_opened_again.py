"""A case turns to another execution while a worker gives the first one back: its failure is still judged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recovery.models import Attempt
from recovery.pipeline import watch
from recovery.pipeline.beside import waits_to_be_judged
from tests.pipeline.conftest import Desk

Meanwhile = Callable[[], None]


def look(desk: Desk, attempt: Attempt) -> Attempt:
    Attempt.objects.filter(pk=attempt.pk).update(next_look_at=desk.now, leased_until=None)
    watch.watch_attempt(attempt.pk, client_for=lambda _: desk.slurm, clock=lambda: desk.now)
    attempt.refresh_from_db()
    return attempt


@pytest.fixture
def ended(desk: Desk) -> Attempt:
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick_until(lambda: Attempt.objects.get().closed_at is not None)
    return Attempt.objects.get()


def test_one_that_is_opened_again_before_it_is_given_back_is_looked_at_again(
    desk: Desk, ended: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_back = watch._Batch._give_back

    def opened_again(batch: watch._Batch, keys: list[int]) -> None:
        Attempt.objects.filter(pk=ended.pk).update(closed_at=None, next_look_at=desk.now)
        give_back(batch, keys)

    monkeypatch.setattr(watch._Batch, "_give_back", opened_again)
    assert look(desk, ended).next_look_at == desk.now


def test_one_whose_failure_is_kept_while_it_is_closed_stays_open(
    desk: Desk, ended: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([False, True])  # the case turns away between the question and the closing
    monkeypatch.setattr(watch, "waits_to_be_judged", lambda attempt: next(answers))
    after = look(desk, ended)
    assert (after.closed_at, after.next_look_at) == (None, desk.now + watch.JUDGED_AFTER)
    assert not waits_to_be_judged(after)
