"""The next step of an action: once, in order, and only on the facts that were approved."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from recovery.core.plans import Hold, Intent, Next, Seen, Step, World, next_step
from recovery.core.types import ActionKind, JobState

INTENT = Intent(
    kind=ActionKind.REQUEUE_EXCLUDING,
    exclude_nodes=("n2",),
    attempt_number=0,
    attempt_state=JobState.FAILED,
    attempt_nodes=("n1", "n2"),
    begun=frozenset(),
)
FAILED = Seen(
    state=JobState.FAILED,
    restart_count=0,
    hold=Hold.NONE,
    requeueable=True,
    nodes=("n2", "n1"),
    excluded_nodes=(),
)
HELD = replace(FAILED, state=JobState.PENDING, restart_count=1, hold=Hold.REQUEUE, nodes=())
AFTER_REQUEUE = replace(INTENT, begun=frozenset({Step.REQUEUE_HOLD}))


def step(intent: Intent, seen: Seen) -> Step:
    return next_step(intent, World(job=seen)).step


def test_an_approved_exclusion_begins_with_a_held_requeue() -> None:
    assert step(INTENT, FAILED) is Step.REQUEUE_HOLD


def test_a_plain_requeue_is_one_call_and_then_observed() -> None:
    intent = replace(INTENT, kind=ActionKind.REQUEUE, exclude_nodes=())
    assert step(intent, FAILED) is Step.REQUEUE
    begun = replace(intent, begun=frozenset({Step.REQUEUE}))
    assert step(begun, replace(HELD, hold=Hold.NONE)) is Step.CONVERGED


def test_after_the_held_requeue_the_exclusion_is_set_read_back_and_released() -> None:
    assert step(AFTER_REQUEUE, HELD) is Step.SET_EXCLUDED_NODES
    excluded = replace(HELD, excluded_nodes=("n2", "n9"))
    assert step(AFTER_REQUEUE, excluded) is Step.RELEASE
    released = replace(excluded, hold=Hold.NONE)
    assert step(AFTER_REQUEUE, released) is Step.CONVERGED


def test_a_requeue_that_somebody_else_made_is_not_made_again() -> None:
    assert step(INTENT, replace(HELD, hold=Hold.NONE)) is Step.BY_OTHERS


def test_a_cancelled_job_is_never_restarted() -> None:
    answer = next_step(INTENT, World(job=replace(FAILED, state=JobState.CANCELLED)))
    assert answer.step is Step.REFUSE
    assert "cancelled" in answer.reason


def test_other_nodes_than_those_shown_refuse_the_action() -> None:
    assert step(INTENT, replace(FAILED, nodes=("n1", "n3"))) is Step.REFUSE


def test_another_state_than_the_approved_one_refuses_the_action() -> None:
    assert step(INTENT, replace(FAILED, state=JobState.RUNNING)) is Step.REFUSE


def test_a_job_that_may_not_be_requeued_is_refused() -> None:
    assert step(INTENT, replace(FAILED, requeueable=False)) is Step.REFUSE


def test_a_completing_job_is_waited_for() -> None:
    assert step(INTENT, replace(FAILED, state=JobState.COMPLETING)) is Step.WAIT
    assert step(AFTER_REQUEUE, replace(HELD, state=JobState.COMPLETING)) is Step.WAIT
    begun = replace(INTENT, kind=ActionKind.REQUEUE, begun=frozenset({Step.REQUEUE}))
    assert step(begun, replace(HELD, state=JobState.COMPLETING)) is Step.WAIT


def test_a_hold_that_somebody_else_placed_is_never_released() -> None:
    seen = replace(HELD, excluded_nodes=("n2",), hold=Hold.ADMIN)
    assert step(AFTER_REQUEUE, seen) is Step.FAIL


def test_a_job_that_runs_without_the_exclusion_is_said_to_have_failed() -> None:
    assert step(AFTER_REQUEUE, replace(HELD, state=JobState.RUNNING, hold=Hold.NONE)) is Step.FAIL


def test_a_second_restart_that_is_not_ours_ends_the_action() -> None:
    assert step(AFTER_REQUEUE, replace(HELD, restart_count=2)) is Step.FAIL


seen_jobs = st.builds(
    Seen,
    state=st.sampled_from(JobState),
    restart_count=st.integers(0, 3),
    hold=st.sampled_from(Hold),
    requeueable=st.booleans(),
    nodes=st.sampled_from([(), ("n1", "n2"), ("n3",)]),
    excluded_nodes=st.sampled_from([(), ("n2",), ("n2", "n7")]),
)
begun_calls = st.frozensets(st.sampled_from([Step.REQUEUE_HOLD, Step.SET_EXCLUDED_NODES, Step.RELEASE]))


@given(seen=seen_jobs, begun=begun_calls)
def test_a_requeue_is_only_asked_for_while_the_approved_attempt_is_the_newest(
    seen: Seen, begun: frozenset[str]
) -> None:
    answer: Next = next_step(replace(INTENT, begun=begun), World(job=seen))
    if answer.step in (Step.REQUEUE, Step.REQUEUE_HOLD):
        assert seen.restart_count == 0
        assert seen.state is JobState.FAILED
    if answer.step is Step.RELEASE:
        assert Step.REQUEUE_HOLD in begun
        assert "n2" in seen.excluded_nodes
        assert seen.hold is Hold.REQUEUE
    if answer.step is Step.CONVERGED:
        assert seen.restart_count == 1
