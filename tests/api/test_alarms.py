"""Alarms over REST."""

from __future__ import annotations

import pytest

from recovery.core.types import Evidence, Role
from recovery.pipeline.facts import as_json
from tests.api.test_runs_and_jobs import Ask
from tests.factories import ago, make_alarm

pytestmark = pytest.mark.django_db


def test_alarms_that_hold_come_first_and_can_be_asked_for_alone(api: Ask) -> None:
    over = make_alarm(ended_at=ago(5))
    line = Evidence(text="It saves no more.", source="job.log", role=Role.CAUSE, rule="storage.full", line=7)
    holds = make_alarm(kind="unsaved", evidence=as_json((line,)))
    viewer = api("viewer")
    rows = viewer.get("alarms").rows
    assert [row["id"] for row in rows] == [holds.pk, over.pk]
    assert rows[0]["kind"] == "unsaved"
    assert rows[0]["run"]["id"] == holds.run_id
    assert rows[0]["evidence"][0]["text"] == "It saves no more."
    assert [row["id"] for row in viewer.get("alarms?holds=true").rows] == [holds.pk]
    assert [row["id"] for row in viewer.get("alarms?holds=false").rows] == [over.pk]
    assert [row["id"] for row in viewer.get("alarms?kind=numerics").rows] == [over.pk]
    assert [row["id"] for row in viewer.get(f"alarms?run={holds.run_id}").rows] == [holds.pk]
