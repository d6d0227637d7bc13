"""Metrics files: JSON lines and CSV of several trainers, and what must not be taken for progress."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recovery.core import metrics
from recovery.core.types import LogLine, Signal, SignalKind


def read(*lines: str, memory: dict[str, Any] | None = None) -> list[Signal]:
    memory = {} if memory is None else memory
    given = [LogLine(text=text, file="/m", number=index + 1, offset=index * 100) for index, text in enumerate(lines)]
    return [signal for line in given for signal in metrics.feed(line, memory)]


@pytest.mark.parametrize(
    "line",
    [
        {"step": 120, "loss": 2.5, "tokens_per_second": 900, "step_time": 1.5},
        {"global_step": 120, "train/loss": 2.5, "throughput": 900, "step_time_ms": 1500},
        {"trainer/global_step": "120", "train_loss": "2.5", "tps": "900", "iteration_time": 1.5},
        {"Iteration": 120.0, "lm loss": 2.5, "throughput/tokens_per_sec": 900, "elapsed_time_per_iteration_ms": 1500},
    ],
)
def test_names_of_many_loggers_are_known(line: dict[str, Any]) -> None:
    [signal] = read(json.dumps(line))
    assert (signal.kind, signal.step, signal.loss) == (SignalKind.PROGRESS, 120, 2.5)
    assert (signal.throughput, signal.step_time_s) == (900.0, 1.5)


def test_csv_columns_are_told_by_the_header_whatever_their_order() -> None:
    signals = read("epoch,train_loss,step,lr", "0,2.5,10,0.1", "0,,20,0.1", "0,nan,30,0.1", "short,line")
    assert [(signal.step, signal.loss) for signal in signals] == [(10, 2.5), (20, None), (30, None)]


def test_a_loggers_value_for_each_layer_hides_no_step() -> None:
    layers = {f"grad_norm/layer.{number}.weight": 0.5 for number in range(1500)}
    values = {**layers, "step": 10, "loss": 2.5}
    in_json = read(json.dumps(values))
    in_csv = read(",".join(values), ",".join(map(str, values.values())))
    assert [(signal.step, signal.loss) for signal in (*in_json, *in_csv)] == [(10, 2.5), (10, 2.5)]


def test_a_line_with_a_step_is_no_header_whatever_its_words() -> None:
    signals = read("time,event,step,loss", ",step,10,2.5", ",step,20,2.25", ",save_durable,,")
    assert [(s.kind, s.step, s.loss) for s in signals] == [
        (SignalKind.PROGRESS, 10, 2.5), (SignalKind.PROGRESS, 20, 2.25), (SignalKind.SAVE_DURABLE, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("number", ["nan", "inf", "1e101", "-1e308", True, [2], "x"])
def test_what_no_mean_can_be_made_of_is_no_number(number: Any) -> None:
    [signal] = read(json.dumps({"step": 1, "loss": number, "step_time_ms": 1e103}))
    assert (signal.loss, signal.step_time_s) == (None, None)


def test_of_a_header_only_what_is_read_is_kept() -> None:
    memory: dict[str, Any] = {}
    read(",".join(["step", *("x" * 90 + str(number) for number in range(600)), *["train_loss"] * 5000]), memory=memory)
    assert len(json.dumps(memory)) < 200


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_second_header_after_a_restart_begins_anew(separator: str) -> None:
    lines = [["step", "loss"], ["1", "2.5"], ["loss", "step"], ["1.5", "2"]]
    signals = read(*(separator.join(line) for line in lines))
    assert [(signal.step, signal.loss) for signal in signals] == [(1, 2.5), (2, 1.5)]


def test_times_are_read_in_seconds_milliseconds_and_iso_form() -> None:
    at = datetime(2026, 1, 11, 13, 20, tzinfo=UTC)
    for told in (at.timestamp(), at.timestamp() * 1000, at.isoformat(), "2026-01-11T14:20:00+01:00"):
        [signal] = read(json.dumps({"step": 1, "timestamp": told}))
        assert signal.at == at
    [signal] = read(json.dumps({"step": 1, "timestamp": "2026-01-11 13:20:00"}))
    assert signal.at is None  # of no known zone


@pytest.mark.parametrize("told", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", 1e300, -1e15, "yesterday"])
def test_a_time_beyond_the_calendar_is_none(told: Any) -> None:
    [signal] = read(json.dumps({"step": 1, "timestamp": told}))
    assert signal.at is None


def test_a_file_that_was_written_anew_counts_no_step_twice() -> None:
    memory: dict[str, Any] = {}
    assert [s.step for s in read("step,loss", "1,2", "2,2", memory=memory)] == [1, 2]
    metrics.written_anew(memory)
    assert [s.step for s in read("step,loss,lr", "1,2,0", "2,2,0", "3,2,0", "1,2,0", memory=memory)] == [3, 1]


def test_a_path_holds_nothing_that_a_database_refuses() -> None:
    told = read(r'{"kind": "save_started", "step": 1, "path": "/ckpt\u0000\ud800/x"}')
    assert [signal.path for signal in told] == ["/ckpt  /x"]


def test_saves_may_be_told_too() -> None:
    [signal] = read('{"kind": "save_durable", "step": 100, "path": "/ckpt"}')
    assert (signal.kind, signal.step, signal.path) == (SignalKind.SAVE_DURABLE, 100, "/ckpt")


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '{"loss": 2}', '{"step": -1}', '{"step": 1.5}', '{"step": true}', "just words", "{" * 5000],
)
def test_what_tells_no_step_is_no_progress(text: str) -> None:
    assert read(text) == []


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.lists(st.integers())


@example(row={"kind": []}, text="")
@given(row=st.dictionaries(st.sampled_from([*metrics._FIELD_OF, "x"]), VALUES), text=st.text(max_size=80))
def test_no_line_breaks_the_reader(row: dict[str, Any], text: str) -> None:
    memory: dict[str, Any] = {}
    for line in (json.dumps(row), text, "step,loss," + text, text):
        for signal in read(line.replace("\n", " "), memory=memory):
            assert signal.step is None or 0 <= signal.step < 2**31
    json.dumps(memory)
