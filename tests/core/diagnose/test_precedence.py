"""Which kind of evidence decides, and what each says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recovery.core.types import (
    Exclude,
    FailureClass,
    JobState,
    Restart,
)
from tests.core.attempts import (
    at,
    ended,
    event,
    read,
    samples,
    traceback,
)
from tests.core.diagnose.verdicts import said, verdict

C = FailureClass
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
XID79 = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
TIMEOUT = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)"
REMOTE = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."


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
