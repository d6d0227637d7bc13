from __future__ import annotations

from recovery.core.diagnose import diagnose
from recovery.core.types import Diagnosis, Exclude, FailureClass, PastFailure, Restart
from tests.core.attempts import crash, ended, event, past, read, samples

C = FailureClass
CONTAINED = event("gpu-02", "NVRM: Xid (PCI:0000:1b:00): 94, pid=1, Contained")
DEAD = event("gpu-02", "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.")
UNKNOWN_EXIT = ended(samples=samples(40))


def verdict(*history: PastFailure, events: tuple[object, ...] = (CONTAINED,)) -> Diagnosis:
    facts = ended(samples=samples(40), node_events=events)
    return diagnose(facts, crash(facts), history)


def test_a_suspect_is_excluded_the_second_time() -> None:
    assert verdict().exclude is Exclude.IF_REPEATED
    again = verdict(past(C.GPU_HARDWARE, nodes=("gpu-02",), step=100))
    assert (again.exclude, again.nodes) == (Exclude.NODES, ("gpu-02",))
    assert "second time on gpu-02" in again.reason


def test_another_nodes_past_does_not_condemn_this_one() -> None:
    assert verdict(past(C.GPU_HARDWARE, nodes=("gpu-03",), step=100)).exclude is Exclude.IF_REPEATED
    assert verdict(past(C.USER_CODE, nodes=("gpu-02",), step=100)).exclude is Exclude.IF_REPEATED


def test_once_means_once() -> None:
    facts = UNKNOWN_EXIT
    assert diagnose(facts, crash(facts)).restart is Restart.ONCE
    again = diagnose(facts, crash(facts), [past(C.UNKNOWN, step=100)])
    assert again.restart is Restart.AFTER_CHANGE
    assert "brought no new checkpoint" in again.reason


def test_a_new_checkpoint_earns_the_one_try_back() -> None:
    facts = UNKNOWN_EXIT
    assert diagnose(facts, crash(facts), [past(C.UNKNOWN, checkpoint_since=True)]).restart is Restart.ONCE


def test_what_was_only_watched_is_no_try() -> None:
    facts = UNKNOWN_EXIT
    assert diagnose(facts, crash(facts), [past(C.UNKNOWN, acted=False)]).restart is Restart.ONCE


def test_before_the_first_step_there_is_no_step_to_compare() -> None:
    facts = ended(node_events=[DEAD])
    again = diagnose(facts, crash(facts), [past(C.GPU_HARDWARE, step=None)])
    assert again.restart is Restart.YES
    assert "contradictions" not in again.coverage


def test_what_is_tried_once_anyway_gets_no_further_doubt() -> None:
    facts = ended(samples=samples(40), exit_code=139)
    assert "contradictions" not in diagnose(facts, crash(facts), [past(C.USER_CODE, step=400, acted=False)]).coverage


def test_hardware_does_not_fail_twice_at_one_step() -> None:
    assert verdict(events=(DEAD,)).restart is Restart.YES
    again = verdict(past(C.GPU_HARDWARE, step=400, acted=False), events=(DEAD,))
    assert again.restart is Restart.ONCE
    assert "points at code or data" in again.reason
    assert again.confidence < 0.9
    elsewhere = verdict(past(C.GPU_HARDWARE, step=200), events=(DEAD,))
    assert elsewhere.restart is Restart.YES


# --- what other runs, other nodes and other steps add ----------------------------------------------------------------


def with_suspects(**suspects: str) -> Diagnosis:
    facts = ended(samples=samples(40), node_events=[CONTAINED])
    return diagnose(facts, crash(facts), (), {name.replace("_", "-"): why for name, why in suspects.items()})


def test_what_is_excluded_if_repeated_is_excluded_on_a_suspect_which_says_why() -> None:
    got = with_suspects(gpu_02="3 failures of 3 runs began on it.")
    assert (got.exclude, got.nodes) == (Exclude.NODES, ("gpu-02",))
    assert "gpu-02 is a suspect (3 failures of 3 runs began on it)" in got.reason
    assert with_suspects(gpu_03="another").exclude is Exclude.IF_REPEATED


