"""Runs that fail together: one outbreak, held exclusions, staggered restarts, one end; however many workers look."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery.access import actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.types import ActionKind, FailureClass, Mode, Outcome
from recovery.models import Action, Event, Incident, Outbreak, PolicyVersion, Recommendation
from recovery.pipeline import decide, fleet, propose
from recovery.pipeline.invalid import Invalid
from tests.factories import make_action, make_incident, make_node, make_outbreak, make_recommendation, make_run
from tests.pipeline.conftest import Desk

Policy = Callable[..., PolicyVersion]
S = IncidentState


@pytest.fixture
def asked(desk: Desk, policy: Policy) -> Desk:
    """A case that waits for a decision on an exclusion: the first of those that fail."""
    policy(gpu_hardware="approve")
    for number in range(3, 7):
        make_node(cluster=desk.cluster, name=f"n{number}")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    assert desk.incident.state == S.AWAITING_DECISION
    return desk


@pytest.fixture
def told(desk: Desk) -> Desk:
    """As rows alone: the first of those that fail."""
    make_incident(run=make_run(cluster=desk.cluster), state=S.WATCHING, failed_at=desk.now, detected_at=desk.now)
    return desk


def own(desk: Desk) -> Incident:
    """The case that the desk works on; the others are only told of."""
    return Incident.objects.select_related("run").earliest("pk")


def question(desk: Desk) -> Recommendation:
    return own(desk).recommendations.get(superseded_at=None)


def beside(incident: Incident, count: int = 1, *, later_s: float = 5, **fields: Any) -> list[Incident]:
    """Incidents of other runs of the cluster, which nobody looks at by himself."""
    at = incident.failed_at + timedelta(seconds=later_s)
    return [
        make_incident(
            run=make_run(cluster=incident.run.cluster), state=fields.pop("state", S.WATCHING), failed_at=at,
            detected_at=at, **fields,
        )
        for _ in range(count)
    ]  # fmt: skip


def struck(desk: Desk) -> Outbreak:
    """Two more runs fail within seconds of the desk's own."""
    first = own(desk)
    others = beside(first, 2)
    assert fleet.gather(others[-1], now=desk.now)
    return Outbreak.objects.get()


def test_two_runs_that_fail_together_are_no_outbreak(told: Desk) -> None:
    (other,) = beside(own(told))
    assert not fleet.gather(other, now=told.now)
    assert not Outbreak.objects.exists()


def test_three_are_one_and_all_of_them_join_it(told: Desk) -> None:
    first = own(told)
    outbreak = struck(told)
    assert outbreak.runs == 3
    assert outbreak.began_at == first.failed_at
    assert set(Incident.objects.values_list("outbreak", flat=True)) == {outbreak.pk}
    assert Event.objects.filter(verb="outbreak.opened", subject_id=str(outbreak.pk)).count() == 1
    assert Event.objects.filter(verb="incident.joined_outbreak").count() == 3


def test_the_fourth_joins_and_a_failure_hours_later_does_not(told: Desk) -> None:
    outbreak = struck(told)
    (fourth,) = beside(own(told), later_s=100)
    assert fleet.gather(fourth, now=told.now)
    outbreak.refresh_from_db()
    assert (outbreak.runs, outbreak.last_failed_at) == (4, fourth.failed_at)
    (late,) = beside(own(told), later_s=7200)
    assert not fleet.gather(late, now=told.now)
    assert Outbreak.objects.count() == 1


@pytest.mark.parametrize("fields", [{"failure_class": FailureClass.USER_CODE}, {"outcome": Outcome.FALSE_ALARM}])
def test_what_explains_itself_or_was_none_is_not_counted(fields: dict[str, Any], told: Desk) -> None:
    others = beside(own(told), 2, **fields)
    assert not fleet.gather(others[-1], now=told.now)
    assert not fleet.gather(own(told), now=told.now)


def test_while_it_is_open_no_node_is_left_out_and_when_it_ends_it_is_again(asked: Desk, operator: Any) -> None:
    assert question(asked).exclude_nodes == ["n2"]
    outbreak = struck(asked)
    asked.tick_until(lambda: question(asked).exclude_nodes == [])
    assert question(asked).action == ActionKind.REQUEUE
    assert any(f"held while outbreak {outbreak.pk} is open" in reason for reason in question(asked).reasons)
    asked.tick_until(lambda: own(asked).state == S.AWAITING_DECISION)
    assert fleet.end_outbreak(outbreak, reason="two accidents", actor=actor_for(operator), now=asked.now)
    asked.tick_until(lambda: question(asked).exclude_nodes == ["n2"])
    assert not fleet.end_outbreak(outbreak, reason="again", actor=actor_for(operator), now=asked.now)


def test_the_policy_decides_nothing_by_itself_meanwhile(asked: Desk, policy: Policy) -> None:
    struck(asked)
    policy(gpu_hardware="auto")
    asked.tick_until(lambda: own(asked).state == S.AWAITING_DECISION and question(asked).mode == Mode.APPROVE)
    asked.tick(times=10)
    assert not Action.objects.exists()
    assert "3 failures within 120 s" in question(asked).mode_reason


