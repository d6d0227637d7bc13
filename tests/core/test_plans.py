"""The plans of all actions: docs/actions.md's table row by row, and what holds whatever is seen in whatever order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.plans import (
    RULES,
    Hold,
    Intent,
    NewJob,
    NodeSeen,
    Seen,
    Step,
    Then,
    TrackerSeen,
    World,
    next_step,
)
from recovery.core.types import ActionKind, JobState

A, S = ActionKind, JobState
PARAMETERS: dict[ActionKind, dict[str, Any]] = {
    A.RELEASE: {"of": "slurm"},
    A.EXTEND_TIME_LIMIT: {"seconds": 7200.0, "from_s": 3600.0},
    A.DRAIN: {"node": "n1"},
    A.RESUME: {"node": "n1", "drained_by": "incident-1-1-0"},
    A.RESTORE_OLDER: {"step": 10, "write": "10", "old": "20", "then": "requeue"},
}
KEY = "incident-1-2-0"
KINDS = list(RULES)


def intent(kind: ActionKind, state: JobState = S.FAILED, *begun: Step, **parameters: Any) -> Intent:
    return Intent(
        kind=kind, exclude_nodes=("n2",) if kind is A.REQUEUE_EXCLUDING else (), attempt_number=0, attempt_state=state,
        attempt_nodes=("n1", "n2"), begun=frozenset(begun),
        parameters={"key": KEY, **PARAMETERS.get(kind, {}), **parameters},
    )  # fmt: skip


def job(state: JobState = S.FAILED, **fields: Any) -> Seen:
    nodes = () if state is S.PENDING else ("n1", "n2")
    base = Seen(
        state=state, restart_count=0, hold=Hold.NONE, requeueable=True, nodes=nodes, excluded_nodes=(),
        time_limit_s=3600.0,
    )  # fmt: skip
    return replace(base, **fields)


NODE = NodeSeen(name="n1", drained=False, down=False, reason="")
OURS = replace(NODE, drained=True, reason="recovery-desk:incident-1-1-0 ECC")
NEW = NewJob(job_id="9", state=S.PENDING, hold=Hold.USER)
TORN = TrackerSeen(content="20", complete=True)


@pytest.mark.parametrize(
    ("kind", "state", "world", "step"),
    [
        (A.RELEASE, S.PENDING, World(job=job(S.PENDING, hold=Hold.LAUNCH)), Step.RELEASE),
        (A.RELEASE, S.PENDING, World(job=job(S.PENDING, hold=Hold.USER)), Step.REFUSE),
        (A.RELEASE, S.PENDING, World(job=job(S.PENDING, hold=Hold.ADMIN)), Step.REFUSE),
        (A.RELEASE, S.PENDING, World(job=job(S.PENDING)), Step.BY_OTHERS),
        (A.HOLD, S.PENDING, World(job=job(S.PENDING)), Step.HOLD),
        (A.HOLD, S.PENDING, World(job=job(S.PENDING, hold=Hold.USER)), Step.BY_OTHERS),
        (A.HOLD, S.RUNNING, World(job=job(S.RUNNING)), Step.HOLD),
        (A.HOLD, S.RUNNING, World(job=job(S.COMPLETING)), Step.WAIT),
        (A.CANCEL, S.RUNNING, World(job=job(S.RUNNING)), Step.CANCEL),
        (A.CANCEL, S.RUNNING, World(job=job(S.RUNNING, nodes=("n7",))), Step.REFUSE),
        (A.CANCEL, S.RUNNING, World(job=job(S.RUNNING, restart_count=1)), Step.REFUSE),
        (A.CANCEL, S.RUNNING, World(job=job(S.CANCELLED)), Step.BY_OTHERS),
        (A.CANCEL, S.RUNNING, World(job=job(S.COMPLETED)), Step.REFUSE),
        (A.EXTEND_TIME_LIMIT, S.RUNNING, World(job=job(S.RUNNING)), Step.SET_TIME_LIMIT),
        (A.EXTEND_TIME_LIMIT, S.RUNNING, World(job=job(S.RUNNING, time_limit_s=5400.0)), Step.REFUSE),
        (A.EXTEND_TIME_LIMIT, S.RUNNING, World(job=job(S.RUNNING, time_limit_s=7200.0)), Step.BY_OTHERS),
        (A.EXTEND_TIME_LIMIT, S.RUNNING, World(job=job(S.COMPLETING)), Step.REFUSE),
        (A.DRAIN, S.FAILED, World(node=NODE), Step.DRAIN_NODE),
        (A.DRAIN, S.FAILED, World(node=replace(NODE, others=("7",))), Step.REFUSE),
        (A.DRAIN, S.FAILED, World(node=replace(NODE, drained=True, reason="vendor")), Step.BY_OTHERS),
        (A.RESUME, S.FAILED, World(node=OURS), Step.RESUME_NODE),
        (A.RESUME, S.FAILED, World(node=replace(OURS, reason="vendor")), Step.REFUSE),
        (A.RESUME, S.FAILED, World(node=replace(OURS, down=True)), Step.REFUSE),
        (A.RESUME, S.FAILED, World(node=NODE), Step.BY_OTHERS),
        (A.RESUBMIT, S.FAILED, World(job=job()), Step.SUBMIT),
        (A.RESUBMIT, S.FAILED, World(job=job(S.CANCELLED)), Step.REFUSE),
        (A.RESUBMIT, S.FAILED, World(job=job(restart_count=1)), Step.REFUSE),
        (A.RESUBMIT, S.FAILED, World(), Step.WAIT),
        (A.RESUBMIT, S.FAILED, World(dropped=True), Step.REFUSE),
        (A.REQUEUE, S.FAILED, World(), Step.WAIT),
        (A.REQUEUE, S.FAILED, World(dropped=True), Step.REFUSE),
        (A.CANCEL, S.RUNNING, World(dropped=True), Step.REFUSE),
        (A.RESTORE_OLDER, S.FAILED, World(job=job(), tracker=TORN), Step.WRITE_TRACKER),
        (A.RESTORE_OLDER, S.FAILED, World(job=job(), tracker=replace(TORN, content="15")), Step.REFUSE),
        (A.RESTORE_OLDER, S.FAILED, World(job=job(), tracker=replace(TORN, complete=False)), Step.REFUSE),
        (A.RESTORE_OLDER, S.RUNNING, World(job=job(S.RUNNING), tracker=TORN), Step.REFUSE),
        (A.RESTORE_OLDER, S.FAILED, World(job=job()), Step.REFUSE),
    ],
)
def test_the_first_step_of_an_action(kind: ActionKind, state: JobState, world: World, step: Step) -> None:
    assert next_step(intent(kind, state), world).step is step


@pytest.mark.parametrize(
    ("kind", "state", "begun", "world", "step"),
    [
        (A.RELEASE, S.PENDING, [Step.RELEASE], World(job=job(S.RUNNING)), Step.CONVERGED),
        (A.HOLD, S.PENDING, [Step.HOLD], World(job=job(S.PENDING, hold=Hold.ADMIN)), Step.CONVERGED),
        (A.HOLD, S.RUNNING, [Step.HOLD], World(job=job(S.FAILED)), Step.CONVERGED),
        (A.CANCEL, S.RUNNING, [Step.CANCEL], World(job=job(S.CANCELLED)), Step.CONVERGED),
        (A.CANCEL, S.RUNNING, [Step.CANCEL], World(job=job(S.COMPLETED)), Step.CONVERGED),
        (A.EXTEND_TIME_LIMIT, S.RUNNING, [Step.SET_TIME_LIMIT], World(job=job(S.RUNNING, time_limit_s=7200.0)),
         Step.CONVERGED),
        (A.EXTEND_TIME_LIMIT, S.RUNNING, [Step.SET_TIME_LIMIT], World(job=job(S.RUNNING, time_limit_s=60.0)),
         Step.FAIL),
        (A.DRAIN, S.FAILED, [Step.DRAIN_NODE], World(node=replace(NODE, drained=True, reason=KEY)), Step.CONVERGED),
        (A.DRAIN, S.FAILED, [Step.DRAIN_NODE], World(node=replace(NODE, drained=True, reason="x")), Step.BY_OTHERS),
        (A.RESUME, S.FAILED, [Step.RESUME_NODE], World(node=NODE), Step.CONVERGED),
        (A.RESUBMIT, S.RUNNING, [Step.SUBMIT], World(job=job(S.RUNNING), new=NEW), Step.CANCEL),
        (A.RESUBMIT, S.RUNNING, [Step.SUBMIT, Step.CANCEL], World(job=job(S.COMPLETING), new=NEW), Step.WAIT),
        (A.RESUBMIT, S.RUNNING, [Step.SUBMIT, Step.CANCEL], World(job=job(S.CANCELLED), new=NEW), Step.RELEASE),
        (A.RESUBMIT, S.RUNNING, [Step.SUBMIT], World(job=job(S.COMPLETED), new=NEW), Step.FAIL),
        (A.RESUBMIT, S.FAILED, [Step.SUBMIT], World(job=job(), new=replace(NEW, hold=Hold.ADMIN)), Step.FAIL),
        (A.RESUBMIT, S.FAILED, [Step.SUBMIT], World(job=job(), new=replace(NEW, state=S.CANCELLED)), Step.FAIL),
        (A.RESUBMIT, S.FAILED, [Step.SUBMIT], World(job=job(), new=replace(NEW, state=S.UNKNOWN)), Step.WAIT),
        (A.RESUBMIT, S.FAILED, [Step.SUBMIT, Step.RELEASE], World(job=job(), new=replace(NEW, hold=Hold.NONE)),
         Step.CONVERGED),
        (A.RESTORE_OLDER, S.FAILED, [Step.WRITE_TRACKER],
         World(job=job(), tracker=replace(TORN, content="10")), Step.REQUEUE),
        (A.RESTORE_OLDER, S.FAILED, [Step.WRITE_TRACKER, Step.REQUEUE], World(job=job(S.RUNNING, restart_count=1)),
         Step.CONVERGED),
    ],
)  # fmt: skip
def test_the_further_steps_of_an_action(
    kind: ActionKind, state: JobState, begun: list[Step], world: World, step: Step
) -> None:
    assert next_step(intent(kind, state, *begun), world).step is step


def test_the_key_goes_on_a_job_before_the_first_call_that_can_carry_it() -> None:
    wanted = replace(intent(A.CANCEL, S.RUNNING), mark="recovery-desk:k")
    assert next_step(wanted, World(job=job(S.RUNNING))).step is Step.SET_ADMIN_COMMENT
    there = job(S.RUNNING, admin_comment="a recovery-desk:k")
    assert next_step(wanted, World(job=there)).step is Step.CANCEL
    tried = replace(wanted, begun=frozenset({Step.SET_ADMIN_COMMENT}))
    assert next_step(tried, World(job=job(S.RUNNING))).step is Step.CANCEL


def test_only_four_actions_may_ever_go_without_a_person() -> None:
    automatic = {kind for kind, rules in RULES.items() if rules.automatic}
    assert automatic == {A.REQUEUE, A.REQUEUE_EXCLUDING, A.RELEASE, A.EXTEND_TIME_LIMIT}


def test_every_action_has_rules_and_says_how_it_is_undone() -> None:
    assert {*RULES} == {*ActionKind} - {A.NOTHING}
    assert all(rules.undo.endswith(".") and rules.then in Then for rules in RULES.values())


def test_what_was_begun_on_a_job_that_is_dropped_since_may_still_show() -> None:
    for begun in (Step.REQUEUE, Step.REQUEUE_HOLD):
        assert next_step(intent(A.REQUEUE, S.FAILED, begun), World(dropped=True)).step is Step.WAIT
    forgotten = intent(A.RESUBMIT, S.FAILED, forgotten=True)
    assert next_step(forgotten, World(dropped=True)).step is Step.SUBMIT


jobs = st.none() | st.builds(
    Seen, state=st.sampled_from(S), restart_count=st.integers(0, 2), hold=st.sampled_from(Hold),
    requeueable=st.booleans(), nodes=st.sampled_from([(), ("n1", "n2"), ("n3",)]),
    excluded_nodes=st.sampled_from([(), ("n2",)]), time_limit_s=st.sampled_from([None, 60.0, 3600.0, 7200.0]),
    admin_comment=st.sampled_from(["", "recovery-desk:k"]),
)  # fmt: skip
nodes = st.none() | st.builds(
    NodeSeen, name=st.just("n1"), drained=st.booleans(), down=st.booleans(),
    reason=st.sampled_from(["", "vendor", KEY, "incident-1-1-0"]), others=st.sampled_from([(), ("7",)]),
)  # fmt: skip
new_jobs = st.none() | st.builds(NewJob, job_id=st.just("9"), state=st.sampled_from(S), hold=st.sampled_from(Hold))
trackers = st.none() | st.builds(TrackerSeen, content=st.sampled_from(["10", "20", "15"]), complete=st.booleans())
worlds = st.builds(World, job=jobs, node=nodes, new=new_jobs, tracker=trackers, dropped=st.booleans())


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(KINDS), state=st.sampled_from([S.FAILED, S.RUNNING, S.PENDING]),
       seen=st.lists(worlds, max_size=8), mark=st.sampled_from(["", "recovery-desk:k"]),
       of=st.sampled_from(["slurm", "us"]), answered=st.booleans())  # fmt: skip
def test_whatever_is_seen_in_whatever_order_no_call_breaks_a_rule(
    kind: ActionKind, state: JobState, seen: list[World], mark: str, of: str, answered: bool
) -> None:
    """Each call is made, and answered or not; what is seen afterwards may be anything at all."""
    begun: set[str] = set()
    for world in seen:
        known = frozenset(begun)
        wanted = replace(intent(kind, state), begun=known, accepted=known if answered else frozenset(), mark=mark)
        if kind is A.RELEASE:
            wanted = replace(wanted, parameters={**wanted.parameters, "of": of})
        found = next_step(wanted, world)
        if not found.step.is_call:
            if found.step is Step.CONVERGED:
                assert begun - {Step.SET_ADMIN_COMMENT} or kind in (A.RESUBMIT, A.RESTORE_OLDER)
            if found.step is Step.REFUSE:
                assert Step.WRITE_TRACKER not in begun  # it can't be said then that nothing was done
                assert not begun - {Step.SET_ADMIN_COMMENT, Step.REQUEUE_HOLD, Step.REQUEUE, Step.SET_TIME_LIMIT}
            if found.step is not Step.WAIT:
                return
            continue
        _check(found.step, world, kind, of)
        if answered and (kind is A.RESUBMIT or (kind is A.RELEASE and of == "us")):
            assert found.step is not Step.RELEASE or Step.RELEASE not in begun  # a hold since then is not ours
        begun.add(found.step)


def _check(step: Step, world: World, kind: ActionKind, of: str) -> None:
    """What may never be done, by what is seen at that moment."""
    job, node = world.job, world.node
    if step is Step.RELEASE and kind is not A.RESUBMIT:
        assert job is not None
        ours = (Hold.ADMIN, Hold.REQUEUE) if of == "us" else (Hold.LAUNCH,)
        assert job.hold in (ours if kind is A.RELEASE else (Hold.REQUEUE,))
    if step is Step.RELEASE and kind is A.RESUBMIT:
        assert world.new is not None
        assert world.new.hold is Hold.USER
    if step in (Step.REQUEUE, Step.REQUEUE_HOLD, Step.CANCEL, Step.HOLD, Step.SET_TIME_LIMIT, Step.WRITE_TRACKER):
        assert job is not None
        assert job.state not in (S.CANCELLED, S.COMPLETING)
    if step is Step.SUBMIT:
        assert world.new is None
    if step is Step.DRAIN_NODE:
        assert node is not None
        assert (node.drained, node.others) == (False, ())
    if step is Step.RESUME_NODE:
        assert node is not None
        assert "incident-1-1-0" in node.reason
        assert not node.down


# --- federations ------------------------------------------------------------------------------------------------------

OF_ORIGIN = {Step.REQUEUE_HOLD, Step.SET_EXCLUDED_NODES, Step.HOLD, Step.RELEASE}
ON_JOB = set(Step) - {Step.DRAIN_NODE, Step.RESUME_NODE, Step.SUBMIT}
JOB_KINDS = [kind for kind in KINDS if kind not in (A.DRAIN, A.RESUME, A.RESUBMIT)]


@pytest.mark.parametrize("kind", JOB_KINDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_job_that_was_submitted_elsewhere_is_never_held_released_or_excluded_from(
    kind: ActionKind, data: st.DataObject
) -> None:
    state = data.draw(st.sampled_from(S))
    hold, restarts = data.draw(st.sampled_from(Hold)), data.draw(st.integers(0, 1))
    begun = data.draw(st.lists(st.sampled_from(sorted(OF_ORIGIN | {Step.REQUEUE})), max_size=2))
    seen = job(state, hold=hold, restart_count=restarts, federated=True, origin="fa")
    found = next_step(intent(kind, state, *begun), World(job=seen, tracker=TORN))
    assert found.step not in OF_ORIGIN


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_nothing_is_asked_of_a_job_that_another_cluster_has(kind: ActionKind) -> None:
    for state in (S.FAILED, S.REVOKED, S.PENDING, S.RUNNING):
        found = next_step(intent(kind, state), World(job=job(S.REVOKED, federated=True), tracker=TORN))
        assert not found.step.is_call, (kind, state, found)


def test_a_job_of_a_federation_that_runs_is_never_held() -> None:
    """Slurm 22.05 started such a job a second time when it was released."""
    for state, step in ((S.RUNNING, Step.REFUSE), (S.PENDING, Step.HOLD)):
        found = next_step(intent(A.HOLD, state), World(job=job(state, federated=True)))
        assert found.step is step
    held = World(job=job(S.RUNNING, hold=Hold.ADMIN, federated=True))
    assert next_step(intent(A.RELEASE, S.RUNNING, of="us"), held).step is Step.REFUSE


def test_a_job_that_another_cluster_may_have_is_not_submitted_again() -> None:
    origin = World(job=job(federated=True, origin="fa"))
    assert next_step(intent(A.RESUBMIT), origin).step is Step.REFUSE
    begun = intent(A.RESUBMIT, S.RUNNING, Step.SUBMIT)
    moved = World(job=job(S.REVOKED, federated=True), new=NEW)
    assert next_step(begun, moved).step is Step.FAIL


def test_a_job_that_its_origin_puts_back_reads_ended_for_a_moment() -> None:
    for origin, state, step in (
        ("fa", S.CANCELLED, Step.WAIT), ("fa", S.REVOKED, Step.WAIT), ("", S.CANCELLED, Step.REFUSE),
    ):  # fmt: skip
        seen = World(job=job(state, federated=True, origin=origin))
        assert next_step(intent(A.REQUEUE, S.RUNNING, Step.REQUEUE), seen).step is step
        assert next_step(intent(A.REQUEUE, S.RUNNING), seen).step is Step.REFUSE
