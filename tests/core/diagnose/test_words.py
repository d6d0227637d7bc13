"""What a diagnosis says beside its verdict: reason, evidence, first failure, coverage."""

from __future__ import annotations

import pytest

from recovery.core.diagnose import MAX_EVIDENCE, diagnose
from recovery.core.types import CheckpointFact, CheckpointState, Diagnosis, GpuFacts, JobState
from tests.core.attempts import at, checkpoints, crash, ended, event, read, samples, traceback

ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
REMOTE = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."


def verdict(state: JobState = JobState.FAILED, **fields: object) -> Diagnosis:
    facts = ended(state, **fields)
    return diagnose(facts, crash(facts))


def test_the_reason_ends_with_what_to_do() -> None:
    dead = event("gpu-02", "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.")
    assert verdict(node_events=[dead]).reason == (
        "A GPU fell off the bus (Xid 79); the node needs a power cycle (gpu-02). Restart it without gpu-02."
    )
    assert verdict(JobState.PREEMPTED).reason == "Slurm preempted the job. Restart it."
    assert verdict().reason.endswith("One restart is worth a try.")
    assert verdict(signals=read(traceback("KeyError: 'a'"))).reason.endswith(
        "A person must change something before it runs again."
    )
    assert verdict(JobState.CANCELLED).reason == "Slurm says that the job was cancelled."


def test_a_completed_job_that_failed_is_doubtful() -> None:
    facts = ended(JobState.COMPLETED, exit_code=0, step_exit_codes=(1,), signals=read(traceback("KeyError: 'a'")))
    got = diagnose(facts, crash(facts))
    assert got.reason.endswith("Doubtful: Slurm says that the job completed.")
    assert got.coverage["contradictions"] == "Slurm says that the job completed"
    assert got.confidence == 0.77  # 0.9, less one doubt


def test_the_deciding_line_stands_first_then_the_detectors_then_the_rest() -> None:
    got = verdict(signals=read([*traceback(ECC, rank=3), REMOTE]))
    assert [e.rule for e in got.evidence] == [
        "cuda.ecc_uncorrectable", "state.failed", "nccl.remote", "python.traceback",
    ]  # fmt: skip
    assert got.first_failure == got.evidence[0]


def test_evidence_is_bounded() -> None:
    got = verdict(signals=read([f"KeyError: 'k{i}'" for i in range(50)]))
    assert len(got.evidence) == MAX_EVIDENCE == 12
    assert len(verdict(node_events=[event("gpu-02", "Not responding" * 60)]).reason) <= 500


def test_a_cancel_still_shows_what_had_failed_first() -> None:
    got = verdict(JobState.CANCELLED, signals=read([REMOTE, *traceback(ECC)]))
    assert got.first_failure is not None
    assert got.first_failure.rule == "cuda.ecc_uncorrectable"
    only = verdict(JobState.CANCELLED, signals=read([REMOTE]))
    assert only.first_failure is not None
    assert only.first_failure.rule == "nccl.remote"
    assert verdict(JobState.CANCELLED).first_failure is None


def test_coverage_says_what_was_seen() -> None:
    got = verdict(
        state_reason="NonZeroExitCode", step_exit_codes=(1,), samples=samples(40),
        signals=read(traceback("KeyError: 'a'")), checkpoints=checkpoints(200, torn=(388,)),
        node_events=[event("gpu-02", "Kill task failed")],
    )  # fmt: skip
    assert got.coverage == {
        "scheduler": "state failed, exit code 1, reason NonZeroExitCode",
        "job log": "2 failure lines, last step 400",
        "ranks": "no line names one",
        "node events": "1 event of the job's 4 nodes",
        "checkpoints": "newest complete: step 200, 1 more not complete",
        "GPU counters": "no readings lately; they come from a Prometheus, where the cluster names one",
        "what would change it": "an earlier cause than the one that was found",
    }


def test_coverage_says_what_was_measured_and_which_checkpoints_are_gone() -> None:
    gpu = GpuFacts(at=at(1000), nodes=1, utilisation=3.2, power_w=81.0, usual_power_w=610.0, xids=(("gpu-02", 79),))
    gone = CheckpointFact(step=100, state=CheckpointState.MISSING, path="/ckpt/iter_0000100")
    got = verdict(gpu=gpu, nodes=("gpu-02",), checkpoints=[gone, *checkpoints(200)]).coverage
    assert got["GPU counters"] == "of 1 node, 3 % busy on the mean, 81 W each, usually 610 W, Xid 79 on gpu-02"
    assert got["checkpoints"] == "newest complete: step 200, 1 no longer there"
    assert got["node events"].startswith("none for the job's 1 node;")


def test_coverage_says_what_was_not_seen() -> None:
    got = verdict(JobState.UNKNOWN, exit_code=None, nodes=())
    assert got.coverage["scheduler"] == "no record of the job"
    assert got.coverage["job log"] == "nothing that we know was found in it"
    assert got.coverage["node events"] == "the job's nodes are not known"
    assert got.coverage["checkpoints"] == "none seen"
    assert "exit codes of the steps not known" in verdict().coverage["scheduler"]
    assert "proves nothing" in verdict().coverage["node events"]
    assert (
        verdict(checkpoints=checkpoints(torn=(9,))).coverage["checkpoints"] == "none is complete, 1 more not complete"
    )
    assert "signal 11" in verdict(exit_signal=11).coverage["scheduler"]


@pytest.mark.parametrize(
    ("spoke", "ranks", "said"),
    [
        ([3, 7], None, "lines of ranks 3, 7 read; how many there are is not known"),
        ([3], 8, "lines of rank 3 read, of 8; nothing of ranks 0-2, 4-7"),
        ([0, 1, 2, 3], 4, "lines of all 4 read"),
        ([], 16, "no line names one of the 16"),
        ([1, 3, 5, 7, 9, 11, 13, 15], 16, "nothing of ranks 0, 2, 4, 6, 8, 10 and 2 more"),
    ],
)
def test_coverage_says_of_which_ranks_nothing_was_read(spoke: list[int], ranks: int | None, said: str) -> None:
    lines = [line for rank in spoke for line in traceback("KeyError: 'a'", rank=rank)]
    assert verdict(signals=read(lines), ranks=ranks).coverage["ranks"].endswith(said)


def test_ranks_that_only_the_number_of_gpus_speaks_for_are_not_taken_for_granted() -> None:
    """A trainer with two GPUs for each process has four ranks on eight of them."""
    lines = [line for rank in range(4) for line in traceback("KeyError: 'a'", rank=rank)]
    got = verdict(signals=read(lines), gpus=8).coverage["ranks"]
    assert got == "lines of ranks 0-3 read, of 8; nothing of ranks 4-7, if each GPU has one"
    assert verdict(signals=read(lines), gpus=8, ranks=4).coverage["ranks"] == "lines of all 4 read"


@pytest.mark.parametrize(
    ("by", "owner", "said"),
    [
        ("svc-idle-gpu", "ana", "cancelled by svc-idle-gpu, not by its owner ana."),
        ("ana", "ana", "cancelled by ana, its owner."),
        ("ana", "", "cancelled by ana."),
    ],
)
def test_who_cancelled_is_named_and_whether_it_was_the_owner(by: str, owner: str, said: str) -> None:
    assert verdict(state=JobState.CANCELLED, cancelled_by=by, owner=owner).reason.startswith(
        f"Slurm says that the job was {said}"
    )
