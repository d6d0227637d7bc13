from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.instead import Around, Restorable
from recovery.core.recommend import JobFacts, recommend
from recovery.core.types import (
    ActionKind,
    AttemptFacts,
    Diagnosis,
    Exclude,
    FailureClass,
    JobState,
    Proposal,
    Restart,
)
from tests.core.attempts import NODES, attempt, checkpoints, ended, past, samples

C = FailureClass
POOL = (*NODES, "gpu-05", "gpu-06")
JOB = JobFacts(
    job_id="4711", requeueable=True, node_count=4, gpus=32, eligible_nodes=POOL, excluded_nodes=(), held=False,
    step_time_s=4.0, user="ana", requeue_delay_s=121.0,
)  # fmt: skip
FAILED = ended(samples=samples(40), checkpoints=checkpoints(200, 388))  # last step 400


def diagnosis(**fields: Any) -> Diagnosis:
    defaults: dict[str, Any] = {
        "failure_class": C.GPU_HARDWARE, "restart": Restart.YES, "exclude": Exclude.NODES, "nodes": ("gpu-02",),
        "confidence": 0.97, "reason": "A GPU fell off the bus (gpu-02).",
    }  # fmt: skip
    return Diagnosis(**{**defaults, **fields})


PLAIN = diagnosis(failure_class=C.PREEMPTION, exclude=Exclude.NONE, nodes=())


def propose(got: Diagnosis = PLAIN, facts: AttemptFacts = FAILED, **job: Any) -> Proposal:
    return recommend(got, facts, replace(JOB, **job))


# --- what to do -------------------------------------------------------------------------------------------------------


def test_the_headline_says_what_is_done_and_what_it_costs() -> None:
    got = propose(diagnosis())
    assert got.action is ActionKind.REQUEUE_EXCLUDING
    assert got.exclude_nodes == ("gpu-02",)
    assert got.headline == "Requeue without gpu-02, restoring step 388 (12 steps lost)."
    assert got.reasons == (
        "A GPU fell off the bus (gpu-02).",
        "5 eligible nodes remain, the job needs 4.",
        "The newest complete checkpoint is step 388.",
        "Slurm starts a requeued job after 121 s at the earliest.",
    )


def test_one_eligible_node_is_no_plural() -> None:
    got = propose(diagnosis(), node_count=1, eligible_nodes=("gpu-02", "gpu-07"))
    assert "1 eligible node remains, the job needs 1." in got.reasons


def test_nothing_is_proposed_that_takes_a_job_which_slurm_has_forgotten() -> None:
    older = Restorable(step=388, path="/c/388", folder="/c", tracker="latest", old="400", write="388", writer="ada")
    torn = diagnosis(failure_class=C.CHECKPOINT_INCOMPLETE, restart=Restart.AFTER_CHANGE, exclude=Exclude.NONE)
    assert propose(torn, around=Around(restorable=older)).action is ActionKind.RESTORE_OLDER
    assert propose(torn, around=Around(restorable=older), forgotten=True).action is ActionKind.NOTHING


def test_without_nodes_it_is_a_plain_requeue() -> None:
    assert (propose().action, propose().exclude_nodes) == (ActionKind.REQUEUE, ())
    assert propose().headline == "Requeue, restoring step 388 (12 steps lost)."


def test_a_hanging_job_is_stopped_first() -> None:
    facts = attempt(samples=samples(40), checkpoints=checkpoints(388))
    assert propose(facts=facts).headline.startswith("Stop and requeue, restoring step 388")


def test_one_step_is_no_plural_and_none_is_said() -> None:
    assert "(1 step lost)" in propose(facts=replace(FAILED, checkpoints=checkpoints(399))).headline
    assert "(0 steps lost)" in propose(facts=replace(FAILED, checkpoints=checkpoints(400))).headline
    assert "(0 steps lost)" in propose(facts=replace(FAILED, checkpoints=checkpoints(405))).headline
    assert "(steps lost: unknown)" in propose(facts=replace(FAILED, last_step=None)).headline


def test_large_steps_are_readable() -> None:
    facts = replace(FAILED, last_step=18_400, checkpoints=checkpoints(17_000))
    assert "restoring step 17\u202f000 (1\u202f400 steps lost)" in propose(facts=facts).headline


def test_the_restart_number_is_told() -> None:
    got = recommend(PLAIN, FAILED, JOB, [past(C.NODE_FAULT), past(C.UNKNOWN, acted=False)])
    assert "It is restart 2 of this run by us." in got.reasons


# --- checkpoints and costs --------------------------------------------------------------------------------------------


def test_only_a_complete_checkpoint_is_restored() -> None:
    got = propose(facts=replace(FAILED, checkpoints=checkpoints(200, torn=(388,))))
    assert (got.restore_step, got.restore_path) == (200, "/ckpt/iter_0000200")
    assert "step 388 is not complete and does not count" in " ".join(got.reasons)
    assert got.steps_at_stake == 200


