"""What deciding takes: how many people, of which role, in spite of what."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from recovery.access import Actor, Forbidden, actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.types import DecisionKind, Mode, Rejection
from recovery.models import Action, Agreement, Decision, Event, Membership, Recommendation
from recovery.models.access import Role, Scope
from recovery.pipeline import decide
from recovery.pipeline.decide import AlreadyDecided, Frozen
from tests.access.people import make_person
from tests.factories import make_cluster, make_user
from tests.pipeline.asking import Ask, approve, at_once

S = IncidentState


# --- who has to agree -------------------------------------------------------------------------------------------------
def test_where_two_must_agree_nothing_is_done_before_the_second_one(ask: Ask, approver: User, second: Actor) -> None:
    desk, first = ask(approval={"count": 2}), actor_for(approver)
    assert isinstance(approve(desk, first, comment="looks right"), Agreement)
    assert (desk.incident.state, Action.objects.count()) == (S.AWAITING_DECISION, 0)
    assert decide.still_missing(desk.recommendation) == 1
    with pytest.raises(AlreadyDecided, match="somebody else has to agree, too"):
        approve(desk, first)
    made = approve(desk, second)
    assert isinstance(made, Decision)
    assert (made.kind, made.actor_name) == (DecisionKind.APPROVE, "second")
    assert [each.actor_name for each in Agreement.objects.all()] == ["approver", "second"]
    assert Action.objects.count() == 1
    told = Event.objects.get(verb="recommendation.agreed")
    assert (told.actor_name, told.reason, told.data["missing"]) == ("approver", "looks right", 1)


def test_one_person_with_a_token_is_still_one_person(ask: Ask, approver: User) -> None:
    desk, page = ask(approval={"count": 2}), actor_for(approver)
    approve(desk, page)
    token = Actor(kind="token", name="approver (token cli)", user_id=approver.pk, permissions=page.permissions)
    with pytest.raises(AlreadyDecided):
        approve(desk, token)
    assert not Decision.objects.exists()


def test_a_rule_asks_for_a_role(ask: Ask, approver: User, admin: User) -> None:
    desk = ask(approval={"role": "admin"})
    with pytest.raises(Forbidden, match="asks for the role admin"):
        approve(desk, actor_for(approver))
    assert isinstance(approve(desk, actor_for(admin)), Decision)


def test_a_rule_asks_for_a_reason(ask: Ask, approver: User) -> None:
    desk = ask(approval={"comment": True})
    with pytest.raises(ValueError, match="asks for a reason"):
        approve(desk, actor_for(approver), comment=" ")
    assert isinstance(approve(desk, actor_for(approver), comment="vendor has it"), Decision)


def test_four_eyes_who_owns_the_job_is_not_the_only_one(ask: Ask, second: Actor) -> None:
    desk = ask(approval={"four_eyes": True})
    owner = actor_for(make_user(role=Role.APPROVER, username=desk.incident.run.user))
    assert isinstance(approve(desk, owner), Agreement)
    assert not Action.objects.exists()
    assert isinstance(approve(desk, second), Decision)


def test_four_eyes_anybody_else_suffices(ask: Ask, second: Actor) -> None:
    assert isinstance(approve(ask(approval={"four_eyes": True}), second), Decision)


def test_four_eyes_an_account_that_was_given_the_owners_name_is_the_owner(ask: Ask, second: Actor) -> None:
    desk = ask(approval={"four_eyes": True, "owner": True})
    mine = make_person(Role.OWNER, Scope.USER, desk.incident.run.user, desk.cluster, username="work.account")
    assert isinstance(approve(desk, actor_for(mine)), Agreement)
    assert isinstance(approve(desk, second), Decision)


def test_a_namesake_on_another_cluster_owns_nothing_here(ask: Ask) -> None:
    desk = ask(approval={"owner": True})
    there = make_person(Role.OWNER, Scope.USER, desk.incident.run.user, make_cluster(name="beta"), username="namesake")
    Membership.objects.create(user=there, role=Role.APPROVER, scope=Scope.PARTITION, name="elsewhere")
    with pytest.raises(Forbidden):
        approve(desk, actor_for(there))
    row = desk.recommendation
    with pytest.raises(Forbidden):
        decide.reject(row.pk, shown_hash=row.hash, actor=actor_for(there), reason="no", now=desk.now)
    assert not Agreement.objects.exists()


@pytest.mark.parametrize("lost", ["role", "account", "everything"])
def test_who_lost_the_say_since_agrees_to_nothing(
    ask: Ask, approver: User, second: Actor, admin: User, lost: str
) -> None:
    desk = ask(approval={"count": 2})
    approve(desk, actor_for(approver))
    match lost:
        case "role":
            approver.memberships.update(role=Role.OPERATOR)
        case "account":
            User.objects.filter(pk=approver.pk).update(is_active=False)
        case _:
            approver.delete()
    assert decide.still_missing(desk.recommendation) == 2
    assert isinstance(approve(desk, second), Agreement)
    assert not Action.objects.exists()
    assert isinstance(approve(desk, actor_for(admin)), Decision)


def test_one_who_rejects_ends_it_whoever_agreed_before(ask: Ask, approver: User, second: Actor) -> None:
    desk = ask(approval={"count": 2})
    approve(desk, actor_for(approver))
    row = desk.recommendation
    decide.reject(
        row.pk, shown_hash=row.hash, actor=second, reason="n2 is it", rejection=Rejection.WRONG_NODE, now=desk.now
    )
    assert desk.incident.state == S.WATCHING
    made = Decision.objects.get()
    assert (made.rejection, made.reason) == (Rejection.WRONG_NODE, "n2 is it")
    assert Event.objects.filter(verb="incident.watching").latest("pk").reason == "Rejected: wrong node: n2 is it"
    with pytest.raises(AlreadyDecided):
        decide.approve(row.pk, shown_hash=row.hash, actor=second, now=desk.now)


def test_a_reason_of_the_short_list_needs_no_words_and_another_does(ask: Ask, approver: User) -> None:
    desk = ask()
    row, actor = desk.recommendation, actor_for(approver)
    with pytest.raises(ValueError, match="Give a reason"):
        decide.reject(row.pk, shown_hash=row.hash, actor=actor, reason="", now=desk.now)
    decide.reject(row.pk, shown_hash=row.hash, actor=actor, reason="", rejection=Rejection.USER_IS_ON_IT, now=desk.now)
    assert Event.objects.filter(verb="incident.watching").latest("pk").reason == "Rejected: user is on it."


# --- races ------------------------------------------------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
def test_two_who_agree_at_the_same_moment_are_two(ask: Ask, approver: User, second: Actor) -> None:
    desk, first = ask(approval={"count": 2}), actor_for(approver)
    answers = at_once(lambda: approve(desk, first), lambda: approve(desk, second))
    assert answers == ["Agreement", "Decision"]
    assert Decision.objects.count() == Action.objects.count() == 1
    assert Agreement.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_an_approval_and_a_rejection_at_the_same_moment_know_one_winner(
    ask: Ask, approver: User, second: Actor
) -> None:
    desk, first = ask(), actor_for(approver)
    row = desk.recommendation
    answers = at_once(
        lambda: approve(desk, first),
        lambda: decide.reject(row.pk, shown_hash=row.hash, actor=second, reason="no", now=desk.now),
    )
    assert answers in (["AlreadyDecided", "Decision"], ["Decision", "OutOfDate"])
    made = Decision.objects.get()
    assert Action.objects.count() == (made.kind == DecisionKind.APPROVE)
    assert desk.incident.state == (S.ACTING if made.kind == DecisionKind.APPROVE else S.WATCHING)


@pytest.mark.django_db(transaction=True)
def test_an_approval_and_the_expiry_at_the_same_moment_know_one_winner(ask: Ask, approver: User) -> None:
    desk, first = ask(), actor_for(approver)
    row, incident = desk.recommendation, desk.incident
    late = row.expires_at
    answers = at_once(
        lambda: approve(desk, first),
        lambda: decide.conclude(
            Recommendation.objects.select_related("incident").get(pk=row.pk), DecisionKind.EXPIRE,
            actor=first, reason="", now=late,
        ),
    )  # fmt: skip
    assert answers in (["AlreadyDecided", "Decision"], ["Decision", "OutOfDate"])
    assert Decision.objects.count() == 1
    incident.refresh_from_db()
    assert incident.state in (S.ACTING, S.WATCHING)


@pytest.mark.django_db(transaction=True)
def test_withdrawing_and_approving_leave_one_truth(ask: Ask, approver: User, second: Actor) -> None:
    desk = ask()
    approve(desk, actor_for(approver))
    action = Action.objects.get()
    answers = at_once(
        lambda: decide.withdraw(action.pk, reason="wait", actor=second, now=desk.now),
        lambda: decide.withdraw(action.pk, reason="wait", actor=actor_for(approver), now=desk.now),
    )
    assert answers == ["Action", "OutOfDate"]
    desk.tick(times=4)
    assert desk.slurm.calls == []


# --- freezes, expiry, escalation --------------------------------------------------------------------------------------
def test_in_a_freeze_only_its_role_decides_and_only_with_a_reason(ask: Ask, approver: User, admin: User) -> None:
    begin = "2020-01-01T00:00:00Z"
    desk = ask(freezes=[{"name": "launch week", "from": begin, "to": "2100-01-01T00:00:00Z"}])
    for who, override in ((approver, "urgent"), (admin, " ")):
        with pytest.raises(Frozen, match=r"launch week: nothing is done until 2100-01-01 00:00 UTC\. admin can"):
            approve(desk, actor_for(who), override=override)
    made = approve(desk, actor_for(admin), override="the launch depends on it")
    assert isinstance(made, Decision)
    assert made.overrode == "launch week"
    assert "in spite of launch week: the launch depends on it" in made.reason


def test_an_expired_question_is_asked_once_more_where_the_policy_says_so(ask: Ask) -> None:
    desk = ask(expires_after_s=60, on_expiry="ask_again")
    first = desk.recommendation
    desk.now += timedelta(seconds=61)
    desk.tick(times=6)
    assert first.decision.kind == DecisionKind.EXPIRE
    assert desk.incident.state == S.AWAITING_DECISION
    again = desk.recommendation
    assert again.pk != first.pk
    desk.now = again.expires_at
    desk.tick(times=6)
    assert desk.incident.state == S.WATCHING
    assert Decision.objects.filter(kind=DecisionKind.EXPIRE).count() == 2


def test_more_people_are_told_once_when_nobody_decides(ask: Ask) -> None:
    desk = ask(escalate={"after_s": 60, "to": ["pager"]})
    assert not Event.objects.filter(verb="recommendation.escalated").exists()
    desk.now += timedelta(seconds=60)
    desk.tick(times=6)
    told = Event.objects.get(verb="recommendation.escalated")
    assert told.data["to"] == ["pager"]
    assert desk.incident.state == S.AWAITING_DECISION


# --- shadow, distance -------------------------------------------------------------------------------------------------
def test_a_rule_in_shadow_asks_and_its_recommendation_says_so(ask: Ask, approver: User) -> None:
    desk = ask(mode="auto", shadow=True)
    desk.tick(times=6)
    row = desk.recommendation
    assert (desk.incident.state, row.mode, row.shadow) == (S.AWAITING_DECISION, Mode.APPROVE, True)
    assert "it would go by itself now" in row.mode_reason
    assert isinstance(approve(desk, actor_for(approver)), Decision)


def test_which_rules_were_passed_over_is_kept(ask: Ask) -> None:
    desk = ask(match={"partitions": ["nowhere"]})
    row = desk.recommendation
    assert (row.rule, row.mode) == ("default", Mode.OBSERVE)
    (passed,) = row.passed_over
    assert passed["rule"] == "hardware"
    assert "not nowhere" in passed["why"]
