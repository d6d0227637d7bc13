"""How far the ranks came in their collective operations, compared."""

from __future__ import annotations

from recovery.core.diagnose import diagnose
from recovery.core.types import Diagnosis, Exclude, FailureClass, JobState, Restart
from tests.core.attempts import crash, ended, read, samples


def reached(rank: int, enqueued: int, completed: int, group: str = "0 PG GUID 0(default_pg)") -> str:
    return (
        f"[rank{rank}]:[E0111 09:20:41.123456789 ProcessGroupNCCL.cpp:1785] [PG ID {group} Rank {rank}] Exception "
        f"(either an error or timeout) detected by watchdog at work: {completed + 1}, "
        f"last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."
    )


def timed_out(rank: int) -> str:
    return f"[rank{rank}]: [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)"


def verdict(lines: list[str]) -> Diagnosis:
    facts = ended(JobState.FAILED, samples=samples(40), signals=read(lines))
    return diagnose(facts, crash(facts))


def test_a_rank_out_of_step_is_named_and_no_node_suspected() -> None:
    got = verdict([reached(rank, 8815 if rank != 3 else 8810, 8812 if rank != 3 else 8809) for rank in range(8)])
    assert (got.failure_class, got.restart, got.exclude) == (FailureClass.HANG_COLLECTIVE, Restart.ONCE, Exclude.NONE)
    assert "rank 3 had enqueued 8810 operations, the others 8815" in got.reason


def test_the_rank_out_of_step_is_among_the_evidence_however_many_wait_for_it() -> None:
    waiting = [line for rank in range(31) for line in (timed_out(rank), reached(rank, 5001, 5000))]
    got = verdict([*waiting, reached(31, 4999, 4998)])
    assert "rank 31 had enqueued 4999" in got.reason
    assert any(e.rank == 31 for e in got.evidence)


def test_ranks_that_came_equally_far_leave_the_suspicion_where_it_was() -> None:
    got = verdict([reached(rank, 48213, 48212) for rank in range(8)])
    assert got.exclude is Exclude.IF_REPEATED
    assert "all 8 ranks that report came equally far (48213)" in got.reason


def test_processes_without_any_operation_in_flight_stood_still() -> None:
    got = verdict([reached(rank, -1, -1) for rank in range(8)])
    assert (got.failure_class, got.exclude) == (FailureClass.HANG_SILENT, Exclude.NONE)
    assert "look at the file system" in got.reason


def test_ranks_of_different_groups_are_not_compared() -> None:
    lines = [reached(rank, 100, 99) for rank in range(6)] + [
        reached(rank, 7, 6, group="1 PG GUID 5(tp)") for rank in (6, 7)
    ]
    assert "out of step" not in verdict(lines).reason


def test_two_ranks_that_differ_prove_nothing() -> None:
    assert "out of step" not in verdict([reached(0, 10, 9), reached(1, 11, 9)]).reason


def test_half_against_half_proves_nothing() -> None:
    got = verdict([reached(rank, 10 + rank % 2, 9) for rank in range(8)])
    assert "out of step" not in got.reason
    assert got.exclude is Exclude.IF_REPEATED


def test_the_one_rank_that_did_not_report_is_named() -> None:
    assert "only rank 5 did not report" in verdict([timed_out(rank) for rank in range(16) if rank != 5]).reason
    assert "did not report" not in verdict([timed_out(rank) for rank in (2, 9)]).reason.partition("; what caused")[2]