def test_a_suspect_among_the_victims_of_a_time_out_is_not_excluded_for_it() -> None:
    line = (
        "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL("
        "SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds "
        "before timing out."
    )
    facts = ended(samples=samples(40), signals=read(["[rank1]: host gpu-02 pid 7", line]), nodes=("gpu-01", "gpu-02"))
    why = {"gpu-01": "x", "gpu-02": "x"}
    for history in ((), [past(C.HANG_COLLECTIVE, nodes=("gpu-02",), step=100)]):
        got = diagnose(facts, crash(facts), history, why)
        assert got.failure_class is C.HANG_COLLECTIVE
        assert got.exclude is not Exclude.NODES


def test_a_bad_node_has_many_faces_and_that_the_run_went_on_elsewhere_is_said() -> None:
    again = verdict(past(C.NODE_FAULT, nodes=("gpu-02",), step=100, elsewhere=True))
    assert (again.exclude, again.nodes) == (Exclude.NODES, ("gpu-02",))
    assert "after the first time the run went on elsewhere" in again.reason


def test_the_same_step_counts_as_far_as_reports_can_tell_and_names_other_nodes() -> None:
    near = verdict(past(C.GPU_HARDWARE, step=390, acted=False, nodes=("gpu-04",)), events=(DEAD,))  # reports every 10
    assert near.restart is Restart.ONCE
    assert "before, on other nodes: the same place twice points at code or data" in near.reason
    assert verdict(past(C.GPU_HARDWARE, step=380, acted=False), events=(DEAD,)).restart is Restart.YES


def test_one_node_both_times_explains_the_same_step_too() -> None:
    assert (
        verdict(past(C.GPU_HARDWARE, step=400, acted=False, nodes=("gpu-02",)), events=(DEAD,)).restart is Restart.YES
    )


def test_a_failure_of_an_outbreak_says_nothing_of_the_run() -> None:
    assert verdict(past(C.GPU_HARDWARE, nodes=("gpu-02",), step=100, shared=True)).exclude is Exclude.IF_REPEATED
    assert verdict(past(C.GPU_HARDWARE, step=400, acted=False, shared=True), events=(DEAD,)).restart is Restart.YES
    facts = UNKNOWN_EXIT
    assert diagnose(facts, crash(facts), [past(C.UNKNOWN, step=100, shared=True)]).restart is Restart.ONCE


# --- who only tells of it ---------------------------------------------------------------------------------------------

RETRIES = "gpu-02:4410:4790 [0] NCCL WARN NET/IB : Got completion from peer 10.9.1.104<51820> with status=12 len=0"
NEVER_MET = (
    "[rank0]: torch.distributed.DistStoreError: Timed out after 600 seconds waiting for clients. 31/32 clients joined."
)


def test_who_lost_a_peer_or_waits_for_one_is_not_excluded_however_often_it_says_so() -> None:
    placed = "[rank0]: host gpu-01 pid 1"
    for line, failure_class, node in (
        (RETRIES, C.NETWORK_FABRIC, "gpu-02"),
        (NEVER_MET, C.RENDEZVOUS, "gpu-01"),
    ):
        facts = ended(signals=read([placed, line, "srun: error: gpu-01: task 0: Exited with exit code 1"]))
        got = diagnose(facts, crash(facts), [past(failure_class, nodes=(node,), step=None)])
        assert got.failure_class is failure_class
        assert (got.exclude, got.nodes) == (Exclude.IF_REPEATED, ())
        assert f"reported by {node}" in got.reason


def test_what_a_node_only_told_of_is_no_first_time() -> None:
    told = past(C.NETWORK_FABRIC, nodes=("gpu-02",), step=100, rule="nccl.ib_retry")
    assert verdict(told).exclude is Exclude.IF_REPEATED
    waited = past(C.HANG_COLLECTIVE, nodes=("gpu-02",), step=100, rule="nccl.collective_timeout")
    assert verdict(waited).exclude is Exclude.IF_REPEATED
