"""Accounting that hangs: each question costs a worker its time-out, so few are asked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings

from recovery.core.types import JobState
from recovery.models import Attempt
from recovery.pipeline.repair import ASK_EVERY, enrich_attempt
from recovery.slurm.base import AttemptRecord, SlurmError, SlurmRefused, SlurmUnreachable
from tests.pipeline.conftest import Desk
from tests.pipeline.polling import poll, the_cluster

HANGS = SlurmUnreachable("no answer within 10 s", tried="sacct")
REFUSES = SlurmRefused("sacct: error: Invalid user", tried="sacct", permanent=True)


def questions(desk: Desk) -> int:
    return len([question for question in desk.slurm.asked if question.startswith("attempts")])


def ask(desk: Desk, *, seconds: float = 0) -> int:
    """All ended attempts are looked at; how often accounting was asked."""
    desk.now += timedelta(seconds=seconds)
    desk.slurm.asked.clear()
    for pk in Attempt.objects.values_list("pk", flat=True):
        enrich_attempt(Attempt.objects.get(pk=pk), client=desk.slurm, now=desk.now)
    return questions(desk)


@pytest.fixture
def ended(desk: Desk) -> Desk:
    """Three jobs that have failed, on a cluster with accounting."""
    desk.slurm.accounting = True
    for job_id in ("1", "2", "3"):
        desk.submit(job_id)
        desk.slurm.start(job_id)
    poll(desk)
    return desk


def silence(desk: Desk, error: SlurmError | None) -> None:
    desk.slurm.silent = error


def test_accounting_that_hangs_is_asked_once_and_then_left_alone(ended: Desk) -> None:
    silence(ended, HANGS)
    assert ask(ended) == 1
    patience = ASK_EVERY.total_seconds() + settings.SLURM_TIMEOUT_S
    assert ask(ended, seconds=patience - 1) == 0
    assert ask(ended, seconds=1) == 1


def test_accounting_that_speaks_again_is_asked_about_every_attempt(ended: Desk) -> None:
    silence(ended, HANGS)
    ask(ended)
    silence(ended, None)
    attempt = Attempt.objects.earliest("pk")
    ended.slurm.history.append(_cancelled(attempt))
    assert ask(ended, seconds=60) == 3
    attempt.refresh_from_db()
    assert attempt.cancelled_by == "ada"


def test_a_question_about_unknown_states_waits_as_well(ended: Desk) -> None:
    silence(ended, HANGS)
    ask(ended)
    silence(ended, None)
    ended.slurm.table.clear()  # the controller forgot them
    ended.slurm.asked.clear()
    poll(ended)
    assert questions(ended) == 0
    poll(ended, seconds=60)
    assert questions(ended) == 1


def test_a_refusal_is_an_answer(ended: Desk) -> None:
    """It comes at once, and may concern one job only."""
    silence(ended, REFUSES)
    assert ask(ended) == 3
    assert the_cluster().accounting_silent_at is None


def test_a_clock_that_was_put_back_makes_no_endless_silence(ended: Desk) -> None:
    silence(ended, HANGS)
    ask(ended)
    silence(ended, None)
    assert ask(ended, seconds=-3600) == 3


def _cancelled(attempt: Attempt) -> AttemptRecord:
    return AttemptRecord(
        job_id=attempt.job.job_id, number=0, state=JobState.CANCELLED, submitted_at=attempt.submitted_at,
        started_at=attempt.started_at, ended_at=attempt.submitted_at + timedelta(seconds=5), exit_code=0,
        exit_signal=15, nodes=("n1",), cancelled_by="ada",
    )  # fmt: skip
