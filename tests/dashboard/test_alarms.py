"""Alarms on the pages of their runs and on the first page."""

from __future__ import annotations

import pytest

from recovery.core.types import JobState
from tests.dashboard.test_runs_and_nodes import Read
from tests.factories import ago, make_alarm, make_attempt, make_job

pytestmark = pytest.mark.django_db


def test_an_alarm_stands_on_its_runs_page_with_its_remedy_until_it_ends(read: Read) -> None:
    alarm = make_alarm(evidence=[{"text": "loss: <nan>", "source": "train.out"}])
    page = read(f"/runs/{alarm.run_id}/")
    assert alarm.reason in page
    assert alarm.remedy in page
    assert "loss: &lt;nan&gt;" in page
    alarm.ended_at = ago(1)
    alarm.save()
    assert alarm.reason not in read(f"/runs/{alarm.run_id}/")


def test_the_first_page_lists_the_alarms_that_hold(read: Read) -> None:
    assert "No alarm." in read("/")
    alarm = make_alarm()
    over = make_alarm(reason="This is over.", ended_at=ago(1))
    page = read("/")
    assert alarm.reason in page
    assert f"/runs/{alarm.run_id}/" in page
    assert over.reason not in page


def test_an_alarm_needs_nobody(read: Read) -> None:
    make_alarm(attempt=make_attempt(job=make_job(state=JobState.RUNNING), state=JobState.RUNNING))
    assert "Nothing needs you." in read("/")
