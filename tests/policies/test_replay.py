"""`manage.py replay`: a draft on recorded history."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from recovery import policy_files
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.core.types import DecisionKind, FailureClass, Outcome, Rejection
from recovery.models import Incident
from recovery.pipeline.recorded import recorded
from tests.factories import ago, make_action, make_decision, make_incident, make_node, make_recommendation

pytestmark = pytest.mark.django_db

DIAGNOSIS = {
    "failure_class": "gpu_hardware", "restart": "yes", "exclude": "nodes", "nodes": ["gpu-02"], "confidence": 0.97,
    "reason": "A GPU fell off the bus (gpu-02).",
}  # fmt: skip


def past(kind: DecisionKind, outcome: Outcome, **fields: Any) -> Incident:
    incident = make_incident(
        state=IncidentState.CLOSED, outcome=outcome, failure_class=FailureClass.GPU_HARDWARE, diagnosis=DIAGNOSIS
    )
    row = make_recommendation(incident=incident, created_at=ago(3600), restore_step=840)
    make_decision(recommendation=row, kind=kind, at=ago(3000), **fields)
    if kind is DecisionKind.APPROVE:
        make_action(recommendation=row, state=ActionState.CONVERGED, called_at=ago(2990), intended_at=ago(3000))
    if not incident.run.cluster.nodes.exists():
        for number in range(20):
            make_node(cluster=incident.run.cluster, name=f"gpu-{number:02d}")
    return incident


@pytest.fixture
def draft(tmp_path: Path) -> str:
    rules = {**DEFAULT_RULES, "rules": [{"name": "hardware", "classes": ["gpu_hardware"], "mode": "auto"}]}
    file = tmp_path / "draft.yaml"
    file.write_text(policy_files.write(rules), encoding="utf-8")
    return str(file)


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("replay", *arguments, stdout=out)
    return out.getvalue()


def test_a_draft_is_told_beside_what_people_did(draft: str) -> None:
    past(DecisionKind.APPROVE, Outcome.RECOVERED)
    refused = past(DecisionKind.REJECT, Outcome.GAVE_UP, rejection=Rejection.WRONG_CLASS)
    told = json.loads(run(draft, "--json"))
    assert (told["count"], told["by_mode"]["auto"], told["against_people"]) == (2, 2, [refused.pk])
    assert told["saved_s"] == pytest.approx(600, abs=5)
    assert told["cases"][0]["rule"] == "hardware"
    words = run(draft)
    assert "2 recommendations: 0 observe, 0 approve, 2 auto. 0 were decided by policy in reality." in words
    assert f"incident {refused.pk} (gpu_hardware): reject, gave_up." in words


def test_without_a_file_what_holds_is_replayed_and_it_observes_where_nothing_does() -> None:
    assert run() == "No recommendation was made in this time: there is nothing to replay.\n"
    past(DecisionKind.APPROVE, Outcome.RECOVERED)
    assert "1 recommendations: 1 observe, 0 approve, 0 auto." in run()
    assert "nothing to replay" in run("--days", "0.01")
    with pytest.raises(CommandError, match="--days must be"):
        run("--days", "0")


def test_history_is_read_in_as_many_queries_however_long_it_is(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for count in (1, 5):
        for _ in range(count):
            past(DecisionKind.APPROVE, Outcome.RECOVERED)
        with django_assert_num_queries(5):
            found = recorded(since=timezone.now() - timedelta(days=1), until=timezone.now())
    assert len(found) == 6
