"""How long a silence may last by what else is seen of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery.core.detectors import Limits, detect
from recovery.core.detectors.hang import detect_hang, is_silent, next_due
from recovery.core.quiet import WITNESS, how_long
from recovery.core.types import AttemptFacts, GpuFacts, NodeState, Phase, Signal
from tests.core.attempts import at, attempt, event, megatron, read, samples

LIMITS = Limits(hang_floor_s=900, hang_witnessed_s=300, first_step_s=1800, saving_s=400)
LAST = 800.0  # of the reports, 40 s apart
TIMED_OUT = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)"
ECC = "NVRM: Xid (PCI:0000:1b:00): 48, pid=4711, name=python, Double Bit ECC Error"


def silent(seconds: float, **fields: Any) -> AttemptFacts:
    return replace(attempt(samples=samples(20, every_s=40), now_s=LAST + seconds), **fields)


def gpus(seconds: float, **fields: Any) -> AttemptFacts:
    """What was measured a moment ago; usually a GPU draws 600 W."""
    given: dict[str, Any] = {"at": at(LAST + seconds - 20), "nodes": 4, "usual_power_w": 600.0, **fields}
    return silent(seconds, gpu=GpuFacts(**given))


def said(line: str, seconds: float = 1000) -> tuple[Signal, ...]:
    return tuple(signal._replace(at=at(seconds)) for signal in read([line]))


def hangs(facts: AttemptFacts, limits: Limits = LIMITS) -> bool:
    return detect_hang(facts, limits) is not None


IDLE: dict[str, Any] = {"utilisation": 0.0, "most_utilisation": 2.0, "power_w": 80.0, "most_power_w": 90.0}
SPINS: dict[str, Any] = {"utilisation": 100.0, "most_utilisation": 100.0, "power_w": 150.0, "most_power_w": 160.0}
WORKS: dict[str, Any] = {"utilisation": 97.0, "most_utilisation": 100.0, "power_w": 590.0, "most_power_w": 620.0}

TELLS: dict[str, dict[str, Any]] = {
    "idle GPUs": {"gpu": GpuFacts(at=at(LAST + 290), nodes=4, **IDLE)},
    "GPUs that spin": {"gpu": GpuFacts(at=at(LAST + 290), nodes=4, usual_power_w=600.0, **SPINS)},
    "a time-out": {"signals": said(TIMED_OUT)},
    "a watchdog that stopped": {
        "signals": said("[PG ID 0 Rank 3] ProcessGroupNCCL's watchdog got stuck for 480 seconds without progress")
    },
    "a process that ended": {"signals": said("srun: error: gpu-02: task 9: Exited with exit code 1")},
    "a node that is down": {"node_events": (event("gpu-02", "Not responding", 830, NodeState.DOWN),)},
    "a node's Xid just before": {"node_events": (event("gpu-02", ECC, LAST - 60),)},
}
TELLS_NOTHING: dict[str, dict[str, Any]] = {
    "nothing": {},
    "utilisation alone, which a waiting GPU has too": {
        "gpu": GpuFacts(at=at(LAST + 290), nodes=4, utilisation=100.0, most_utilisation=100.0)
    },
    "GPUs that only paused": {
        "gpu": GpuFacts(at=at(LAST + 290), nodes=4, usual_power_w=600.0, **{**SPINS, "most_power_w": 500.0})
    },
    "a little less power": {
        "gpu": GpuFacts(
            at=at(LAST + 290), nodes=4, usual_power_w=600.0, **{**SPINS, "power_w": 400.0, "most_power_w": 420.0}
        )
    },
    "old readings": {"gpu": GpuFacts(at=at(LAST - 300), nodes=4, **IDLE)},
    "a time-out before the last step": {"signals": said(TIMED_OUT, LAST - 10)},
    "a user's error, of which an evaluation prints hundreds": {
        "signals": said("TypeError: forward() got an unexpected keyword argument 'mask'")
    },
    "a storage that comes back": {"signals": said("OSError: [Errno 116] Stale file handle: '/data/shard-7'")},
    "an administrator's drain": {"node_events": (event("gpu-02", "maintenance", 900, NodeState.DRAINING),)},
    "a fault of long before": {"node_events": (event("gpu-02", ECC, LAST - 300),)},
    "what a kernel says by the way": {
        "node_events": (event("gpu-02", "NVRM: Xid (PCI:0000:1b:00): 63, row remapped", 900),)
    },
}


@pytest.mark.parametrize("name", TELLS)
def test_where_a_second_witness_agrees_less_silence_is_enough(name: str) -> None:
    assert not hangs(silent(290, **TELLS[name]))
    assert hangs(silent(310, **TELLS[name]))


@pytest.mark.parametrize("name", TELLS_NOTHING)
def test_where_nothing_else_says_so_more_silence_is_asked_for(name: str) -> None:
    assert not hangs(silent(310, **TELLS_NOTHING[name]))
    assert not hangs(silent(890, **TELLS_NOTHING[name]))
    assert hangs(silent(910, **TELLS_NOTHING[name]))


def test_a_line_without_a_time_counts_where_it_stands_below_the_last_report() -> None:
    """So that a log by itself, read from a file, tells of a time-out as well."""
    told = read([megatron(200, LAST), TIMED_OUT])
    before = read([TIMED_OUT, megatron(200, LAST)])
    assert hangs(silent(310, signals=told))
    assert not hangs(silent(310, signals=before))


def test_a_fault_that_was_read_together_with_the_last_report_came_after_it() -> None:
    """Progress counts from when it was read; the lines have the times of their log."""
    read_at = {"last_progress_at": at(LAST + 30)}
    assert hangs(silent(340, signals=said(TIMED_OUT, LAST), **read_at))
    assert not hangs(silent(340, signals=said(TIMED_OUT, LAST - 10), **read_at))
    late = {"last_progress_at": at(LAST + 500)}  # a clock that is behind by so much says nothing of what came when
    assert not hangs(silent(840, signals=said(TIMED_OUT, LAST + 300), **late))


def reason(facts: AttemptFacts) -> str:
    (finding,) = detect(facts, LIMITS)
    return finding.reason


def test_the_finding_says_which_floor_held_and_why_and_what_it_would_be_otherwise() -> None:
    assert reason(silent(960)) == (
        "No progress for 16 m: reports usually come within 40 s, and 15 m is the limit, as nothing else says that it "
        "hangs (5 m if something did)."
    )
    assert reason(gpus(320, **SPINS)) == (
        "No progress for 5 m 20 s: reports usually come within 40 s, and 5 m is the limit, as its GPUs only wait (15 m "
        "if nothing else told of it)."
    )
    assert "as gpu-02 went bad" in reason(silent(320, **TELLS["a node that is down"]))
    assert "as its log tells of a fault since" in reason(silent(320, **TELLS["a time-out"]))


def test_what_made_the_floor_lower_is_evidence() -> None:
    (finding,) = detect(silent(320, **TELLS["a process that ended"]), LIMITS)
    assert [line.rule for line in finding.evidence] == ["hang.overdue", "srun.task_exit"]
    (finding,) = detect(silent(320, **TELLS["a node that is down"]), LIMITS)
    assert [(line.rule, line.node) for line in finding.evidence[1:]] == [("hang.node", "gpu-02")]


def test_gpus_that_compute_ask_for_more_silence_and_make_a_hang_less_sure() -> None:
    longer = LIMITS.hang_at_work * LIMITS.hang_floor_s
    assert not hangs(gpus(longer - 10, **WORKS))
    (doubtful,) = detect(gpus(longer + 10, **WORKS), LIMITS)
    assert "22 m 30 s is the limit, as its GPUs are at work (15 m if they were not)" in doubtful.reason
    assert [line.rule for line in doubtful.evidence] == ["hang.overdue", "gpu.busy"]
    assert doubtful.confidence < detect(silent(longer + 10), LIMITS)[0].confidence - 0.1


def test_a_fault_that_is_told_weighs_more_than_gpus_that_compute() -> None:
    assert hangs(replace(gpus(310, **WORKS), signals=said(TIMED_OUT)))


@pytest.mark.parametrize("phase", [Phase.SAVING, Phase.EVALUATING, Phase.FINISHING])
def test_gpus_that_wait_are_part_of_a_pause_that_the_log_names(phase: Phase) -> None:
    paused: dict[str, Any] = {"phase": phase, "phase_since": at(LAST)}
    assert not hangs(replace(gpus(890, **IDLE), **paused))
    assert hangs(replace(gpus(910, **IDLE), **paused))
    told = silent(410, signals=said(TIMED_OUT), **paused)
    assert hangs(told)
    assert "may take 6 m 40 s, as its log tells of a fault since (15 m if nothing else told of it)" in reason(told)


def test_what_others_share_is_told_by_no_witness() -> None:
    """Time-outs and GPUs that wait are what a file system leaves behind that stands still."""
    stalled = gpus(910, **IDLE)
    assert hangs(stalled)
    assert not hangs(replace(stalled, stalled_with=3))
    limit = LIMITS.hang_shared * LIMITS.hang_floor_s
    assert "37 m 30 s is the limit, as other jobs stand still since the same minute" in reason(
        replace(gpus(limit + 10, **IDLE), stalled_with=3)
    )


def test_what_was_learned_of_the_run_is_not_shortened_by_any_witness() -> None:
    survived: dict[str, Any] = {"longest_wait_s": 600.0}  # 2.5 times as long: 1500 s
    assert not hangs(replace(gpus(1490, **IDLE), **survived))
    late = replace(gpus(1510, **IDLE), **survived)
    assert reason(late).endswith("reports usually come within 40 s, and 25 m is the limit.")
    assert not is_silent(replace(silent(1490), **survived), LIMITS)


def test_a_start_waits_as_long_whatever_is_seen() -> None:
    starting = replace(
        attempt(phase=Phase.STARTING, phase_since=at(0), now_s=1790), gpu=GpuFacts(at=at(1780), nodes=4, **IDLE)
    )
    assert not hangs(starting)


def test_a_site_whose_floor_is_low_anyway_has_but_one() -> None:
    low = replace(LIMITS, hang_floor_s=300, hang_witnessed_s=1200)
    (finding,) = detect(silent(320), low)
    assert finding.reason == "No progress for 5 m 20 s: reports usually come within 40 s, and 5 m is the limit."
    assert hangs(gpus(310, **IDLE), low)


def test_a_silence_that_could_be_a_hang_if_something_told_of_it_is_looked_at_every_minute() -> None:
    def until(facts: AttemptFacts) -> float:
        return (how_long(facts, LIMITS, trains=True).until - at(LAST)).total_seconds()

    assert until(silent(100)) == 300  # before that no witness would be enough
    assert until(silent(400)) == 400 + WITNESS.total_seconds()
    assert until(silent(880)) == 900
    assert until(gpus(400, **WORKS)) == 400 + WITNESS.total_seconds()
    assert until(replace(silent(100), stalled_with=3)) == 100 + 600  # nothing that could be seen would shorten it


def test_what_could_tell_is_asked_for_from_the_lower_floor_on() -> None:
    assert not is_silent(silent(300), LIMITS)
    assert is_silent(silent(301), LIMITS)
    assert not is_silent(silent(301, blind_reason="The log can't be read."), LIMITS)
    due = next_due(silent(301), LIMITS)
    assert due is not None
    assert (due.least_s, due.limit_s) == (300, 900)
    assert due.since + timedelta(seconds=300) == at(LAST + 300)
