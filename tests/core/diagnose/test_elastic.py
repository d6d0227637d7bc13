"""torchelastic's block is printed last, but says when the process ended."""

from __future__ import annotations

import pytest

from recovery.core.diagnose import diagnose
from recovery.core.types import AttemptFacts, Diagnosis, FailureClass, Finding, FindingKind, JobState, Restart
from tests.core.attempts import START
from tests.core.logs.lines import signals_of

WATCHDOG = (
    "[rank{rank}]:[E111 09:30:41.100000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE) ran for 600000 milliseconds before timing out."
)


def block(time: str, *, code: int, rank: int = 9, host: str = "gpu-02") -> list[str]:
    return [
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : 2026-01-11_{time}",
        f"  host      : {host}",
        f"  rank      : {rank} (local_rank: 1)",
        f"  exitcode  : {code} (pid: 4411)",
        "  error_file: <N/A>",
    ]


def judged(*lines: str) -> Diagnosis:
    facts = AttemptFacts(
        now=START, seen_at=START, state=JobState.FAILED, exit_code=1, nodes=("gpu-01", "gpu-02"),
        signals=tuple(signals_of(*lines)),
    )  # fmt: skip
    return diagnose(facts, Finding(kind=FindingKind.CRASH, since=START, reason="It failed.", confidence=0.9))


def timed_out() -> list[str]:
    return [WATCHDOG.format(rank=rank) for rank in range(9)]


@pytest.mark.parametrize(
    ("code", "failure_class"), [(-11, FailureClass.USER_CODE), (1, FailureClass.UNKNOWN), (-9, FailureClass.UNKNOWN)]
)
def test_who_ended_before_the_others_time_outs_is_named(code: int, failure_class: FailureClass) -> None:
    verdict = judged(*timed_out(), *block("09:20:41", code=code))
    assert verdict.failure_class is failure_class
    assert verdict.restart is Restart.ONCE
    assert "ended before the others waited for it in vain (reported by gpu-02, rank 9)" in verdict.reason


@pytest.mark.parametrize("time", ["09:30:42", "09:30:40", "09:45:00"])
def test_who_ended_with_the_others_is_a_victim_like_them(time: str) -> None:
    assert judged(*timed_out(), *block(time, code=-6)).failure_class is FailureClass.HANG_COLLECTIVE


def test_of_several_agents_blocks_the_earliest_counts() -> None:
    both = [*block("09:21:10", code=-11, rank=2, host="gpu-01"), *block("09:20:41", code=-11)]
    assert "gpu-02, rank 9" in judged(*timed_out(), *both).reason
    near = [*block("09:20:42", code=-11, rank=2, host="gpu-01"), *block("09:20:41", code=-11)]
    assert judged(*timed_out(), *near).failure_class is FailureClass.HANG_COLLECTIVE  # which was first is not certain


def test_a_late_printed_error_has_the_time_at_which_its_process_ended() -> None:
    """The error of rank 9 stands last in the log; its process had ended before rank 3 met the lost peer."""
    lines = [
        "2026-01-11 09:25:00,000 ERROR rank 3: [rank3]: something",
        "[rank9]: Traceback (most recent call last):",
        "[rank9]: KeyError: 'x'",
        *block("09:20:41", code=1),
    ]
    verdict = judged(*lines)
    assert verdict.failure_class is FailureClass.USER_CODE
    assert verdict.first_failure is not None
    assert verdict.first_failure.at is not None
    assert verdict.first_failure.at.strftime("%H:%M:%S") == "09:20:41"


def test_nonsense_in_a_block_tells_nothing() -> None:
    lines = [*timed_out(), "  time      : 2026-99-99_09:20:41", "  exitcode  : -11 (pid: 1)"]
    assert judged(*lines).failure_class is FailureClass.HANG_COLLECTIVE
