"""What Slurm says decides: its record, its lines in the log, its events of nodes, a person's cancel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.types import (
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
    ended,
    event,
    mark,
    megatron,
    read,
    samples,
    traceback,
)
from tests.core.diagnose.verdicts import said, verdict

C = FailureClass
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
XID79 = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
TIMEOUT = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)"
LIMIT = "slurmstepd: error: *** JOB 4711 ON gpu-01 CANCELLED AT 2026-01-11T09:16:40 DUE TO TIME LIMIT ***"
CANCEL = "slurmstepd: error: *** JOB 4711 ON gpu-01 CANCELLED AT 2026-01-11T09:16:40 ***"


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
