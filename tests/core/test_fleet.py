"""Which failures belong together, what they share, how long that holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.fleet import (
    Case,
    FleetLimits,
    Group,
    Layout,
    SharedKind,
    held_back,
    outbreak_of,
    runs_at_once,
    why_over,
)
from recovery.core.lifecycle import IncidentState
from recovery.core.types import FailureClass

C = FailureClass
S = IncidentState
T0 = datetime(2026, 1, 11, 9, 20, tzinfo=UTC)
LIMITS = FleetLimits()
NODES = frozenset(f"gpu-{number:02d}" for number in range(1, 33))
NOWHERE = Layout(switches={}, nodes=NODES)
LEAVES = Layout(switches={node: f"leaf-{(int(node[-2:]) - 1) // 8 + 1}" for node in NODES}, nodes=NODES)


def case(key: int, at_s: float = 0, **fields: Any) -> Case:
    defaults: dict[str, Any] = {
        "run": key, "user": f"user-{key}", "failure_class": C.NODE_FAULT, "rule": "node.down",
        "failed_at": T0 + timedelta(seconds=at_s),
    }  # fmt: skip
    return Case(key=key, **{**defaults, **fields})


def together(*cases: Case, layout: Layout = NOWHERE, of: int = -1, known: tuple[int, ...] = ()) -> Group | None:
    return outbreak_of(cases[of], cases, layout, LIMITS, known=known)


def kinds(group: Group | None) -> list[SharedKind]:
    assert group is not None
    return [shared.kind for shared in group.shared]


# --- who belongs together ---------------------------------------------------------------------------------------------


def test_two_runs_are_two_accidents_and_three_within_two_minutes_an_outbreak() -> None:
    assert together(case(1), case(2, 30)) is None
    group = together(case(1), case(2, 30), case(3, 119))
    assert group is not None
    assert group.runs == 3
    assert together(case(1), case(2, 30), case(3, 121)) is None


def test_one_run_that_fails_again_and_again_is_no_outbreak() -> None:
    assert together(case(1, run=7), case(2, 10, run=7), case(3, 20, run=7), case(4, 30, run=8)) is None


def test_a_run_that_was_struck_twice_counts_once_and_has_both_cases() -> None:
    group = together(case(1), case(2, 5), case(3, 9), case(4, 16, run=1))
    assert group is not None
    assert (group.runs, [each.key for each in group.cases]) == (3, [1, 2, 3, 4])


def test_whoever_looks_finds_the_same_outbreak() -> None:
    cases = [case(1), case(2, 40), case(3, 80), case(4, 150)]
    found = [together(*cases, of=place) for place in range(4)]
    assert all(group is not None and [each.key for each in group.cases] == [1, 2, 3, 4] for group in found)


def test_a_failure_long_after_is_none_of_it() -> None:
    assert together(case(1), case(2, 10), case(3, 20), case(4, 400)) is None
    group = together(case(1), case(2, 10), case(3, 20), case(4, 400), of=0)
    assert group is not None
    assert [each.key for each in group.cases] == [1, 2, 3]


def test_a_failure_right_after_those_of_an_open_outbreak_joins_it() -> None:
    late = case(9, 125)
    assert together(case(1), case(2, 10), late) is None
    group = together(case(1), case(2, 10), late, known=(1, 2))
    assert group is not None
    assert [each.key for each in group.cases] == [1, 2, 9]


@pytest.mark.parametrize(
    "own", [C.USER_CODE, C.GPU_OOM, C.WALLTIME, C.PREEMPTION, C.EXTERNAL_CANCEL, C.NUMERICS, C.CHECKPOINT_INCOMPLETE]
)
def test_what_explains_itself_by_the_job_is_no_outbreak_however_often(own: FailureClass) -> None:
    cases = [case(key, key, failure_class=own, text=f"NameError: name {word}") for key, word in enumerate("abcdefgh")]
    assert together(*cases) is None
    assert runs_at_once(cases[0], cases, LIMITS) == 0


def test_the_same_words_of_the_code_of_several_users_are_one_and_of_a_single_user_are_none() -> None:
    text = "FileNotFoundError: /data/shared/shard-00017.bin at 0x7f3a"
    cases = [case(k, k, failure_class=C.USER_CODE, rule="python.user_error", text=text) for k in range(1, 4)]
    assert kinds(together(*cases)) == [SharedKind.SIGNATURE]
    other = [case(k, k, failure_class=C.USER_CODE, text=text.replace("17", f"{k}"), user="ada") for k in range(1, 4)]
    assert together(*other) is None


def test_the_breaker_counts_who_has_no_verdict_yet() -> None:
    cases = [
        case(1),
        case(2, 5, failure_class=None),
        case(3, 9, failure_class=None),
        case(4, 9, failure_class=C.NUMERICS),
    ]
    assert runs_at_once(cases[0], cases, LIMITS) == 3
    assert together(*cases, of=0) is None


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 6)), max_size=14))
def test_an_outbreak_has_enough_runs_and_holds_whoever_asked(drawn: list[tuple[int, int]]) -> None:
    cases = [case(key, at, run=run) for key, (at, run) in enumerate(drawn)]
    for each in cases:
        group = outbreak_of(each, cases, NOWHERE, LIMITS)
        if group is not None:
            assert group.runs >= LIMITS.failures
            assert each.key in {member.key for member in group.cases}
            times = [member.failed_at for member in group.cases]
            assert times == sorted(times)
        elif runs_at_once(each, cases, LIMITS) >= LIMITS.failures:
            # so many around it, but no window of two minutes holds them all
            spans = [c for c in cases if timedelta(0) <= c.failed_at - each.failed_at <= LIMITS.window]
            assert len({c.run for c in spans}) < LIMITS.failures


# --- what they share --------------------------------------------------------------------------------------------------


def test_one_switch_is_told_of_the_nodes_that_failed_not_of_all_that_a_job_has() -> None:
    wide = tuple(sorted(NODES))
    cases = [case(k, k, nodes=wide, bad_nodes=(f"gpu-0{k}",)) for k in range(1, 4)]
    group = together(*cases, layout=LEAVES)
    assert kinds(group)[0] is SharedKind.SWITCH
    assert group is not None
    assert group.headline == "3 runs failed within 2 s: all 3 had nodes on switch leaf-1 that failed with it."
    spread = [case(k, k, nodes=wide, bad_nodes=(f"gpu-{8 * k:02d}",)) for k in range(1, 4)]
    assert SharedKind.SWITCH not in kinds(together(*spread, layout=LEAVES))


def test_a_cluster_with_one_switch_is_told_nothing_by_it() -> None:
    one = Layout(switches=dict.fromkeys(NODES, "leaf-1"), nodes=NODES)
    assert together(*[case(k, k, bad_nodes=("gpu-01",), rule="") for k in range(1, 4)], layout=one) is not None
    assert kinds(together(*[case(k, k, bad_nodes=("gpu-01",), rule="") for k in range(1, 4)], layout=one)) == []


def test_one_driver_message_on_many_nodes() -> None:
    fields = {"failure_class": C.GPU_HARDWARE, "rule": "xid.gsp"}
    cases = [case(k, k, bad_nodes=(f"gpu-{9 * k:02d}",), **fields) for k in range(1, 4)]
    assert kinds(together(*cases)) == [SharedKind.DRIVER]
    same = [case(k, k, bad_nodes=("gpu-07",), **fields) for k in range(1, 4)]
    assert kinds(together(*same)) == []  # one node that fails three jobs is no driver


def test_a_file_system_is_told_only_where_they_ended_as_storage_makes_them() -> None:
    roots = ("/lustre/a", "/lustre/b")
    stalled = [case(k, k, failure_class=C.HANG_SILENT, rule="", roots=roots[:1]) for k in range(1, 4)]
    assert kinds(together(*stalled)) == [SharedKind.FILE_SYSTEM]
    dead = [case(k, k, roots=roots[:1], rule="") for k in range(1, 4)]
    assert kinds(together(*dead)) == []


def test_neighbours_by_name_are_told_only_where_no_switch_is_known_and_the_block_is_small_and_dense() -> None:
    def lost(*numbers: int, layout: Layout = NOWHERE) -> list[SharedKind]:
        cases = [case(k, k, bad_nodes=(f"gpu-{n:02d}",), rule="") for k, n in enumerate(numbers)]
        return kinds(together(*cases, layout=layout))

    assert lost(3, 4, 6) == [SharedKind.NEIGHBOURS]
    assert lost(3, 14, 28) == []  # not dense
    few = Layout(switches={}, nodes=frozenset({"gpu-01", "gpu-02", "gpu-03", "gpu-04"}))
    assert lost(1, 2, 3, layout=few) == []  # most of the cluster
    assert SharedKind.NEIGHBOURS not in lost(3, 4, 6, layout=LEAVES)


def test_what_only_some_share_is_not_told_of_all() -> None:
    cases = [case(k, k, rule="nccl.ib_retry" if k < 4 else f"other.{k}") for k in range(1, 9)]
    assert kinds(together(*cases)) == []
    assert kinds(together(*cases[:4])) == [SharedKind.SIGNATURE]


def test_where_only_the_time_is_common_it_says_so() -> None:
    group = together(*[case(k, 0, rule=f"rule.{k}") for k in range(1, 4)])
    assert group is not None
    assert group.headline == "3 runs failed at the same second: nothing else in common is seen."


# --- how long it lasts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "after_s", "over"),
    [
        ([S.CLOSED, S.CLOSED], 60, False),  # who fails now belongs to it
        ([S.CLOSED, S.CLOSED], 121, True),
        ([S.CLOSED, S.WATCHING], 121, False),
        ([S.CLOSED, S.WATCHING], 901, True),
        ([S.CLOSED, S.AWAITING_DECISION], 9000, False),
        ([S.RESTORING], 9000, False),
    ],
)
def test_it_ends_when_nothing_is_left_to_be_done_for_its_incidents(
    states: list[IncidentState], after_s: float, over: bool
) -> None:
    assert bool(why_over(states, T0, LIMITS, now=T0 + timedelta(seconds=after_s))) is over


def test_what_is_held_back_is_said_with_the_number_of_the_outbreak() -> None:
    assert held_back(["gpu-01"], "7").startswith("gpu-01 should be left out")
    assert "while outbreak 7 is open" in held_back(["gpu-01"], "7")
