"""What deciding takes: how many people, of which role, in spite of what; and what people stop for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from recovery.access import Actor, Forbidden, actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.policy import DEFAULT_RULES, check_rules
from recovery.core.types import DecisionKind, Mode, Rejection
from recovery.models import Action, Agreement, Decision, Event, KillSwitch, Membership, PolicyVersion, Recommendation
from recovery.models.access import Role, Scope
from recovery.pipeline import decide, pauses, ruling
from recovery.pipeline.decide import AlreadyDecided, Frozen, OutOfDate
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.others import in_records
from tests.access.people import make_person
from tests.factories import make_cluster, make_user
from tests.pipeline.conftest import Desk

S = IncidentState
Ask = Callable[..., Desk]


def write_policy(desk: Desk, *, freezes: list[dict[str, Any]] | None = None, **rule: Any) -> None:
    document = {
        **DEFAULT_RULES,
        "rules": [{"name": "hardware", "classes": ["gpu_hardware"], "mode": "approve", **rule}],
        "breaker": {**DEFAULT_RULES["breaker"], "max_excluded_percent": 60},
        "freezes": freezes or [],
    }
    assert check_rules(document) == []
    number = PolicyVersion.objects.count() + 1
    PolicyVersion.objects.create(number=number, rules=document, author="admin", reason="test", created_at=desk.now)


@pytest.fixture
def ask(desk: Desk) -> Ask:
    """`ask(approval={…})`: a crash whose recommendation is judged by one rule with these fields."""

    def crash(**rule: Any) -> Desk:
        write_policy(desk, **rule)
        desk.run_with_checkpoint()
        desk.crash_with_ecc()
        return desk

    return crash


@pytest.fixture
def second(db: None) -> Actor:
    return actor_for(make_user(role=Role.APPROVER, username="second"))


def approve(desk: Desk, who: Actor, **more: Any) -> Decision | Agreement:
    row = desk.recommendation
    return decide.approve(row.pk, shown_hash=row.hash, actor=who, now=desk.now, **more)


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
def at_once(*presses: Callable[[], object]) -> list[str]:
    """What came of presses of different people at the same moment, by the name of the answer's class."""
    start, answers = threading.Barrier(len(presses)), []

    def press(do: Callable[[], object]) -> None:
        start.wait()
        try:
            answers.append(type(do()).__name__)
        except (AlreadyDecided, OutOfDate, Invalid) as refused:
            answers.append(type(refused).__name__)
        finally:
            connection.close()

    threads = [threading.Thread(target=press, args=(do,)) for do in presses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return sorted(answers)


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


# --- withdrawing, taking over, the kill switch, snoozing --------------------------------------------------------------
def test_a_decision_is_taken_back_before_it_is_begun_and_not_after(ask: Ask, approver: User) -> None:
    desk, actor = ask(), actor_for(approver)
    approve(desk, actor)
    action = Action.objects.get()
    with pytest.raises(ValueError, match="Give a reason"):
        decide.withdraw(action.pk, reason="", actor=actor, now=desk.now)
    decide.withdraw(action.pk, reason="wrong tab", actor=actor, now=desk.now)
    action.refresh_from_db()
    assert (action.state, desk.incident.state) == (ActionState.REFUSED, S.WATCHING)
    assert action.detail == "Withdrawn by approver: wrong tab"
    desk.tick(times=5)
    assert desk.slurm.calls == []


def test_what_was_begun_is_not_withdrawn(ask: Ask, approver: User) -> None:
    desk, actor = ask(), actor_for(approver)
    approve(desk, actor)
    desk.tick(times=3)
    action = Action.objects.get()
    assert action.state != ActionState.INTENDED
    with pytest.raises(OutOfDate, match="begun already"):
        decide.withdraw(action.pk, reason="late", actor=actor, now=desk.now)


def test_a_run_that_somebody_took_over_is_left_alone_until_it_is_given_back(
    ask: Ask, operator: User, viewer: User
) -> None:
    desk, actor = ask(mode="auto"), actor_for(operator)
    run = desk.incident.run
    with pytest.raises(Forbidden):
        pauses.take_over(run.pk, reason="mine", actor=actor_for(viewer), now=desk.now)
    pauses.take_over(run.pk, reason="I debug it", actor=actor, now=desk.now)
    desk.tick(times=8)
    assert (desk.incident.state, desk.recommendation.mode) == (S.WATCHING, Mode.OBSERVE)
    assert "operator has taken over: I debug it" in desk.recommendation.mode_reason
    with pytest.raises(Invalid, match="operator has taken over already"):
        pauses.take_over(run.pk, reason="me too", actor=actor, now=desk.now)
    assert desk.slurm.calls == []
    pauses.give_back(run.pk, reason="done", actor=actor, now=desk.now)
    desk.tick(times=8)
    assert Decision.objects.get().kind == DecisionKind.AUTO
    assert desk.slurm.calls != []


def test_taking_over_takes_the_question_away(ask: Ask, operator: User) -> None:
    desk = ask()
    assert desk.incident.state == S.AWAITING_DECISION
    pauses.take_over(desk.incident.run_id, reason="mine", actor=actor_for(operator), now=desk.now)
    assert desk.incident.state == S.WATCHING


def test_the_kill_switch_stops_every_policy_also_what_was_decided_and_not_begun(
    ask: Ask, operator: User, admin: User
) -> None:
    desk = ask(mode="auto")
    assert desk.incident.state == S.RECOMMENDED
    desk.now += timedelta(seconds=10)
    ruling.apply_policy(desk.incident, desk.recommendation, now=desk.now)
    assert Action.objects.get().state == ActionState.INTENDED
    pauses.pull_kill_switch(reason="fire drill", actor=actor_for(operator), now=desk.now)
    desk.tick(times=8)
    assert desk.slurm.calls == []
    assert desk.incident.state == S.AWAITING_DECISION
    assert "automation is paused (everywhere, by operator: fire drill)" in desk.recommendation.mode_reason
    with pytest.raises(Forbidden):
        pauses.reset_kill_switch(reason="over", actor=actor_for(operator), now=desk.now)
    pauses.reset_kill_switch(reason="over", actor=actor_for(admin), now=desk.now)
    assert not KillSwitch.objects.exists()
    assert [event.verb for event in Event.objects.filter(subject_kind="desk")] == [
        "automation.stopped",
        "automation.armed",
    ]


def pulled_while_read(desk: Desk, operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next action reads the scheduler one last time, and somebody pulls the switch meanwhile."""

    def read(*given: Any) -> Any:
        if not KillSwitch.objects.exists():
            pauses.pull_kill_switch(reason="stop", actor=actor_for(operator), now=desk.now)
        return in_records(*given)

    monkeypatch.setattr("recovery.pipeline.veto.in_records", read)


def test_a_kill_switch_that_is_pulled_while_the_scheduler_is_read_stops_what_the_policy_decided(
    ask: Ask, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = ask(mode="auto")
    pulled_while_read(desk, operator, monkeypatch)
    desk.tick(times=10)
    assert desk.slurm.calls == []
    action = Action.objects.get()
    assert (action.state, action.called_at, action.calls) == (ActionState.REFUSED, None, [])
    assert action.detail == "Nothing was done: automation is paused (everywhere, by operator: stop)."
    assert desk.incident.state == S.AWAITING_DECISION


def test_what_people_decided_goes_on_in_spite_of_it(
    ask: Ask, operator: User, approver: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = ask()
    pulled_while_read(desk, operator, monkeypatch)
    approve(desk, actor_for(approver))
    desk.tick(times=4)
    assert KillSwitch.objects.exists()
    assert desk.slurm.calls != []


@pytest.mark.parametrize("override", ["", "the launch depends on it"])
def test_what_was_decided_is_not_begun_in_a_freeze_that_was_not_overridden(
    ask: Ask, admin: User, override: str
) -> None:
    """An approval may wait for its turn, or for Slurm to answer, into a freeze."""
    freeze = {"name": "launch week", "from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    desk = ask(freezes=[freeze] if override else [])
    assert isinstance(approve(desk, actor_for(admin), override=override), Decision)
    write_policy(desk, freezes=[freeze])
    desk.tick(times=4)
    assert bool(desk.slurm.calls) is bool(override)
    if not override:
        assert "launch week has begun, a freeze until 2100-01-01 00:00 UTC" in Action.objects.get().detail
        assert desk.incident.state == S.AWAITING_DECISION


def test_what_a_policy_decided_and_is_not_begun_is_judged_by_the_version_that_holds_by_then(ask: Ask) -> None:
    """A rule that is demoted, say, asks at once."""
    desk = ask(mode="auto")
    incident, now = desk.incident, desk.now + timedelta(seconds=60)
    ruling.apply_policy(incident, desk.recommendation, now=now)
    assert Action.objects.get().state == ActionState.INTENDED
    write_policy(desk)
    desk.tick(times=6)
    assert desk.slurm.calls == []
    assert Action.objects.get().detail == "Nothing was done: policy version 2 holds by now."
    assert desk.incident.state == S.AWAITING_DECISION


@pytest.mark.django_db(transaction=True)
def test_two_who_pull_the_kill_switch_at_once_pull_one(desk: Desk, operator: User, admin: User) -> None:
    answers = at_once(
        lambda: pauses.pull_kill_switch(reason="a", actor=actor_for(operator), now=desk.now),
        lambda: pauses.pull_kill_switch(reason="b", actor=actor_for(admin), now=desk.now),
    )
    assert answers == ["Invalid", "NoneType"]
    assert KillSwitch.objects.count() == 1


def test_a_snoozed_question_comes_back_in_time_or_when_something_is_new(ask: Ask, operator: User) -> None:
    desk, actor = ask(), actor_for(operator)
    incident = desk.incident
    with pytest.raises(Invalid, match="at most 24 hours"):
        pauses.snooze(incident.pk, until=desk.now + timedelta(days=2), actor=actor, now=desk.now)
    pauses.snooze(incident.pk, until=desk.now + timedelta(hours=1), actor=actor, now=desk.now)
    assert desk.incident.snoozed_by == "operator"
    write_policy(desk, mode="approve", max_restarts=1)  # another policy: the question is asked anew
    desk.tick(times=4)
    assert desk.incident.snoozed_until is None
