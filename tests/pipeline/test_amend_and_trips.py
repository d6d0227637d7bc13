"""What a person proposes in the place of a waiting question; and what the breaker stops."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from recovery.access import actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.core.types import ActionKind, DecisionKind
from recovery.models import Action, Agreement, Cluster, Decision, Event, PolicyVersion
from recovery.models.access import Role
from recovery.pipeline import decide, propose
from recovery.pipeline.earned import decided
from tests.factories import make_user
from tests.pipeline.asking import at_once, write_policy
from tests.pipeline.conftest import Desk

S = IncidentState


def write_auto(desk: Desk, *, percent: int) -> None:
    document = {
        **DEFAULT_RULES,
        "rules": [{"name": "hardware", "classes": ["gpu_hardware"], "mode": "auto"}],
        "breaker": {**DEFAULT_RULES["breaker"], "max_excluded_percent": percent},
    }
    number = PolicyVersion.objects.count() + 1
    PolicyVersion.objects.create(number=number, rules=document, author="admin", reason="test", created_at=desk.now)


def test_what_is_proposed_instead_amends_and_takes_what_the_rule_asks_for(desk: Desk, approver: User) -> None:
    approval = {"four_eyes": True, "role": "approver"}
    rule = {"name": "hardware", "classes": ["gpu_hardware"], "mode": "approve", "approval": approval}
    document = {**DEFAULT_RULES, "rules": [rule]}
    PolicyVersion.objects.create(number=1, rules=document, author="admin", reason="test", created_at=desk.now)
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    before, proposer = desk.recommendation, actor_for(approver)
    row = propose.propose(
        desk.incident.pk, action=ActionKind.REQUEUE, parameters={}, exclude_nodes=(), reason="n2 was repaired",
        actor=proposer, client=desk.slurm, now=desk.now,
    )  # fmt: skip
    amended = Decision.objects.get(recommendation=before)
    assert (amended.kind, amended.actor_name, amended.hash) == (DecisionKind.AMEND, "approver", before.hash)
    assert (row.amends_id, row.rule, row.approval["four_eyes"], row.mode) == (before.pk, "hardware", True, "approve")
    alone = decide.approve(row.pk, shown_hash=row.hash, actor=proposer, now=desk.now)
    assert isinstance(alone, Agreement), "who proposed it is not the only one to agree"
    other = actor_for(make_user(role=Role.APPROVER, username="second"))
    assert isinstance(decide.approve(row.pk, shown_hash=row.hash, actor=other, now=desk.now), Decision)
    assert [each.kind for each in decided(since=desk.now - timedelta(days=1))] == [DecisionKind.AMEND]


def test_only_what_waits_is_amended_and_a_persons_own_proposal_is_only_replaced(desk: Desk, operator: User) -> None:
    desk.run_with_checkpoint()
    desk.crash_with_ecc()  # nobody wrote a policy: it observes
    actor = actor_for(operator)
    for action, nodes in ((ActionKind.REQUEUE, ()), (ActionKind.REQUEUE_EXCLUDING, ("n1",))):
        propose.propose(
            desk.incident.pk, action=action, parameters={}, exclude_nodes=nodes, reason="it must be", actor=actor,
            client=desk.slurm, now=desk.now,
        )  # fmt: skip
    assert not Decision.objects.exists()
    rows = list(desk.incident.recommendations.order_by("pk"))
    assert [row.amends_id for row in rows] == [None, None, rows[1].pk]


@pytest.mark.django_db(transaction=True)
def test_an_approval_and_an_amendment_at_the_same_moment_know_one_winner(
    desk: Desk, approver: User, operator: User
) -> None:
    write_policy(desk)
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    row, incident, who, other = desk.recommendation, desk.incident, actor_for(approver), actor_for(operator)
    at_once(
        lambda: decide.approve(row.pk, shown_hash=row.hash, actor=who, now=desk.now),
        lambda: propose.propose(
            incident.pk, action=ActionKind.REQUEUE, parameters={}, exclude_nodes=(), reason="n2 was repaired",
            actor=other, client=desk.slurm, now=desk.now,
        ),
    )  # fmt: skip
    made = Decision.objects.get(recommendation=row)
    approved = made.kind == DecisionKind.APPROVE
    assert Action.objects.count() == approved
    assert desk.incident.state == (S.ACTING if approved else S.AWAITING_DECISION)
    assert desk.recommendation.pk == row.pk if approved else desk.recommendation.amends_id == row.pk


def test_what_the_breaker_stops_is_kept_until_it_lets_something_through(desk: Desk) -> None:
    write_auto(desk, percent=1)
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick(times=8)
    assert desk.incident.state == S.AWAITING_DECISION
    cluster = Cluster.objects.get()
    assert cluster.tripped_at is not None
    assert "nodes would be excluded, 1 percent are allowed" in cluster.tripped_reason
    told = Event.objects.get(verb="automation.tripped")
    assert (told.subject_kind, told.reason) == ("cluster", f"The breaker stopped it: {cluster.tripped_reason}")
    write_auto(desk, percent=60)  # the question is asked anew, and nothing stops it now
    desk.now += timedelta(seconds=60)
    desk.tick_until(lambda: desk.slurm.calls != [])
    through = Cluster.objects.get()
    assert (through.tripped_at, through.tripped_reason) == (None, "")


def test_a_pause_is_no_trip_of_the_breaker(desk: Desk) -> None:
    write_auto(desk, percent=60)
    Cluster.objects.update(paused_at=desk.now, paused_by="operator", paused_reason="maintenance")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick(times=8)
    assert "automation is paused (maintenance)" in desk.recommendation.mode_reason
    assert Cluster.objects.get().tripped_at is None
