"""What a rule has earned: proposed by the product, decided by a person; lost at once."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from recovery.access import Forbidden, actor_for
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.policy import DEFAULT_RULES
from recovery.core.types import DecisionKind, FailureClass, Mode, Outcome, Rejection
from recovery.models import Decision, Event, Incident, PolicyVersion, Promotion
from recovery.pipeline import by_hand, earned
from recovery.pipeline.invalid import Invalid
from recovery.slurm.simulator import Fault, FaultKind
from tests.factories import ago, make_action, make_decision, make_incident, make_policy, make_recommendation
from tests.pipeline.sim_desk import RHYTHM, SimDesk
from tests.pipeline.sim_desk import make_policy as make_sim_policy

RULE: dict[str, Any] = {
    "name": "hardware", "classes": ["gpu_hardware"], "mode": "approve", "promote": {"decided": 5, "agreement": 0.5},
}  # fmt: skip


def write(*, created_at: Any = None, **changes: Any) -> PolicyVersion:
    rules = {**DEFAULT_RULES, "rules": [{**RULE, **changes}]}
    return make_policy(rules=rules, created_at=created_at or ago(86_400))


def past(
    kind: DecisionKind = DecisionKind.APPROVE, outcome: Outcome = Outcome.RECOVERED, *, at: Any = None, **fields: Any
) -> Incident:
    """A closed case that the rule judged, carried out where it was decided so."""
    incident = make_incident(
        state=IncidentState.CLOSED, outcome=outcome, failure_class=FailureClass.GPU_HARDWARE, closed_at=ago(60)
    )
    row = make_recommendation(incident=incident, rule="hardware")
    make_decision(recommendation=row, kind=kind, at=at or ago(410), **fields)
    if kind in (DecisionKind.APPROVE, DecisionKind.AUTO):
        make_action(recommendation=row, state=ActionState.CONVERGED, called_at=ago(400))
    return incident


@pytest.mark.django_db
def test_a_promotion_is_proposed_when_the_bar_is_met_and_not_twice() -> None:
    write()
    cases = [past() for _ in range(5)]
    earned.review(cases[3], now=timezone.now())
    earned.review(cases[4], now=timezone.now())
    row = Promotion.objects.get()
    assert (row.rule, row.figures["agreed"], row.policy.number) == ("hardware", 5, 1)
    assert row.reason.startswith("people agreed with 5 of 5; at 95 % that is at least 57%")
    assert Event.objects.get(verb="promotion.proposed").subject_id == str(row.pk)
    assert PolicyVersion.objects.count() == 1  # nothing changes by itself


@pytest.mark.django_db
@pytest.mark.parametrize(
    "also",
    [
        {"kind": DecisionKind.APPROVE, "outcome": Outcome.FROM_SCRATCH},
        {"kind": DecisionKind.REJECT, "rejection": Rejection.WRONG_CLASS, "outcome": Outcome.GAVE_UP},
    ],
)
def test_none_is_proposed_where_it_went_wrong_or_people_disagree(also: dict[str, Any]) -> None:
    write(promote={"decided": 5, "agreement": 0.55})
    cases = [past() for _ in range(5)] + [past(**also)]
    earned.review(cases[-1], now=timezone.now())
    assert not Promotion.objects.exists()


@pytest.mark.django_db
def test_what_a_rule_did_before_it_was_changed_is_not_its_record() -> None:
    write(classes=["gpu_hardware", "node_fault"], created_at=ago(9000))
    old = [past(at=ago(8000)) for _ in range(5)]
    write(created_at=ago(500))
    earned.review(old[0], now=timezone.now())
    assert not Promotion.objects.exists()
    for _ in range(4):
        last = past()
    write(created_at=ago(5), expires_after_s=600)  # no change of what it matches and does
    earned.review(past(), now=timezone.now())
    assert Promotion.objects.count() == 1
    assert last.pk


@pytest.mark.django_db
def test_a_person_accepts_and_a_new_version_goes_by_itself(admin: User, approver: User) -> None:
    write(shadow=True, mode="auto")
    for _ in range(5):
        last = past()
    earned.review(last, now=timezone.now())
    row = Promotion.objects.get()
    with pytest.raises(Forbidden):
        earned.accept(row.pk, reason="well done", actor=actor_for(approver), now=timezone.now())
    with pytest.raises(Invalid, match="reason"):
        earned.accept(row.pk, reason=" ", actor=actor_for(admin), now=timezone.now())
    made = earned.accept(row.pk, reason="well done", actor=actor_for(admin), now=timezone.now())
    assert (made.number, made.author, made.reason) == (2, "admin", "hardware goes by itself: well done")
    (rule,) = made.rules["rules"]
    assert (rule["mode"], "shadow" in rule) == (Mode.AUTO, False)
    row.refresh_from_db()
    assert (row.decided_by, row.made) == ("admin", made)
    with pytest.raises(Invalid, match="admin decided on it already"):
        earned.reject(row.pk, reason="no", actor=actor_for(admin), now=timezone.now())


@pytest.mark.django_db
def test_a_rejected_promotion_comes_back_only_after_as_many_decisions_more(admin: User) -> None:
    write()
    for _ in range(5):
        last = past()
    earned.review(last, now=timezone.now())
    earned.reject(Promotion.objects.get().pk, reason="not yet", actor=actor_for(admin), now=timezone.now())
    for _ in range(4):
        earned.review(past(), now=timezone.now())
    assert Promotion.objects.count() == 1
    earned.review(past(), now=timezone.now())
    assert Promotion.objects.count() == 2


@pytest.mark.django_db
def test_a_promotion_of_a_rule_that_was_changed_since_is_refused(admin: User) -> None:
    write()
    for _ in range(5):
        last = past()
    earned.review(last, now=timezone.now())
    write(classes="*", created_at=ago(1))
    with pytest.raises(Invalid, match="was changed since"):
        earned.accept(Promotion.objects.get().pk, reason="go", actor=actor_for(admin), now=timezone.now())
    assert PolicyVersion.objects.count() == 2


@pytest.mark.django_db
@pytest.mark.parametrize("outcome", [Outcome.FALSE_ALARM, Outcome.SAME_FAILURE])
def test_a_wrongful_action_demotes_at_once_and_says_so(outcome: Outcome) -> None:
    write(mode="auto")
    for _ in range(3):
        past(DecisionKind.AUTO)
    wrong = past(DecisionKind.AUTO, outcome)
    earned.review(wrong, now=timezone.now())
    made = PolicyVersion.objects.get(number=2)
    assert made.rules["rules"][0]["mode"] == Mode.APPROVE
    assert (made.author, made.reason) == (
        "Recovery Desk", f"hardware asks again: Incident {wrong.pk} ended as a wrongful action.",
    )  # fmt: skip
    assert Event.objects.get(verb="policy.demoted").data["rule"] == "hardware"
    earned.review(wrong, now=timezone.now())
    assert PolicyVersion.objects.count() == 2


@pytest.mark.django_db
def test_an_undone_action_is_a_wrongful_one() -> None:
    write(mode="auto")
    case = past(DecisionKind.AUTO)
    action = case.actions.get()
    undo = make_recommendation(incident=case, superseded_at=timezone.now(), rule="")
    make_action(recommendation=undo, state=ActionState.CONVERGED, parameters={"undoes": action.pk})
    earned.review(case, now=timezone.now())
    assert PolicyVersion.objects.latest("number").rules["rules"][0]["mode"] == Mode.APPROVE


@pytest.mark.django_db(transaction=True)
def test_two_workers_that_close_cases_at_once_demote_and_propose_once() -> None:
    write()
    cases = [past() for _ in range(6)]
    start = threading.Barrier(2)

    def look(case: Incident) -> None:
        start.wait()
        earned.review(case, now=timezone.now())
        connection.close()

    threads = [threading.Thread(target=look, args=(case,)) for case in cases[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert Promotion.objects.count() == 1


@pytest.mark.django_db
def test_the_record_is_read_in_as_many_queries_however_long_it_is(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for count in (2, 6):
        for _ in range(count):
            past()
        with django_assert_num_queries(3):
            (card,) = earned.cards(since=ago(86_400))
    assert (card.rule, card.recommended, card.agreement.hits, card.recovered.of) == ("hardware", 8, 8, 8)


# --- the whole way, on the simulated cluster --------------------------------------------------------------------------
def test_a_rule_is_promoted_by_what_it_did_and_demoted_by_one_wrong_action(
    db: None, tmp_path: Path, settings: Settings, approver: User, admin: User
) -> None:
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    for name, value in RHYTHM.items():
        setattr(settings, name, value)
    make_sim_policy(RULE)
    sim = SimDesk(tmp_path)

    def fail(number: int) -> None:
        fault = Fault(kind=FaultKind.ECC, step=23, rank=0)
        sim.submit(fault, name=f"job-{number}", nodes=1, total_steps=45, step_time_s=0.5)
        sim.run_until(lambda: Incident.objects.filter(run__name=f"job-{number}").exists())

    for number in range(5):
        fail(number)
        sim.run_until(sim.in_state(IncidentState.AWAITING_DECISION))
        sim.approve(approver)
        sim.run_until(lambda: sim.incident.state == IncidentState.CLOSED)
        assert sim.incident.outcome == Outcome.RECOVERED
        sim.now += timedelta(minutes=5)  # far enough from the next one to be no outbreak
    row = Promotion.objects.get()
    assert row.figures["agreed"] == 5
    earned.accept(row.pk, reason="earned", actor=actor_for(admin), now=sim.now)

    fail(5)
    sim.run_until(lambda: Decision.objects.filter(kind=DecisionKind.AUTO).exists())
    sim.run_until(lambda: sim.incident.state != IncidentState.ACTING)
    by_hand.close_incident(
        sim.incident.pk, outcome=Outcome.FALSE_ALARM, reason="the GPU is fine", actor=actor_for(admin), now=sim.now
    )
    newest = PolicyVersion.objects.latest("number")
    assert (newest.number, newest.author, newest.rules["rules"][0]["mode"]) == (3, "Recovery Desk", Mode.APPROVE)
    sim.now += timedelta(minutes=5)
    fail(6)
    sim.run_until(sim.in_state(IncidentState.AWAITING_DECISION))
