"""What people stop: a decision is withdrawn, a run taken over, the kill switch pulled, a question snoozed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from recovery.access import Forbidden, actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import DecisionKind, Mode
from recovery.models import Action, Decision, Event, KillSwitch
from recovery.pipeline import decide, pauses, ruling
from recovery.pipeline.decide import OutOfDate
from recovery.pipeline.invalid import Invalid
from recovery.pipeline.others import in_records
from tests.pipeline.asking import Ask, approve, at_once, write_policy
from tests.pipeline.conftest import Desk

S = IncidentState


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