@pytest.mark.parametrize("known", [(), checkpoints(torn=(388,))])
def test_from_scratch_is_said_loudly(known: tuple[Any, ...]) -> None:
    got = propose(facts=replace(FAILED, checkpoints=known))
    assert got.action is ActionKind.REQUEUE
    assert got.restore_step is None
    assert "STARTING FROM SCRATCH" in got.headline
    assert "400 steps lost" in got.headline
    assert "STARTS FROM SCRATCH" in " ".join(got.reasons)
    assert ("No checkpoint of the run is complete" in " ".join(got.reasons)) == bool(known)


def test_what_is_at_stake_is_counted_in_gpu_hours() -> None:
    got = propose()
    assert got.steps_at_stake == 12
    assert got.gpu_hours_at_stake == pytest.approx(12 * 4.0 * 32 / 3600)
    assert got.gpus_idle == 32


def test_nodes_are_counted_where_a_cluster_counts_no_gpus() -> None:
    got = propose(gpus=0)
    assert got.gpus_idle == 4
    assert got.gpu_hours_at_stake == pytest.approx(12 * 4.0 * 4 / 3600)


def test_an_unknown_step_time_is_unknown_and_not_nothing() -> None:
    assert propose(step_time_s=None).gpu_hours_at_stake is None
    assert propose(facts=replace(FAILED, last_step=None)).steps_at_stake is None


# --- nothing to do ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "facts", "job", "words"),
    [
        (diagnosis(restart=Restart.AFTER_CHANGE), FAILED, {}, "a person must change"),
        (diagnosis(restart=Restart.NO, failure_class=C.WALLTIME), FAILED, {}, "pointless or unwanted"),
        (diagnosis(failure_class=C.EXTERNAL_CANCEL, restart=Restart.NO), FAILED, {}, "is never restarted"),
        (diagnosis(), ended(JobState.CANCELLED, cancelled_by="ana"), {}, "ana cancelled the job"),
        (diagnosis(), ended(JobState.REQUEUED), {}, "Slurm has already requeued it"),
        (diagnosis(), replace(FAILED, requeued_by_slurm=True), {}, "Slurm has already requeued it"),
        (diagnosis(failure_class=C.STRAGGLER, restart=Restart.NO), attempt(samples=samples(9)), {}, "but slowly"),
        (diagnosis(exclude=Exclude.HOLD, nodes=()), FAILED, {}, "an incident of the fabric or the storage"),
        (diagnosis(), FAILED, {"held": True}, "scontrol release 4711"),
        (diagnosis(), FAILED, {"requeueable": False}, "ana must submit it anew"),
    ],
)  # fmt: skip
def test_nothing_is_proposed_with_its_reason(
    got: Diagnosis, facts: AttemptFacts, job: dict[str, Any], words: str
) -> None:
    proposal = propose(got, facts, **job)
    assert proposal.action is ActionKind.NOTHING
    assert proposal.exclude_nodes == ()
    assert words in proposal.headline
    assert proposal.reasons == (got.reason,)


def test_a_slow_job_leaves_no_gpu_idle() -> None:
    slow = diagnosis(failure_class=C.STRAGGLER, restart=Restart.NO)
    assert propose(slow, attempt(samples=samples(9))).gpus_idle == 0


def test_a_job_that_waits_for_a_change_leaves_its_gpus_idle() -> None:
    assert propose(diagnosis(restart=Restart.AFTER_CHANGE)).gpus_idle == 32


# --- exclusion --------------------------------------------------------------------------------------------------------


def test_an_exclusion_that_leaves_too_few_nodes_is_dropped_and_said() -> None:
    got = propose(diagnosis(), eligible_nodes=NODES)
    assert (got.action, got.exclude_nodes) == (ActionKind.REQUEUE, ())
    assert "only 3 eligible nodes would remain and the job needs 4: not excluded" in " ".join(got.reasons)


def test_an_exclusion_that_cannot_be_counted_is_dropped_and_said() -> None:
    got = propose(diagnosis(), eligible_nodes=None)
    assert (got.action, got.exclude_nodes) == (ActionKind.REQUEUE, ())
    assert "is not known: not excluded" in " ".join(got.reasons)


def test_earlier_exclusions_count_too() -> None:
    got = propose(diagnosis(), excluded_nodes=("gpu-05", "gpu-06"))
    assert got.action is ActionKind.REQUEUE


def test_what_is_excluded_already_is_not_excluded_again() -> None:
    got = propose(diagnosis(), excluded_nodes=("gpu-02",))
    assert (got.action, got.exclude_nodes) == (ActionKind.REQUEUE, ())
    assert "gpu-02 is already excluded." in got.reasons


def test_just_enough_nodes_are_enough() -> None:
    assert propose(diagnosis(), eligible_nodes=POOL[:5]).exclude_nodes == ("gpu-02",)


@pytest.mark.parametrize("exclude", [Exclude.IF_REPEATED, Exclude.NONE])
def test_a_suspicion_excludes_nobody(exclude: Exclude) -> None:
    assert propose(diagnosis(exclude=exclude)).exclude_nodes == ()