def test_an_exclusion_that_was_decided_before_is_not_begun_in_it(asked: Desk, approver: Any) -> None:
    row = question(asked)
    decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(approver), now=asked.now)
    outbreak = make_outbreak(incidents=[own(asked)], restart_from=asked.now)
    asked.tick()
    action = Action.objects.get()
    assert (action.state, action.calls) == ("refused", [])
    assert f"held while outbreak {outbreak.pk} is open" in action.detail


@pytest.mark.parametrize(
    "given", [{"exclude_nodes": ["n2"]}, {"action": ActionKind.DRAIN, "parameters": {"node": "n2"}}]
)
def test_a_person_can_take_no_node_away_either_and_is_told_how(
    given: dict[str, Any], asked: Desk, operator: Any
) -> None:
    outbreak = struck(asked)
    asked.tick_until(lambda: own(asked).state == S.AWAITING_DECISION and question(asked).exclude_nodes == [])
    wanted = {"action": ActionKind.REQUEUE_EXCLUDING, "parameters": {}, "exclude_nodes": [], **given}
    with pytest.raises(Invalid, match=f"held while outbreak {outbreak.pk} is open") as refused:
        propose.propose(
            own(asked).pk, reason="it is the node", actor=actor_for(operator), client=asked.slurm,
            now=asked.now, **wanted,
        )  # fmt: skip
    assert "end the outbreak on its page" in str(refused.value)


def _decided(incident: Incident, kind: ActionKind = ActionKind.REQUEUE, **fields: Any) -> Action:
    row = make_recommendation(incident=incident, action=kind, exclude_nodes=[])
    return make_action(recommendation=row, state="intended", called_at=None, calls=[], exclude_nodes=[], **fields)


def test_restarts_begin_one_after_the_other_and_the_wait_costs_no_deadline(desk: Desk) -> None:
    rows = [make_incident(run=make_run(cluster=desk.cluster), state=S.ACTING) for _ in range(3)]
    make_outbreak(incidents=rows, restart_from=desk.now)
    one, two, three = (_decided(Incident.objects.get(pk=row.pk), deadline_at=desk.now) for row in rows)
    assert fleet.wait_for_turn(one, now=desk.now) is None
    begins = fleet.wait_for_turn(two, now=desk.now)
    assert begins == desk.now + timedelta(seconds=20)
    two.refresh_from_db()
    assert two.deadline_at > begins
    assert "waits for its turn" in two.detail
    assert fleet.wait_for_turn(two, now=begins) is None
    assert fleet.wait_for_turn(three, now=begins) == begins + timedelta(seconds=20)


@pytest.mark.parametrize("kind", [ActionKind.HOLD, ActionKind.RESUME, ActionKind.CANCEL])
def test_what_restarts_nothing_never_waits(kind: ActionKind, desk: Desk) -> None:
    row = make_incident(run=make_run(cluster=desk.cluster), state=S.ACTING)
    make_outbreak(incidents=[row], restart_from=desk.now + timedelta(hours=1))
    assert fleet.wait_for_turn(_decided(Incident.objects.get(pk=row.pk), kind), now=desk.now) is None


def test_it_ends_by_itself_when_its_incidents_are_closed(told: Desk) -> None:
    outbreak = struck(told)
    Incident.objects.update(state=S.CLOSED, next_look_at=None)
    fleet.review(now=told.now + timedelta(seconds=60))
    outbreak.refresh_from_db()
    assert outbreak.closed_at is None
    fleet.review(now=told.now + timedelta(seconds=600))
    outbreak.refresh_from_db()
    assert outbreak.closed_reason == "All of its incidents are closed."
    assert Event.objects.filter(verb="outbreak.closed").count() == 1


def test_a_failure_after_its_end_is_none_of_it(told: Desk) -> None:
    outbreak = struck(told)
    Outbreak.objects.update(closed_at=told.now)
    (late,) = beside(own(told), later_s=60)
    assert not fleet.gather(late, now=told.now)
    assert outbreak.incidents.count() == 3


def test_a_large_outbreak_takes_as_many_questions_as_a_small_one(told: Desk) -> None:
    def asked_for(incident: Incident) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert fleet.gather(incident, now=told.now)
        return len([each for each in queries if "recovery_event" not in each["sql"]])

    struck(told)
    (one,) = beside(own(told))
    few = asked_for(one)
    for row in beside(own(told), 8):
        Incident.objects.filter(pk=row.pk).update(outbreak=Outbreak.objects.get())
    (last,) = beside(own(told))
    assert asked_for(last) == few


@pytest.mark.django_db(transaction=True)
def test_workers_that_see_it_at_the_same_moment_open_one(desk: Desk) -> None:
    first = make_incident(run=make_run(cluster=desk.cluster), state=S.WATCHING)
    rows = [first, *beside(first, 3)]
    start = threading.Barrier(len(rows))
    failures: list[Exception] = []

    def look(pk: int) -> None:
        incident = Incident.objects.select_related("run").get(pk=pk)
        start.wait()
        try:
            fleet.gather(incident, now=desk.now)
        except Exception as error:  # noqa: BLE001 - told below
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=look, args=(row.pk,)) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not failures
    assert Outbreak.objects.count() == 1
    assert set(Incident.objects.values_list("outbreak", flat=True)) == {Outbreak.objects.get().pk}
