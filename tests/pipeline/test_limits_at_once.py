"""Limits and the breaker count what several workers begin at the same moment, and what is decided and not begun."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.core.types import ActionKind, DecisionKind, Mode
from recovery.models import Action, Cluster, Decision, Incident, Recommendation
from recovery.pipeline import ruling
from recovery.pipeline.held import nodes_held
from tests.factories import (
    ago,
    make_action,
    make_cluster,
    make_incident,
    make_node,
    make_policy,
    make_recommendation,
    make_run,
)

ONE: dict[str, dict[str, Any]] = {
    "a rule's own limit": {"limits": {"max_actions": 1}},
    "the breaker": {"max_actions_per_hour": 1},
    "the cap on nodes": {"max_excluded_nodes": 1},
}


@pytest.fixture
def cases(request: pytest.FixtureRequest, db: None, settings: Any) -> list[Recommendation]:
    """Two cases of one cluster whose rule goes by itself; by `request.param` it may once."""
    settings.SETTLE_S = 0
    told = dict(request.param)
    rule = {"name": "hardware", "classes": ["gpu_hardware"], "mode": "auto", "limits": told.pop("limits", {})}
    breaker = {**DEFAULT_RULES["breaker"], "max_excluded_percent": 100, "fleet_failures": 50, **told}
    make_policy(rules={**DEFAULT_RULES, "rules": [rule], "breaker": breaker})
    cluster = make_cluster(seen_at=timezone.now())
    found = []
    for name in ("gpu-02", "gpu-03"):
        make_node(cluster=cluster, name=name)
        incident = make_incident(
            run=make_run(cluster=cluster), state=IncidentState.RECOMMENDED, failed_at=ago(30), detected_at=ago(29)
        )
        found.append(make_recommendation(incident=incident, exclude_nodes=[name], created_at=ago(20)))
    return found


def judge(row: Recommendation) -> None:
    incident = Incident.objects.select_related("run__cluster", "attempt__job__cluster").get(pk=row.incident_id)
    ruling.apply_policy(incident, Recommendation.objects.get(pk=row.pk), now=timezone.now())


def modes() -> list[str]:
    return sorted(Recommendation.objects.values_list("mode", flat=True))


@pytest.mark.parametrize("cases", ONE.values(), ids=ONE, indirect=True)
def test_what_is_decided_and_not_begun_counts(cases: list[Recommendation]) -> None:
    for row in cases:
        judge(row)
    assert modes() == [Mode.APPROVE, Mode.AUTO]
    assert Action.objects.get().state == ActionState.INTENDED


@pytest.mark.parametrize("cases", ONE.values(), ids=ONE, indirect=True)
@pytest.mark.django_db(transaction=True)
def test_two_workers_at_the_same_moment_begin_one(cases: list[Recommendation], monkeypatch: pytest.MonkeyPatch) -> None:
    both, real = threading.Barrier(2), ruling.load_of

    def load_of(*given: Any, **more: Any) -> Any:
        """What both saw before either of them went on; unless one waits for the other."""
        seen = real(*given, **more)
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=2)
        return seen

    monkeypatch.setattr(ruling, "load_of", load_of)
    troubles: list[Exception] = []

    def work(row: Recommendation) -> None:
        try:
            judge(row)
        except Exception as error:  # noqa: BLE001 - told below
            troubles.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(row,)) for row in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not troubles
    assert modes() == [Mode.APPROVE, Mode.AUTO]
    assert Decision.objects.filter(kind=DecisionKind.AUTO).count() == Action.objects.count() == 1


def test_a_resume_that_is_not_begun_gives_no_node_back(db: None) -> None:
    cluster: Cluster = make_cluster()
    for kind, state in ((ActionKind.DRAIN, ActionState.CONVERGED), (ActionKind.RESUME, ActionState.INTENDED)):
        row = make_recommendation(
            incident=make_incident(run=make_run(cluster=cluster), state=IncidentState.ACTING), action=kind,
            exclude_nodes=[], parameters={"node": "gpu-02"},
        )  # fmt: skip
        called_at = ago(60) if state is ActionState.CONVERGED else None
        make_action(recommendation=row, parameters=row.parameters, state=state, called_at=called_at)
    assert nodes_held(cluster, now=timezone.now()) == {"gpu-02"}
    Action.objects.filter(kind=ActionKind.RESUME).update(state=ActionState.CONVERGED, called_at=ago(30))
    assert nodes_held(cluster, now=timezone.now()) == set()
    assert nodes_held(cluster, now=timezone.now() + timedelta(days=2)) == set()
