"""Which lines count, in which order, and on which node they are placed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.diagnose import diagnose, speaks_of_failure
from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.diagnose.clues import Clue, first_cause, gather
from recovery.core.diagnose.places import Places
from recovery.core.types import (
    AttemptFacts,
    Evidence,
    Exclude,
    FailureClass,
    JobState,
    NodeEvent,
    NodeState,
    Role,
    Signal,
    SignalKind,
)
from tests.core.attempts import NODES, at, crash, ended, event, mark, megatron, read, samples, traceback
from tests.core.diagnose.examples import LOG_LINES, NODE_EVENTS

ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
XID = "NVRM: Xid (PCI:0000:1b:00): {}, pid=1"
STEPS = [megatron(10 * i, 40 * i) for i in range(1, 11)]


def causes(facts: AttemptFacts) -> list[str]:
    return [clue.rule.id for clue in gather(facts).causes]


def clue(rule: str, seconds: float | None, *, exact: bool = True, source: str = "job.log", node: str = "") -> Clue:
    evidence = Evidence(text="", source=source, role=Role.CAUSE, rule=rule, line=1)
    return Clue(
        rule=RULES_BY_ID[rule], evidence=evidence, at=None if seconds is None else at(seconds), exact=exact,
        nodes=(node,) if node else (),
    )  # fmt: skip


# --- handled, quoted, of an earlier start -----------------------------------------------------------------------------


def test_a_failure_after_which_training_went_on_does_not_count() -> None:
    handled = read([*STEPS[:5], *traceback("torch.OutOfMemoryError: CUDA out of memory."), *STEPS[5:7]])
    assert causes(ended(signals=handled)) == []
    assert gather(ended(signals=handled)).overcome == 2


def test_one_more_report_proves_nothing() -> None:
    """Another rank may still report the step that was under way."""
    last = read([*STEPS[:5], *traceback(ECC), STEPS[5]])
    assert causes(ended(signals=last)) == ["cuda.ecc_uncorrectable"]


def test_two_reports_of_one_step_are_one() -> None:
    last = read([*STEPS[:5], *traceback(ECC), STEPS[5], STEPS[5]])
    assert causes(ended(signals=last)) == ["cuda.ecc_uncorrectable"]


def test_a_save_that_ended_proves_life() -> None:
    signals = (*read(traceback(ECC)), mark(SignalKind.SAVE_DURABLE, 9, step=100))
    assert causes(ended(signals=signals)) == []


def test_a_farewell_does_not_prove_life() -> None:
    signals = (*read(traceback(ECC)), mark(SignalKind.FINISHED, 9))
    assert causes(ended(signals=signals)) == ["cuda.ecc_uncorrectable"]


def test_samples_prove_life_where_progress_lines_are_not_kept() -> None:
    dated = read([f"{at(100):%Y-%m-%d %H:%M:%S} ERROR RuntimeError: CUDA error: uncorrectable ECC error encountered"])
    assert causes(ended(signals=dated, samples=samples(10))) == []
    assert causes(ended(signals=dated, samples=samples(3))) == ["cuda.ecc_uncorrectable"]


def test_an_appended_log_holds_the_attempt_before_too() -> None:
    load = mark(SignalKind.LOADED, 30, step=50)
    before = read([*STEPS[:5], *traceback(ECC)])
    assert causes(ended(signals=(*before, load))) == []


def test_a_load_after_a_failure_in_the_same_start_proves_nothing() -> None:
    """One rank dies while it loads; another one still prints that the load is done."""
    load = mark(SignalKind.LOADED, 30, step=50)
    assert causes(ended(signals=(*read(traceback(ECC)), load))) == ["cuda.ecc_uncorrectable"]


def test_signs_of_life_in_another_file_do_not_count_by_line_number() -> None:
    other = tuple(mark(SignalKind.PROGRESS, 100 + i, file="other.log", step=i) for i in range(5))
    assert causes(ended(signals=(*read(traceback(ECC)), *other))) == ["cuda.ecc_uncorrectable"]


def test_a_rule_that_is_gone_since_is_passed_over() -> None:
    old = Signal(kind=SignalKind.FAILURE, file="f", line=1, offset=0, text="x", rule="gone.rule")
    assert gather(ended(signals=(old,))).all == ()


# --- node events ------------------------------------------------------------------------------------------------------


def test_events_of_other_nodes_do_not_concern_the_attempt() -> None:
    assert gather(ended(node_events=[event("gpu-99", XID.format(79))])).all == ()


def test_events_from_before_the_attempt_are_old_news() -> None:
    assert gather(ended(node_events=[event("gpu-02", XID.format(79), -60)])).all == ()


def test_events_long_after_its_end_are_another_story() -> None:
    assert causes(ended(node_events=[event("gpu-02", XID.format(79), 1000 + 299)])) == ["xid.79"]
    assert causes(ended(node_events=[event("gpu-02", XID.format(79), 1000 + 301)])) == []


def test_a_node_that_an_admin_drains_says_nothing() -> None:
    assert gather(ended(node_events=[event("gpu-02", "IDLE+DRAIN: firmware", state=NodeState.DRAINING)])).all == ()


def test_a_benign_xid_is_no_cause() -> None:
    facts = ended(node_events=[event("gpu-02", XID.format(63))])
    assert causes(facts) == []
    assert not speaks_of_failure(facts)
    assert speaks_of_failure(ended(signals=read(["ncclRemoteError: A call failed possibly due to a network error"])))
    assert speaks_of_failure(ended(signals=read(traceback(ECC))))


def test_the_bounds_of_an_attempts_life_belong_to_it() -> None:
    first, last = event("gpu-02", XID.format(79), 0), event("gpu-02", XID.format(48), 1000 + 300)
    assert causes(ended(node_events=[first, last])) == ["xid.79", "xid.ecc"]
    assert causes(ended(started_at=None, node_events=[event("gpu-02", XID.format(79), -60)])) == ["xid.79"]


def test_a_down_node_without_words_is_told_in_ours() -> None:
    (found,) = gather(ended(node_events=[event("gpu-02", "", state=NodeState.DOWN)])).causes
    assert (found.evidence.text, found.evidence.node) == ("Slurm says that gpu-02 is down.", "gpu-02")
    (spoken,) = gather(ended(node_events=[event("gpu-02", "Not responding" + "!" * 900)])).causes
    assert spoken.evidence.text == ("Not responding" + "!" * 900)[:500]


HOUR = 3600


def long_run(*events: NodeEvent, until_s: float = 5 * HOUR, ended_s: float = 5 * HOUR) -> AttemptFacts:
    return ended(node_events=list(events), samples=samples(int(until_s) // 40), ended_at=at(ended_s), now_s=ended_s)


@pytest.mark.parametrize("text", [XID.format(79), XID.format(94), "Not responding", "Epilog error"])
def test_what_befell_a_node_long_before_the_last_steps_did_not_end_the_training(text: str) -> None:
    facts = long_run(event("gpu-02", text, HOUR))
    assert causes(facts) == []
    got = diagnose(facts, crash(facts))
    assert (
        got.coverage["node events"]
        == "1 event of the job's 4 nodes, 1 of them long before its last steps and not counted"
    )


def test_steps_that_were_on_their_way_do_not_overrule_a_kernels_word() -> None:
    assert causes(long_run(event("gpu-02", XID.format(79), 5 * HOUR - 14 * 60))) == ["xid.79"]
    assert causes(long_run(event("gpu-02", XID.format(79), 2 * HOUR), until_s=2 * HOUR)) == ["xid.79"]


def test_a_log_whose_clock_runs_ahead_does_not_overrule_a_kernels_word() -> None:
    """Its steps are dated after the job's end: in another zone than Slurm's, and nobody knows when they were."""
    assert causes(long_run(event("gpu-02", XID.format(79), 600), ended_s=700)) == ["xid.79"]


def test_lines_dated_beyond_the_end_are_not_bound_by_it() -> None:
    (ahead,) = gather(ended(signals=read([f"[2026-01-11 18:00:00] ERROR {ECC}"]))).causes
    assert ahead.until is None


# --- order ------------------------------------------------------------------------------------------------------------


def first(*clues: Clue) -> str:
    found = first_cause(clues)
    assert found is not None
    return found.clue.rule.id


def test_the_first_line_of_a_file_wins_not_the_loudest() -> None:
    got = read([*traceback("KeyError: 'a'"), *traceback(ECC), *traceback(ECC)])
    assert first(*gather(ended(signals=got)).causes) == "python.user_error"


def test_the_earlier_clock_wins_between_sources() -> None:
    assert first(clue("python.user_error", 500), clue("xid.79", 510, source="node")) == "python.user_error"
    assert first(clue("python.user_error", 520), clue("xid.79", 510, source="node")) == "xid.79"


def test_events_count_by_their_clock_and_not_by_their_place_in_the_list() -> None:
    events = [event("gpu-02", XID.format(79), 700), event("gpu-03", XID.format(48), 600)]
    assert first(*gather(ended(node_events=events)).causes) == "xid.ecc"


def test_an_undated_line_borrows_the_time_of_the_line_before() -> None:
    lines = read([*STEPS, *traceback("KeyError: 'a'")])  # the last step is dated 400 s
    early, late = event("gpu-02", XID.format(8), 100), event("gpu-02", XID.format(8), 500)
    assert first(*gather(ended(signals=lines, node_events=[early])).causes) == "xid.stopped"
    found = first_cause(gather(ended(signals=lines, node_events=[late])).causes)
    assert found is not None
    assert (found.clue.rule.id, found.doubt != "") == ("python.user_error", True)
    (clue_,) = gather(ended(signals=lines)).causes
    assert (clue_.at, clue_.exact, clue_.evidence.at) == (at(400), False, None)


def test_a_dated_line_keeps_its_own_time() -> None:
    dated = f"{at(700):%Y-%m-%d %H:%M:%S} ERROR CUDA error: uncorrectable ECC error encountered"
    (clue_,) = gather(ended(signals=read([*STEPS, dated]))).causes
    assert (clue_.at, clue_.exact, clue_.evidence.at) == (at(700), True, at(700))


def test_a_line_that_two_rules_claim_is_one_clue() -> None:
    line = "gpu-02:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.1.0.2<4> with status=12 vendor err 129"
    (clue_,) = gather(ended(signals=read([line]))).all
    assert (clue_.rule.id, clue_.evidence.node) == ("nccl.ib_retry", "gpu-02")


def test_a_list_of_nodes_is_no_single_node() -> None:
    (clue_,) = gather(ended(signals=read(["srun: error: Node failure on gpu-[02-03]"]))).causes
    assert (clue_.nodes, clue_.evidence.node) == (("gpu-02", "gpu-03"), "")


def test_within_one_moment_the_weightier_wins() -> None:
    assert first(clue("python.user_error", 511), clue("xid.79", 512, source="node")) == "xid.79"


def test_a_borrowed_time_is_only_a_lower_bound() -> None:
    undated = clue("python.user_error", 400, exact=False)
    found = first_cause([undated, clue("xid.79", 510, source="node")])
    assert found is not None
    assert found.clue.rule.id == "xid.79"
    assert "is not certain" in found.doubt
    surely_after = clue("python.user_error", 600, exact=False)
    assert first_cause([surely_after, clue("xid.application", 510, source="node")]) is not None
    assert first(surely_after, clue("xid.application", 510, source="node")) == "xid.application"


def test_no_clock_at_all_lets_weight_decide() -> None:
    assert first(clue("storage.transient", None), clue("cuda.oom", None, source="rank1.log")) == "cuda.oom"


def test_two_of_one_class_leave_no_doubt() -> None:
    found = first_cause([clue("cuda.ecc_uncorrectable", None), clue("xid.ecc", 510, source="node")])
    assert found is not None
    assert found.doubt == ""


def test_a_weak_cause_yields_to_the_strong_one_that_explains_it() -> None:
    weak, strong = clue("cuda.application", 500), clue("xid.ecc", 520, source="node")
    assert first(weak, strong) == "xid.ecc"
    assert first(weak, clue("xid.ecc", 500 + 3600, source="node")) == "cuda.application"


def test_hearsay_of_a_kernel_yields_to_the_jobs_own_error() -> None:
    dump = "Jan 10 22:14:03 gpu-02 kernel: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
    both = gather(ended(signals=read([dump, *traceback("NameError: name 'cfg' is not defined")])))
    assert first(*both.causes) == "python.user_error"
    alone = gather(ended(signals=read([dump, *traceback("RuntimeError: CUDA error: unspecified launch failure")])))
    assert first(*alone.causes) == "xid.79"


def test_no_causes_no_first() -> None:
    assert first_cause([]) is None


# --- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("gpu-02", ("gpu-02",)),
        ("GPU-02.cluster.local", ("gpu-02",)),
        ("gpu-[02-03]", ("gpu-02", "gpu-03")),
        ("gpu-[01,04]", ("gpu-01", "gpu-04")),
        ("gpu-01,gpu-03", ("gpu-01", "gpu-03")),
        ("gpu-[1-3]", ("gpu-01", "gpu-02", "gpu-03")),
        ("gpu-[001-003]", ()),
        ("gpu-[05-99]", ()),
        ("gpu-[01-03", ()),
        ("evil-01", ()),
        ("", ()),
        ("gpu-[a-b]", ()),
    ],
)
def test_node_lists_are_read_as_far_as_they_name_the_attempts_nodes(expression: str, expected: tuple[str, ...]) -> None:
    assert Places(NODES).named(expression) == expected


def test_srun_tells_where_ranks_were() -> None:
    places = Places(NODES, read(["srun: error: gpu-02: tasks 8-11,13: Exited with exit code 1"]))
    assert places.of("", 9) == ("gpu-02",)
    assert places.of("", 13) == ("gpu-02",)
    assert places.of("", 12) == ()
    assert places.of("gpu-01", 9) == ("gpu-01",)


def test_everything_in_a_one_node_job_is_on_that_node() -> None:
    assert Places(("gpu-07",)).of("", None) == ("gpu-07",)


@given(st.text(max_size=60))
def test_no_expression_names_a_node_outside_the_attempt(expression: str) -> None:
    assert set(Places(NODES).named(expression)) <= set(NODES)


# --- hostile logs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: Node failure on gpu-99",
        "gpu-99:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.1.0.2<4> with status=12 vendor err 129",
        "Jan 10 22:14:03 gpu-99 kernel: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.",
    ],
)
def test_what_is_said_of_another_jobs_node_is_said_of_none_of_ours(line: str) -> None:
    """Also where the job has one node only, on which everything else is that it says."""
    for nodes in (NODES, NODES[:1]):
        facts = ended(nodes=nodes, signals=read([line], nodes=nodes))
        assert {node for clue in gather(facts).all for node in clue.nodes} == set()
        assert diagnose(facts, crash(facts)).nodes == ()


_ANY_LINE = st.sampled_from([line for lines in LOG_LINES.values() for line in lines])
_ANY_EVENT = st.sampled_from([text for texts in NODE_EVENTS.values() for text in texts] + [XID.format(79)])


@given(
    lines=st.lists(_ANY_LINE, max_size=6),
    events=st.lists(st.tuples(st.sampled_from([*NODES, "gpu-99", ""]), _ANY_EVENT), max_size=4),
    state=st.sampled_from(
        [JobState.FAILED, JobState.NODE_FAIL, JobState.TIMEOUT, JobState.UNKNOWN, JobState.CANCELLED]
    ),
    nodes=st.sampled_from([NODES, NODES[:1], ()]),
)
def test_whatever_a_log_claims_only_the_attempts_own_nodes_are_excluded(
    lines: list[str], events: list[tuple[str, str]], state: JobState, nodes: tuple[str, ...]
) -> None:
    facts = ended(
        state, nodes=nodes, signals=read(lines, nodes=nodes), node_events=[event(n, text) for n, text in events]
    )
    got = diagnose(facts, crash(facts))
    assert set(got.nodes) <= set(nodes)
    assert bool(got.nodes) == (got.exclude is Exclude.NODES)
    assert 0 < got.confidence <= 1
    assert got.reason
    if state is JobState.CANCELLED:
        assert got.failure_class is FailureClass.EXTERNAL_CANCEL
