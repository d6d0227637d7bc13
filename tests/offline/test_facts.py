"""What the files of a job tell at once, that the product learns by polling."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from recovery.core.types import AttemptFacts, JobState, Phase, SignalKind
from recovery.offline.facts import facts_of
from recovery.offline.logs import LINE_LIMIT, MOST_FAILURES, MOST_MARKS, log_files, read_files, time_in
from recovery.offline.record import OfflineJob
from tests.core.attempts import LIMITS, START, at, megatron, traceback


def write(folder: Path, *lines: str, name: str = "job.log") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def facts(folder: Path, *lines: str, **record: object) -> AttemptFacts:
    return facts_of(OfflineJob.read(record), [write(folder, *lines)], LIMITS)


STEPS = [megatron(10 * i, 40 * i) for i in range(1, 6)]


def test_samples_and_phase_come_from_the_log(tmp_path: Path) -> None:
    got = facts(tmp_path, *STEPS, state="RUNNING", elapsed_s=600)
    assert (got.last_step, got.last_progress_at, got.phase) == (50, at(200), Phase.TRAINING)
    assert [s.step for s in got.samples] == [10, 20, 30, 40, 50]
    assert got.now == at(40) + timedelta(seconds=600)  # elapsed since the first line, for want of a start


def test_elapsed_counts_from_the_start_where_it_is_given(tmp_path: Path) -> None:
    got = facts(tmp_path, *STEPS, state="RUNNING", elapsed_s=600, start=START.isoformat())
    assert got.now == at(600)
    assert got.started_at == START


def test_an_ended_job_ends_now(tmp_path: Path) -> None:
    got = facts(tmp_path, *STEPS, state="FAILED")
    assert got.ended_at == got.now == at(200)


def test_nodes_are_taken_from_the_log_only_where_the_record_has_none(tmp_path: Path) -> None:
    warn = "gpu-03:40817:41220 [3] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'"
    assert facts(tmp_path, warn).nodes == ("gpu-03",)
    assert facts(tmp_path, warn, nodes="gpu-[01-02]").nodes == ("gpu-01", "gpu-02")


def test_a_log_without_times_is_blind_while_the_job_runs(tmp_path: Path) -> None:
    lines = [f"iter {i}: loss 3.2, lr 0.1" for i in range(0, 100, 10)]
    assert "carries a time" in facts(tmp_path, *lines, state="RUNNING", elapsed_s=9000).blind_reason
    assert facts(tmp_path, *lines, state="FAILED").blind_reason == ""


def test_printed_step_times_stand_in_for_a_clock(tmp_path: Path) -> None:
    undated = [step.partition("] ")[2] for step in STEPS]
    got = facts(tmp_path, *undated, state="RUNNING", elapsed_s=9000)
    assert got.blind_reason == ""
    assert got.last_progress_at is not None
    first_step_at_the_latest = timedelta(seconds=LIMITS.first_step_s)
    assert got.last_progress_at - (got.now - timedelta(seconds=9000)) == first_step_at_the_latest + timedelta(
        seconds=160
    )


def test_a_report_at_the_end_places_ranks_that_failed_before(tmp_path: Path) -> None:
    block = ["Root Cause (first observed failure):", "[0]:", "  host      : gpu-02", "  rank      : 9 (local_rank: 1)"]
    got = facts(tmp_path, *traceback("KeyError: 'a'", rank=9), *block)
    assert [s.node for s in got.signals if s.rule == "python.user_error"] == ["gpu-02"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[titan] 2026-01-11 09:00:20,010 - root - INFO", datetime(2026, 1, 11, 9, 0, 20, 10000, tzinfo=UTC)),
        (" [2026-01-11 09:00:20.000000] iteration 10/20 |", datetime(2026, 1, 11, 9, 0, 20, tzinfo=UTC)),
        ("2026-01-11T09:00:20.123456789Z stdout F x", datetime(2026, 1, 11, 9, 0, 20, 123456, tzinfo=UTC)),
        ("2026-01-11T10:00:20+01:00 x", datetime(2026, 1, 11, 9, 0, 20, tzinfo=UTC)),
        ("2026-13-45 09:00:20 x", None),
        ("step 10 loss 2.5", None),
        ("x" * 200 + "2026-01-11 09:00:20", None),
    ],
)
def test_the_time_of_a_line(text: str, expected: datetime | None) -> None:
    assert time_in(text) == expected


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_folder_stands_for_its_log_files(tmp_path: Path) -> None:
    for name in ("b.err", "a.out", "c.log", "notes.txt", "case.toml"):
        write(tmp_path, "x", name=name)
    (tmp_path / "sub.log").mkdir()
    assert [f.name for f in log_files([tmp_path])] == ["a.out", "b.err", "c.log"]
    assert log_files([tmp_path / "notes.txt"]) == [tmp_path / "notes.txt"]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_files([tmp_path / "gone.log"], ())


def test_garbage_is_read_without_an_error(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(bytes(range(256)) * 50 + b"\n" + b"x" * (3 * LINE_LIMIT) + b"\nKeyError: 'a'\n\nlast, unfinished")
    reading = read_files([path], ())
    (signal,) = reading.signals
    assert (signal.rule, signal.line) == ("python.user_error", path.read_bytes().count(b"\n", 0, signal.offset) + 1)


def test_memory_is_bounded_and_keeps_what_decides(tmp_path: Path) -> None:
    """The first failures hold the cause; the last progress tells whether life went on."""
    lines = [f"KeyError: 'k{i}'" for i in range(MOST_FAILURES + 50)]
    lines += [megatron(i, i) for i in range(1, MOST_MARKS + 51)]
    reading = read_files([write(tmp_path, *lines)], ())
    failures = [s for s in reading.signals if s.kind is SignalKind.FAILURE]
    steps = [s.step for s in reading.signals if s.kind is SignalKind.PROGRESS]
    assert (len(failures), failures[0].line) == (MOST_FAILURES, 1)
    assert (len(steps), steps[-1]) == (MOST_MARKS, MOST_MARKS + 50)
    assert len(reading.times) <= MOST_FAILURES + MOST_MARKS


def test_job_state_words_reach_the_facts(tmp_path: Path) -> None:
    got = facts(tmp_path, state="TIMEOUT", exit_code="0:15", restart_count=2, user_cancelled_by="ana", time_limit_s=60)
    assert (got.state, got.exit_code, got.exit_signal, got.number) == (JobState.TIMEOUT, 0, 15, 2)
    assert (got.cancelled_by, got.time_limit_s) == ("ana", 60)


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_a_day_that_no_log_was_written_on_is_no_time(tmp_path: Path, day: str) -> None:
    assert time_in(f"{day} 00:00:00 INFO step 4") is None
    got = facts(tmp_path, *STEPS, f"{day} 00:00:00,000 - INFO - step: 60 loss: 1.0", state="RUNNING", elapsed_s=600)
    assert got.now == at(40) + timedelta(seconds=600)


def test_the_record_knows_the_end_where_the_log_is_dated_in_another_zone(tmp_path: Path) -> None:
    ahead = [megatron(10 * i, 9 * 3600 + 40 * i) for i in range(1, 6)]
    assert facts(tmp_path, *ahead, state="FAILED", elapsed_s=600, start=START.isoformat()).ended_at == at(600)
    assert facts(tmp_path, *STEPS, state="FAILED", elapsed_s=10**10).now.year == 2342