_NAMES = st.sampled_from([f"gpu-{i:02d}" for i in range(1, 12)])


@given(
    nodes=st.lists(_NAMES, max_size=5, unique=True),
    eligible=st.none() | st.lists(_NAMES, max_size=11, unique=True),
    excluded=st.lists(_NAMES, max_size=4, unique=True),
    needed=st.integers(min_value=1, max_value=8),
    restart=st.sampled_from(Restart),
)
def test_no_proposal_leaves_fewer_eligible_nodes_than_the_job_needs(
    nodes: list[str], eligible: list[str] | None, excluded: list[str], needed: int, restart: Restart
) -> None:
    got = propose(
        diagnosis(nodes=tuple(nodes), restart=restart), node_count=needed, excluded_nodes=tuple(excluded),
        eligible_nodes=None if eligible is None else tuple(eligible),
    )  # fmt: skip
    assert set(got.exclude_nodes) <= set(nodes)
    assert (got.action is ActionKind.REQUEUE_EXCLUDING) == bool(got.exclude_nodes)
    if got.exclude_nodes:
        assert eligible is not None
        assert len(set(eligible) - set(excluded) - set(got.exclude_nodes)) >= needed
    if restart in (Restart.NO, Restart.AFTER_CHANGE):
        assert got.action is ActionKind.NOTHING


# --- the fleet --------------------------------------------------------------------------------------------------------


def test_while_an_outbreak_is_open_no_node_is_left_out_and_no_suspect_is_avoided() -> None:
    got = propose(diagnosis(), outbreak="7", avoid=("gpu-05",), room=4)
    assert (got.action, got.exclude_nodes) == (ActionKind.REQUEUE, ())
    assert any("exclusions and drains are held while outbreak 7 is open" in reason for reason in got.reasons)


def test_a_restart_keeps_away_from_suspects_where_it_may() -> None:
    got = propose(avoid=("gpu-06", "gpu-99", "gpu-05"), room=4)
    assert (got.action, got.exclude_nodes) == (ActionKind.REQUEUE_EXCLUDING, ("gpu-06", "gpu-05"))
    assert any(reason.startswith("Left out as suspects: gpu-06 and gpu-05") for reason in got.reasons)
    assert propose(avoid=("gpu-06",), room=0).exclude_nodes == ()
    both = propose(diagnosis(), avoid=("gpu-06", "gpu-05"), room=2)
    assert both.exclude_nodes == ("gpu-02", "gpu-06")  # the verdict's node first; five nodes less one are four
    assert propose(avoid=("gpu-06",), room=4, required_nodes=("gpu-06",)).exclude_nodes == ()


def test_what_failed_with_others_is_no_loop_of_its_own() -> None:
    requeued = ended(samples=samples(40), requeued_by_slurm=True)
    alone = [past(C.NODE_FAULT, step=400, acted=False) for _ in range(3)]
    lost = diagnosis(failure_class=C.NODE_FAULT, restart=Restart.NO, exclude=Exclude.NONE, nodes=())
    shared = [replace(each, shared=True) for each in alone]
    assert recommend(lost, requeued, JOB, alone).action is ActionKind.HOLD
    assert recommend(lost, requeued, JOB, shared).action is ActionKind.NOTHING


def test_that_an_earlier_failure_went_away_elsewhere_is_said() -> None:
    got = recommend(PLAIN, FAILED, JOB, [past(C.GPU_HARDWARE, nodes=("gpu-09",), elsewhere=True)])
    assert "An earlier failure on gpu-09 did not come back when the run went on elsewhere." in got.reasons


# --- federations ------------------------------------------------------------------------------------------------------


def test_of_a_job_that_was_submitted_elsewhere_no_node_is_excluded() -> None:
    got = propose(diagnosis(), federation="fed", origin="fa", avoid=("gpu-03",), room=4)
    assert (got.action, got.exclude_nodes) == (ActionKind.REQUEUE, ())
    assert any("submitted on cluster fa of the federation" in reason for reason in got.reasons)


def test_a_restart_in_a_federation_says_that_it_may_start_elsewhere() -> None:
    said = [
        any("any cluster of its federation" in reason for reason in propose(federation=f).reasons) for f in ("fed", "")
    ]
    assert said == [True, False]


def test_a_job_that_is_gone_and_was_submitted_elsewhere_may_run_there() -> None:
    got = propose(forgotten=True, federation="fed", origin="fa", around=Around(resubmit_why_not="…"))
    assert (got.action, "another cluster may have it" in got.headline) == (ActionKind.NOTHING, True)


def test_what_only_the_origin_can_do_is_not_proposed_from_elsewhere() -> None:
    held = Around(held_by_slurm=True)
    waits = replace(FAILED, state=JobState.PENDING, state_reason="launch_failed_requeued_held")
    assert propose(facts=waits, around=held, held=True).action is ActionKind.RELEASE
    got = propose(facts=waits, around=held, held=True, federation="fed", origin="fa")
    assert got.action is ActionKind.NOTHING
    assert "submitted on cluster fa" in got.headline
