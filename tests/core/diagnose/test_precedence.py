"""Which kind of evidence decides, and what each says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.diagnose import diagnose
from recovery.core.types import (
    AttemptFacts,
    Diagnosis,
    Exclude,
    FailureClass,
    JobState,
    NodeState,
    Restart,
    SignalKind,
)
from tests.core.attempts import (
    at,
    checkpoints,
    crash,
    ended,
    event,
    mark,
    megatron,
    read,
    samples,
    traceback,
)

C = FailureClass
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
XID79 = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
TIMEOUT = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)"
REMOTE = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
LIMIT = "slurmstepd: error: *** JOB 4711 ON gpu-01 CANCELLED AT 2026-01-11T09:16:40 DUE TO TIME LIMIT ***"
CANCEL = "slurmstepd: error: *** JOB 4711 ON gpu-01 CANCELLED AT 2026-01-11T09:16:40 ***"


def verdict(facts: AttemptFacts) -> Diagnosis:
    return diagnose(facts, crash(facts))


def said(got: Diagnosis) -> tuple[FailureClass, Restart, Exclude, tuple[str, ...]]:
    return got.failure_class, got.restart, got.exclude, got.nodes


# --- a person ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["ana", "gpu-reaper", "1001", ""])
def test_a_cancelled_job_is_never_restarted_whatever_else_is_true(who: str) -> None:
    facts = ended(
        JobState.CANCELLED, cancelled_by=who, signals=read([*traceback(ECC, rank=3), TIMEOUT]),
        node_events=[event("gpu-02", XID79), event("gpu-01", "Not responding", state=NodeState.DOWN)],
    )  # fmt: skip
    got = verdict(facts)
    assert said(got) == (C.EXTERNAL_CANCEL, Restart.NO, Exclude.NONE, ())
    assert who in got.reason


def test_a_known_canceller_wins_over_slurms_own_state() -> None:
    got = verdict(ended(JobState.TIMEOUT, cancelled_by="ana"))
    assert got.failure_class is C.EXTERNAL_CANCEL


def test_a_cancel_in_the_log_counts_where_there_is_no_record() -> None:
    got = verdict(ended(JobState.UNKNOWN, signals=read([CANCEL])))
    assert said(got)[:2] == (C.EXTERNAL_CANCEL, Restart.NO)


def test_a_cancelled_step_is_a_cancel_only_if_srun_did_not_do_it() -> None:
    line = CANCEL.replace("JOB 4711", "STEP 4711.0")
    alone = ended(JobState.UNKNOWN, signals=read([line]))
    assert verdict(alone).failure_class is C.EXTERNAL_CANCEL
    task = "srun: error: gpu-01: task 0: Exited with exit code 1"
    by_srun = ended(JobState.UNKNOWN, signals=read([task, line]))
    assert said(verdict(by_srun))[:2] == (C.UNKNOWN, Restart.ONCE)
    after_error = ended(JobState.UNKNOWN, signals=read([*traceback("KeyError: 'a'"), line]))
    assert verdict(after_error).failure_class is C.USER_CODE
    assert verdict(ended(JobState.UNKNOWN, signals=read([task]))).failure_class is C.UNKNOWN


def test_srun_cancelling_a_failed_jobs_step_is_no_persons_cancel() -> None:
    lines = ["srun: error: gpu-01: task 0: Exited with exit code 1", CANCEL.replace("JOB 4711", "STEP 4711.0")]
    assert said(verdict(ended(signals=read(lines))))[:2] == (C.UNKNOWN, Restart.ONCE)
    assert said(verdict(ended(signals=read(lines[1:]))))[:2] == (C.UNKNOWN, Restart.ONCE)


def test_a_forged_cancel_does_not_hide_a_failed_job() -> None:
    got = verdict(ended(signals=read([CANCEL, *traceback("KeyError: 'a'")])))
    assert got.failure_class is C.USER_CODE
    assert "cancelled or preempted step" in got.coverage["contradictions"]
    assert got.confidence < 0.9


# --- the scheduler ----------------------------------------------------------------------------------------------------


def test_a_time_limit_after_a_new_checkpoint_goes_on() -> None:
    facts = ended(
        JobState.TIMEOUT, samples=samples(20, every_s=50), checkpoints=checkpoints(100, 200),
        signals=(mark(SignalKind.LOADED, 1, step=100),),
    )  # fmt: skip
    got = verdict(facts)
    assert said(got) == (C.WALLTIME, Restart.YES, Exclude.NONE, ())
    assert "step 200 is saved" in got.reason


def test_a_time_limit_without_a_new_checkpoint_would_only_repeat() -> None:
    facts = ended(
        JobState.TIMEOUT, samples=samples(20, every_s=50), checkpoints=checkpoints(100),
        signals=(mark(SignalKind.LOADED, 1, step=100),),
    )  # fmt: skip
    assert said(verdict(facts))[:2] == (C.WALLTIME, Restart.AFTER_CHANGE)


def test_a_torn_checkpoint_is_no_advance() -> None:
    facts = ended(
        JobState.TIMEOUT, samples=samples(20, every_s=50), checkpoints=checkpoints(100, torn=(200,)),
        signals=(mark(SignalKind.LOADED, 1, step=100), mark(SignalKind.SAVE_DURABLE, 9, step=200)),
    )  # fmt: skip
    assert verdict(facts).restart is Restart.AFTER_CHANGE


def test_the_logs_word_for_a_save_does_where_no_folder_was_looked_at() -> None:
    facts = ended(
        JobState.TIMEOUT, samples=samples(20, every_s=50), signals=(mark(SignalKind.SAVE_DURABLE, 9, step=200),)
    )
    assert verdict(facts).restart is Restart.YES


def test_a_time_limit_of_which_nothing_else_is_known_is_tried_once() -> None:
    assert said(verdict(ended(JobState.TIMEOUT)))[:2] == (C.WALLTIME, Restart.ONCE)


def test_a_job_that_stood_still_was_not_stopped_by_its_time_limit() -> None:
    facts = ended(JobState.TIMEOUT, samples=samples(20, every_s=40), ended_at=at(800 + 1900))
    assert said(verdict(facts))[:2] == (C.HANG_SILENT, Restart.ONCE)
    told = ended(JobState.TIMEOUT, samples=samples(20, every_s=40), ended_at=at(2700), signals=read([TIMEOUT]))
    assert said(verdict(told))[:3] == (C.HANG_COLLECTIVE, Restart.ONCE, Exclude.IF_REPEATED)


def test_a_cause_long_before_the_time_limit_is_the_failure() -> None:
    lines = [megatron(10 * i, 40 * i) for i in range(1, 21)]
    facts = ended(
        JobState.TIMEOUT, samples=samples(20, every_s=40), nodes=("gpu-01",), ended_at=at(1200),
        signals=read([*lines, *traceback(ECC)], nodes=("gpu-01",)),
    )  # fmt: skip
    assert said(verdict(facts)) == (C.GPU_HARDWARE, Restart.YES, Exclude.NODES, ("gpu-01",))


def test_a_message_in_the_last_seconds_does_not_replace_the_time_limit() -> None:
    facts = ended(
        JobState.TIMEOUT, samples=samples(20, every_s=50), checkpoints=checkpoints(100),
        signals=(mark(SignalKind.LOADED, 1, step=50), *read(["ValueError: bad sample"])),
    )  # fmt: skip
    assert verdict(facts).failure_class is C.WALLTIME


@pytest.mark.parametrize("state", [JobState.UNKNOWN, JobState.REQUEUED])
def test_a_message_does_not_replace_slurms_word_in_the_log_either(state: JobState) -> None:
    got = verdict(ended(state, signals=read(["ValueError: bad sample", LIMIT])))
    assert got.failure_class is C.WALLTIME
    assert got.first_failure is not None
    assert got.first_failure.rule == "slurm.time_limit"


def test_slurms_line_is_the_evidence_of_what_its_record_says() -> None:
    got = verdict(ended(JobState.TIMEOUT, signals=read([LIMIT])))
    assert got.evidence[0].rule == "slurm.time_limit"
    other = verdict(ended(JobState.PREEMPTED, signals=read([LIMIT])))
    assert other.evidence[0].rule == "state.failed"


def test_where_an_attempt_began_is_told_by_its_last_load_or_its_first_step() -> None:
    reports = samples(20, every_s=50, first_step=110)
    began = ended(JobState.TIMEOUT, samples=reports, checkpoints=checkpoints(109))
    assert verdict(began).restart is Restart.AFTER_CHANGE
    assert verdict(replace(began, checkpoints=checkpoints(110))).restart is Restart.YES
    twice = (mark(SignalKind.LOADED, 1, step=50), mark(SignalKind.LOADED, 9, step=120))
    assert verdict(replace(began, checkpoints=checkpoints(120), signals=twice)).restart is Restart.AFTER_CHANGE
    fresh = (mark(SignalKind.FRESH_START, 1), mark(SignalKind.LOADED, 2))
    assert verdict(replace(began, checkpoints=checkpoints(50), signals=fresh)).restart is Restart.YES


def test_a_time_limit_without_any_step_or_checkpoint_is_told_apart() -> None:
    assert verdict(ended(JobState.TIMEOUT, checkpoints=checkpoints(50))).restart is Restart.AFTER_CHANGE
    assert verdict(ended(JobState.TIMEOUT, samples=samples(3, every_s=300))).restart is Restart.AFTER_CHANGE


def test_a_deadline_is_final() -> None:
    assert said(verdict(ended(JobState.DEADLINE)))[:2] == (C.WALLTIME, Restart.NO)


def test_a_time_limit_of_one_step_in_a_failed_job() -> None:
    facts = ended(samples=samples(20, every_s=50), signals=(*read([LIMIT]), mark(SignalKind.SAVE_DURABLE, 0, step=100)))
    assert said(verdict(facts))[:2] == (C.WALLTIME, Restart.YES)
    barren = ended(samples=samples(20, every_s=50), signals=read([LIMIT]))
    assert said(verdict(barren))[:2] == (C.WALLTIME, Restart.AFTER_CHANGE)


def test_a_forged_preemption_does_not_restart_a_failed_job() -> None:
    got = verdict(ended(signals=read([LIMIT.replace("TIME LIMIT", "PREEMPTION")])))
    assert said(got)[:2] == (C.UNKNOWN, Restart.ONCE)


def test_preemption_and_memory_and_boot() -> None:
    assert said(verdict(ended(JobState.PREEMPTED)))[:2] == (C.PREEMPTION, Restart.YES)
    assert said(verdict(ended(JobState.OUT_OF_MEMORY)))[:2] == (C.HOST_OOM, Restart.AFTER_CHANGE)
    assert said(verdict(ended(JobState.BOOT_FAIL)))[:2] == (C.SCHEDULER_LAUNCH, Restart.ONCE)


def test_the_failed_node_is_the_one_that_is_down() -> None:
    facts = ended(JobState.NODE_FAIL, node_events=[event("gpu-03", "DOWN*: Not responding", state=NodeState.DOWN)])
    assert said(verdict(facts)) == (C.NODE_FAULT, Restart.YES, Exclude.NODES, ("gpu-03",))


def test_a_node_is_down_whatever_its_reason_says() -> None:
    facts = ended(JobState.NODE_FAIL, node_events=[event("gpu-03", "", state=NodeState.DOWN)])
    assert verdict(facts).nodes == ("gpu-03",)


def test_a_drained_node_is_not_a_failed_one() -> None:
    facts = ended(JobState.NODE_FAIL, node_events=[event("gpu-03", "firmware", state=NodeState.DRAINING)])
    assert said(verdict(facts)) == (C.NODE_FAULT, Restart.YES, Exclude.IF_REPEATED, ())


def test_the_node_of_a_one_node_job_needs_no_name() -> None:
    assert verdict(ended(JobState.NODE_FAIL, nodes=("gpu-07",))).nodes == ("gpu-07",)


def test_srun_names_failed_nodes_as_a_list() -> None:
    facts = ended(JobState.NODE_FAIL, nodes=tuple(f"gpu-{i:02d}" for i in range(1, 9)))
    listed = ended(JobState.NODE_FAIL, nodes=facts.nodes, signals=read(["srun: error: Node failure on gpu-[02-03]"]))
    assert verdict(listed).nodes == ("gpu-02", "gpu-03")


def test_many_nodes_lost_together_are_the_fabric() -> None:
    events = [event(f"gpu-0{i}", "Not responding", state=NodeState.DOWN) for i in (1, 2, 3)]
    got = verdict(ended(JobState.NODE_FAIL, node_events=events))
    assert said(got) == (C.NETWORK_FABRIC, Restart.YES, Exclude.HOLD, ())
    assert said(verdict(ended(node_events=events)))[2] is Exclude.HOLD
    six = tuple(f"gpu-0{i}" for i in range(1, 7))
    assert verdict(ended(JobState.NODE_FAIL, nodes=six, node_events=events)).exclude is Exclude.HOLD
    seven = (*six, "gpu-07")
    assert verdict(ended(JobState.NODE_FAIL, nodes=seven, node_events=events)).nodes == ("gpu-01", "gpu-02", "gpu-03")
    assert verdict(ended(JobState.NODE_FAIL, node_events=events[:2])).nodes == ("gpu-01", "gpu-02")


def test_all_nodes_that_are_down_are_excluded_though_the_job_only_failed() -> None:
    events = [event(f"gpu-0{i}", "Not responding", state=NodeState.DOWN) for i in (1, 2)]
    assert said(verdict(ended(node_events=events))) == (C.NODE_FAULT, Restart.YES, Exclude.NODES, ("gpu-01", "gpu-02"))


def test_a_node_with_another_fault_is_not_a_lost_one() -> None:
    warn = "gpu-01:1:2 [0] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'"
    lost = [event("gpu-03", "Not responding", state=NodeState.DOWN)]
    assert verdict(ended(JobState.NODE_FAIL, signals=read([warn]), node_events=lost)).nodes == ("gpu-03",)


def test_the_event_that_names_the_node_is_the_first_failure() -> None:
    lines = read([LIMIT.replace("TIME LIMIT", "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS")])
    got = verdict(ended(JobState.NODE_FAIL, signals=lines, node_events=[event("gpu-03", "Not responding")]))
    assert got.first_failure is not None
    assert (got.first_failure.source, got.first_failure.node, got.nodes) == ("node", "gpu-03", ("gpu-03",))
    unnamed = verdict(ended(JobState.NODE_FAIL, signals=lines))
    assert unnamed.first_failure is not None
    assert (unnamed.first_failure.rule, unnamed.nodes) == ("slurm.node_failure", ())
    assert unnamed.confidence < got.confidence


def test_a_dead_gpu_explains_the_node_that_went_down() -> None:
    events = [event("gpu-03", XID79, 900), event("gpu-03", "Not responding", 990, NodeState.DOWN)]
    assert said(verdict(ended(JobState.NODE_FAIL, node_events=events))) == (
        C.GPU_HARDWARE, Restart.YES, Exclude.NODES, ("gpu-03",),
    )  # fmt: skip


def test_slurms_lines_stand_in_for_its_record() -> None:
    lost = ended(JobState.UNKNOWN, signals=read(["srun: error: Node failure on gpu-02"]))
    assert said(verdict(lost)) == (C.NODE_FAULT, Restart.YES, Exclude.NODES, ("gpu-02",))
    preempted = ended(JobState.UNKNOWN, signals=read([LIMIT.replace("TIME LIMIT", "PREEMPTION")]))
    assert said(verdict(preempted))[:2] == (C.PREEMPTION, Restart.YES)


# --- requeued already -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "flag"), [(JobState.REQUEUED, False), (JobState.NODE_FAIL, True)])
def test_what_slurm_has_requeued_is_left_alone_and_keeps_its_class(state: JobState, flag: bool) -> None:
    facts = ended(state, requeued_by_slurm=flag, node_events=[event("gpu-03", "Not responding", state=NodeState.DOWN)])
    got = verdict(facts)
    assert said(got) == (C.NODE_FAULT, Restart.NO, Exclude.NONE, ())
    assert "Slurm has already requeued it" in got.reason


def test_a_requeue_without_a_fault_is_no_failure() -> None:
    assert said(verdict(ended(JobState.REQUEUED, exit_code=0)))[:2] == (C.NOT_A_FAILURE, Restart.NO)


def test_a_requeue_in_the_log_counts_where_there_is_no_record() -> None:
    line = LIMIT.replace("TIME LIMIT", "JOB REQUEUE")
    assert said(verdict(ended(JobState.UNKNOWN, exit_code=None, signals=read([line]))))[:2] == (
        C.NOT_A_FAILURE,
        Restart.NO,
    )
    assert verdict(ended(signals=read([line]))).failure_class is C.UNKNOWN


def test_a_requeued_attempt_tells_its_end_by_its_log() -> None:
    facts = ended(JobState.REQUEUED, signals=read([LIMIT.replace("TIME LIMIT", "PREEMPTION")]))
    assert said(verdict(facts))[:2] == (C.PREEMPTION, Restart.NO)


def test_what_slurm_holds_after_a_failed_launch_waits_for_a_person() -> None:
    got = verdict(ended(JobState.REQUEUED, state_reason="launch_failed_requeued_held", exit_code=None))
    assert said(got)[:2] == (C.SCHEDULER_LAUNCH, Restart.AFTER_CHANGE)
    assert "release it" in got.reason


# --- causes and consequences ------------------------------------------------------------------------------------------


def test_the_victims_do_not_decide() -> None:
    got = verdict(ended(signals=read([*traceback("KeyError: 'a'", rank=9), TIMEOUT, REMOTE])))
    assert said(got) == (C.USER_CODE, Restart.AFTER_CHANGE, Exclude.NONE, ())
    assert got.first_failure is not None
    assert (got.first_failure.rank, got.first_failure.line) == (9, 3)


def test_consequences_alone_are_tried_once_and_blame_no_node() -> None:
    got = verdict(ended(signals=read([REMOTE]), samples=samples(3)))
    assert said(got) == (C.NETWORK_FABRIC, Restart.ONCE, Exclude.IF_REPEATED, ())
    assert got.confidence <= 0.5
    assert "what caused it was not seen" in got.reason


def test_the_surest_of_the_consequences_speaks() -> None:
    got = verdict(ended(signals=read([REMOTE, TIMEOUT]), samples=samples(3)))
    assert said(got)[:2] == (C.HANG_COLLECTIVE, Restart.ONCE)


def test_lost_connections_before_the_first_step_are_a_failed_meeting() -> None:
    assert verdict(ended(signals=read([REMOTE]))).failure_class is C.RENDEZVOUS


def test_an_unknown_exception_after_a_lost_peer_tells_of_that() -> None:
    got = verdict(ended(signals=read([REMOTE, *traceback("mylib.CommError: rank 3 gone")]), samples=samples(3)))
    assert got.failure_class is C.NETWORK_FABRIC


def test_an_unknown_exception_before_a_lost_peer_is_the_cause() -> None:
    got = verdict(ended(signals=read([*traceback("mylib.ShardError: gone"), REMOTE]), samples=samples(3)))
    assert got.failure_class is C.USER_CODE
    elsewhere = (*read([REMOTE], file="a.log"), *read(traceback("mylib.ShardError: gone"), file="b.log"))
    assert verdict(ended(signals=elsewhere, samples=samples(3))).failure_class is C.USER_CODE


def test_a_known_exception_after_a_lost_peer_is_still_a_cause() -> None:
    got = verdict(ended(signals=read([REMOTE, *traceback("KeyError: 'a'")]), samples=samples(3)))
    assert got.failure_class is C.USER_CODE


def test_an_exception_without_a_traceback_may_be_a_message() -> None:
    assert verdict(ended(signals=read(["KeyError: 'a'"]))).confidence < 0.7
    assert verdict(ended(signals=read(traceback("KeyError: 'a'")))).confidence >= 0.9
    assert verdict(ended(signals=read(["KeyError: 'a'", *traceback("mylib.Oops")]))).confidence < 0.7
    other = (*read(traceback("mylib.Oops"), file="a.log"), *read(["x", "x", "x", "x", "KeyError: 'a'"], file="b.log"))
    assert verdict(ended(signals=other)).confidence < 0.7
    assert verdict(ended(signals=read([ECC]))).confidence > 0.9


def test_a_traceback_with_an_unknown_end_is_the_codes() -> None:
    got = verdict(ended(signals=read(traceback("mylib.Oops"))))
    assert said(got)[:2] == (C.USER_CODE, Restart.AFTER_CHANGE)
    assert got.confidence == 0.5


def test_the_same_fault_on_many_nodes_excludes_none() -> None:
    events = [event(f"gpu-0{i}", "NVRM: Xid (PCI:0000:1b:00): 119, pid=1, Timeout") for i in (1, 2, 3)]
    assert said(verdict(ended(node_events=events)))[:3] == (C.GPU_HARDWARE, Restart.YES, Exclude.HOLD)
    contained = [event(f"gpu-0{i}", "NVRM: Xid (PCI:0000:1b:00): 94, pid=1, Contained") for i in (1, 2, 3)]
    assert said(verdict(ended(node_events=contained)))[2] is Exclude.IF_REPEATED
    assert said(verdict(ended(node_events=events[:2])))[2:] == (Exclude.NODES, ("gpu-01",))
    port = "{}:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error"
    one = ended(signals=read([port.format("gpu-02")]), samples=samples(3))
    assert said(verdict(one)) == (C.NETWORK_FABRIC, Restart.YES, Exclude.NODES, ("gpu-02",))
    two = ended(signals=read([port.format("gpu-02"), port.format("gpu-03")]), samples=samples(3))
    assert said(verdict(two))[2:] == (Exclude.HOLD, ())


# --- the driver's word ------------------------------------------------------------------------------------------------

XID94 = "NVRM: Xid (PCI:0000:1b:00): 94, pid=4002, name=python, Contained: SM (0x1). RST: No, D-RST: No"
XID48 = "NVRM: Xid (PCI:0000:1b:00): 48, pid=4002, name=python, DBE (double bit error)"
PLACED_ECC = ["[rank3]: host gpu-02 pid 4002", *traceback(ECC, rank=3)]


def test_a_contained_error_is_no_reason_to_exclude_whatever_the_process_says() -> None:
    got = verdict(ended(signals=read(PLACED_ECC), node_events=[event("gpu-02", XID94)]))
    assert said(got) == (C.GPU_HARDWARE, Restart.YES, Exclude.IF_REPEATED, ())


def test_of_two_words_of_the_driver_the_graver_counts() -> None:
    got = verdict(ended(signals=read(PLACED_ECC), node_events=[event("gpu-02", XID94), event("gpu-02", XID48)]))
    assert said(got) == (C.GPU_HARDWARE, Restart.YES, Exclude.NODES, ("gpu-02",))


def test_a_contained_error_of_another_node_changes_nothing() -> None:
    got = verdict(ended(signals=read(PLACED_ECC), node_events=[event("gpu-03", XID94)]))
    assert said(got) == (C.GPU_HARDWARE, Restart.YES, Exclude.NODES, ("gpu-02",))


def test_a_program_fault_on_many_nodes_speaks_for_none_of_them() -> None:
    fault = "NVRM: Xid (PCI:0000:1b:00): 13, pid=4002, name=python, Graphics SM Warp Exception"
    few = verdict(ended(node_events=[event("gpu-01", fault)]))
    many = verdict(ended(node_events=[event(f"gpu-0{i}", fault) for i in (1, 2, 3)]))
    assert (few.exclude, many.exclude) == (Exclude.IF_REPEATED, Exclude.NONE)


def test_an_output_that_could_not_be_opened_needs_a_person() -> None:
    got = verdict(ended(JobState.FAILED, exit_code=0, exit_signal=53))
    assert said(got)[:2] == (C.LAUNCH_CONFIG, Restart.AFTER_CHANGE)


# --- errors beside the one that ended the process ---------------------------------------------------------------------

DURING = "During handling of the above exception, another exception occurred:"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def test_of_a_chain_the_error_that_was_handled_does_not_count() -> None:
    got = verdict(ended(signals=read([*traceback("KeyError: 'len=8192'"), DURING, *traceback(OOM)])))
    assert got.failure_class is C.GPU_OOM


def test_of_a_chain_a_definite_first_error_counts() -> None:
    got = verdict(ended(signals=read([*traceback(ECC), DURING, *traceback("KeyError: 'rank'")])))
    assert got.failure_class is C.GPU_HARDWARE


def test_chains_of_different_ranks_are_not_mixed() -> None:
    lines = [*traceback("KeyError: 'a'", rank=1), f"[rank2]: {DURING}", *traceback(OOM, rank=2)]
    assert verdict(ended(signals=read(lines))).failure_class is C.USER_CODE


@pytest.mark.parametrize("heading", ["Exception in thread Thread-3 (_flush):", "Exception ignored in: <function f>"])
def test_an_error_aside_yields_to_any_other_cause(heading: str) -> None:
    aside = [heading, *traceback("ValueError: I/O operation on closed file.")]
    assert verdict(ended(signals=read([*aside, *traceback(OOM)]))).failure_class is C.GPU_OOM
    assert verdict(ended(signals=read(aside))).failure_class is C.USER_CODE


# --- after the end ----------------------------------------------------------------------------------------------------


def test_a_node_that_is_lost_after_the_end_did_not_cause_what_the_job_said() -> None:
    facts = ended(signals=read(traceback("KeyError: 'a'", rank=3)))
    assert facts.ended_at is not None
    late = (facts.ended_at - at(0)).total_seconds() + 120
    got = verdict(replace(facts, node_events=(event("gpu-02", "Not responding", late),)))
    assert said(got)[:3] == (C.USER_CODE, Restart.AFTER_CHANGE, Exclude.NONE)


def test_a_node_that_is_lost_after_the_end_explains_what_the_job_only_suffered() -> None:
    facts = ended(samples=samples(20), signals=read([REMOTE]))
    assert facts.ended_at is not None
    late = (facts.ended_at - at(0)).total_seconds() + 120
    got = verdict(replace(facts, node_events=(event("gpu-02", "Not responding", late),)))
    assert said(got) == (C.NODE_FAULT, Restart.YES, Exclude.NODES, ("gpu-02",))


# --- words that a job may print ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["CUDA error: uncorrectable ECC error encountered", f"[ 8812.1] {XID79}"])
def test_the_bare_words_of_a_broken_gpu_exclude_no_node_by_themselves(line: str) -> None:
    alone = ended(signals=read([line], nodes=("gpu-02",)), nodes=("gpu-02",))
    got = verdict(alone)
    assert (got.restart, got.exclude, got.nodes) == (Restart.ONCE, Exclude.IF_REPEATED, ())
    assert got.confidence <= 0.6
    assert "nothing else says" in got.reason
    died = ended(signals=read([line, "srun: error: gpu-02: task 3: Exited with exit code 1"]), nodes=("gpu-02",))
    assert (verdict(died).exclude, verdict(died).nodes) == (Exclude.NODES, ("gpu-02",))


def test_a_kernels_own_word_needs_nobody_beside_it() -> None:
    facts = ended(node_events=[event("gpu-02", XID79)])
    assert said(verdict(facts)) == (C.GPU_HARDWARE, Restart.YES, Exclude.NODES, ("gpu-02",))


def test_a_drive_that_failed_is_no_node_that_was_lost() -> None:
    got = verdict(ended(node_events=[event("gpu-02", "Buffer I/O error on dev nvme1n1, logical block 1")]))
    assert (got.failure_class, got.exclude) == (C.NODE_FAULT, Exclude.IF_REPEATED)
    assert got.reason.startswith("A drive of the node failed (gpu-02).")


def test_a_failure_that_only_the_log_of_a_completed_job_tells_is_tried_once_at_most() -> None:
    signals = read([*traceback(ECC), "srun: error: gpu-02: task 3: Exited with exit code 1"])
    by_log = ended(JobState.COMPLETED, exit_code=0, signals=signals)
    assert verdict(by_log).restart is Restart.ONCE
    assert verdict(replace(by_log, step_exit_codes=(1,))).restart is Restart.YES


def test_what_was_caught_and_logged_is_not_what_ended_the_job() -> None:
    """A standard error of its own holds no steps that could prove it."""
    caught = [
        "Traceback (most recent call last):",
        '  File "d.py", line 4, in fetch',
        "OSError: [Errno 5] Input/output error",
    ]
    bug = read([*caught, *traceback("KeyError: 'labels'", rank=0)], file="job.err")
    got = verdict(ended(signals=bug, samples=samples(20)))
    assert (got.failure_class, got.restart) == (C.USER_CODE, Restart.AFTER_CHANGE)
    died = read([*caught, *traceback("RuntimeError: reader died", rank=0)], file="job.err")
    assert verdict(ended(signals=died, samples=samples(20))).failure_class is C.STORAGE_TRANSIENT


def test_of_two_nodes_events_in_one_moment_the_graver_decides() -> None:
    fault = event("gpu-01", "NVRM: Xid (PCI:0000:18:00): 31, pid=1, name=python3, MMU Fault", 990)
    assert verdict(ended(node_events=[fault, event("gpu-02", XID79, 992)])).nodes == ("gpu-02",)
    assert verdict(ended(node_events=[fault, event("gpu-02", XID79, 993)])).failure_class is C.USER_CODE
