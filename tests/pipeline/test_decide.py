"""One decision on exactly what was shown, by somebody who may."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from recovery.access import Forbidden, actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.types import DecisionKind, JobState, Mode, Outcome
from recovery.models import Action, Agreement, Decision, PolicyVersion
from recovery.pipeline import by_hand, decide
from recovery.pipeline.invalid import Invalid
from tests.pipeline.conftest import ECC, Desk

Policy = Callable[..., PolicyVersion]


@pytest.fixture
def asked(desk: Desk, policy: Policy) -> Desk:
    """A case that waits for a decision."""
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    assert desk.incident.state == IncidentState.AWAITING_DECISION
    return desk


def approve(desk: Desk, user: object, shown_hash: str | None = None) -> Decision | Agreement:
    row = desk.recommendation
    actor = actor_for(user)  # type: ignore[arg-type]
    return decide.approve(row.pk, shown_hash=shown_hash or row.hash, actor=actor, now=desk.now)


@pytest.mark.parametrize("name", ["viewer", "operator", "outsider"])
def test_who_lacks_the_permission_decides_nothing(asked: Desk, name: str, request: pytest.FixtureRequest) -> None:
    user = request.getfixturevalue(name)
    row = asked.recommendation
    with pytest.raises(Forbidden, match="approver"):
        approve(asked, user)
    with pytest.raises(Forbidden):
        decide.reject(row.pk, shown_hash=row.hash, actor=actor_for(user), reason="no", now=asked.now)
    assert not Decision.objects.exists()


def test_an_approval_of_something_else_than_what_is_stored_is_refused(asked: Desk, approver: object) -> None:
    with pytest.raises(decide.OutOfDate, match="reload"):
        approve(asked, approver, shown_hash="0" * 64)
    assert not Action.objects.exists()


def test_an_approval_after_the_job_changed_is_refused_and_looked_at_again(asked: Desk, approver: object) -> None:
    row = asked.recommendation
    asked.cluster.jobs.update(restart_count=1)  # as the next poll stores it, before the case is looked at again
    with pytest.raises(decide.OutOfDate, match="changed"):
        decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(approver), now=asked.now)  # type: ignore[arg-type]
    assert not Action.objects.exists()


def test_a_superseded_recommendation_can_no_longer_be_approved(asked: Desk, approver: object) -> None:
    row = asked.recommendation
    asked.slurm.change("1", requeueable=False)
    asked.tick(times=2)
    assert asked.recommendation.pk != row.pk
    with pytest.raises(decide.OutOfDate, match="newer"):
        decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(approver), now=asked.now)  # type: ignore[arg-type]


def test_an_approval_on_a_stale_picture_is_refused(asked: Desk, approver: object) -> None:
    asked.cluster.__class__.objects.update(error="Unable to contact slurm controller")
    with pytest.raises(decide.OutOfDate, match="too old"):
        approve(asked, approver)


def test_the_second_approver_is_told_who_was_first(asked: Desk, approver: object, admin: object) -> None:
    approve(asked, approver)
    row = Decision.objects.get().recommendation
    with pytest.raises(decide.AlreadyDecided, match="approver decided first"):
        decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(admin), now=asked.now)  # type: ignore[arg-type]
    assert Action.objects.count() == 1


def test_a_rejection_needs_a_reason_and_ends_the_question(asked: Desk, approver: object) -> None:
    row, actor = asked.recommendation, actor_for(approver)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reason"):
        decide.reject(row.pk, shown_hash=row.hash, actor=actor, reason="  ", now=asked.now)
    decide.reject(row.pk, shown_hash=row.hash, actor=actor, reason="user is on it", now=asked.now)
    asked.tick(times=5)
    assert asked.incident.state == IncidentState.WATCHING
    assert asked.slurm.calls == []


def test_a_question_that_nobody_answers_expires_and_nothing_is_done(asked: Desk) -> None:
    asked.now = asked.recommendation.expires_at
    asked.tick(times=2)
    assert Decision.objects.get().kind == DecisionKind.EXPIRE
    assert asked.incident.state == IncidentState.WATCHING
    assert asked.slurm.calls == []


def test_a_comment_lowers_autonomy(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    folder = desk.checkpoints
    comment = f'{{"recovery": {{"run": "r", "checkpoint_dir": "{folder}", "mode": "observe"}}}}'
    desk.submit(comment=comment)
    desk.tick()
    desk.start()
    desk.train(1, 2)
    desk.save(2)
    desk.tick(times=3)
    desk.crash_with_ecc()
    desk.tick(times=6)
    assert desk.recommendation.mode == Mode.OBSERVE
    assert desk.slurm.calls == []


def test_an_old_failure_is_not_acted_on_by_policy_alone(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    desk.say(ECC)
    desk.slurm.end()
    desk.now += timedelta(hours=1)  # nobody looked for an hour
    desk.tick(times=8)
    assert desk.incident.state == IncidentState.AWAITING_DECISION
    assert desk.slurm.calls == []


def test_a_node_excluded_by_the_breaker_limit_goes_to_a_person(desk: Desk) -> None:
    rules = {
        "rules": [{"name": "hardware", "classes": ["gpu_hardware"], "mode": "auto"}],
        "default": {"mode": "observe"},
        "breaker": {
            "max_actions_per_hour": 10, "max_excluded_nodes": 0, "max_excluded_percent": 0,
            "fleet_failures": 3, "fleet_window_s": 120,
        },
        "expires_after_s": 3600,
    }  # fmt: skip
    PolicyVersion.objects.create(number=1, rules=rules, author="admin", reason="test", created_at=desk.now)
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick(times=6)
    assert desk.incident.state == IncidentState.AWAITING_DECISION
    assert desk.slurm.calls == []


def test_closing_by_hand_never_claims_a_recovery(asked: Desk, operator: object) -> None:
    actor = actor_for(operator)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="checkpoint"):
        by_hand.close_incident(
            asked.incident.pk, outcome=Outcome.RECOVERED, reason="it is fine", actor=actor, now=asked.now
        )
    with pytest.raises(Invalid, match="reason"):
        by_hand.close_incident(asked.incident.pk, outcome=Outcome.GAVE_UP, reason="", actor=actor, now=asked.now)
    by_hand.close_incident(asked.incident.pk, outcome=Outcome.GAVE_UP, reason="moved on", actor=actor, now=asked.now)
    assert asked.incident.state == IncidentState.CLOSED


def test_a_broken_policy_is_not_saved(admin: object, desk: Desk) -> None:
    actor = actor_for(admin)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="mode"):
        by_hand.save_policy(
            {"rules": [{"name": "x", "classes": "*", "mode": "full"}]}, reason="try", actor=actor, now=desk.now
        )
    assert not PolicyVersion.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_approvers_at_the_same_moment_make_one_decision_and_one_action(
    desk: Desk, policy: Policy, approver: object, admin: object
) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    row = desk.recommendation
    start = threading.Barrier(2)
    answers: list[str] = []

    def click(user: object) -> None:
        start.wait()
        try:
            decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(user), now=desk.now)  # type: ignore[arg-type]
            answers.append("won")
        except (decide.AlreadyDecided, decide.OutOfDate):
            answers.append("lost")
        finally:
            connection.close()

    threads = [threading.Thread(target=click, args=(user,)) for user in (approver, admin)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(answers) == ["lost", "won"]
    assert Decision.objects.count() == Action.objects.count() == 1


def test_a_cancel_while_the_question_is_open_closes_the_case(asked: Desk) -> None:
    asked.slurm.change("1", state=JobState.CANCELLED)
    asked.tick(times=4)
    assert asked.incident.state == IncidentState.CLOSED
