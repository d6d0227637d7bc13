from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.logs import LogParser
from recovery.core.logs.generic import MAX_SERIES
from recovery.core.types import SignalKind
from tests.core.logs.lines import log_line, megatron, signals_of, steps_of


@pytest.mark.parametrize(
    "lines",
    [
        ["step 10: loss 2.5", "step 20: loss 2.4"],
        ["step: 10  loss:  7.01234  grad_norm:  1.1020", "step: 20  loss:  6.9  grad_norm:  1.0"],
        ["iter 10: loss 3.2011, mfu 41.02%", "iter 20: loss 3.1, mfu 41.02%"],
        ["completed step: 10, loss: 5.120", "completed step: 20, loss: 5.1"],
        ["steps: 10 loss: 2.3456 samples/sec: 415.000", "steps: 20 loss: 2.3 samples/sec: 415.0"],
        ["{'step': 10, 'loss': 2.5}", "{'step': 20, 'loss': 2.4}"],
        ["global_step=10, train_loss=5.87", "global_step=20, train_loss=5.8"],
        ["[step=10/5000,epoch=1] 2.5 s/it", "[step=20/5000,epoch=1] 2.5 s/it"],
        ["Epoch 1 | Step 10 of 5000 | train_loss 2.5", "Epoch 1 | Step 20 of 5000 | train_loss 2.4"],
        ["epoch 3 val_loss 3.1 step 10", "epoch 3 val_loss 3.0 step 20"],
        ["num_updates=10, 3.2 it/s", "num_updates=20, 3.2 it/s"],
        ["ep 27 train, step 10, ce 5.331, 3.501 sec/step", "ep 27 train, step 20, ce 5.3, 3.5 sec/step"],
        ["2026-02-03 04:05:06,700 INFO iteration 10 loss 2", "2026-02-03 04:06:06,700 INFO iteration 20 loss 2"],
    ],
)
def test_a_step_beside_loss_or_speed_counts_when_it_has_risen_once(lines: list[str]) -> None:
    assert steps_of(lines[0]) == []
    assert steps_of(*lines) == [10, 20]


@pytest.mark.parametrize(
    "shape",
    ["step {}", "[2026-02-03 04:05:06] step {}/5000", "iteration: {}", "step {} lr 0.1", "step={}, time=3.2"],
)
def test_a_lonely_step_needs_two_rises(shape: str) -> None:
    lines = [shape.format(step) for step in (10, 20, 30, 40)]
    assert steps_of(*lines[:2]) == []
    assert steps_of(*lines[:3]) == [10, 20, 30]
    assert steps_of(*lines) == [10, 20, 30, 40]


@pytest.mark.parametrize(
    "shape",
    [
        "Step {}: install the dependencies",
        "Step {}/12 : FROM python",
        "step {}/8 done, elapsed: 3",
        "This is step {} of the plan, the loss of time is small",
        "Saving every {} steps",
        "warmup step {} lr 0.1 loss 3.0",
        "warm-up steps: {} lr: 0.1",
        "eval step {}/100 loss 3.0",
        "Evaluating step {}/100, 3.2 it/s",
        "[test] iter {} loss 3.0",
        "max_steps: {}, lr: 0.1, loss: 3",
        "footstep {} loss 3.0",
        "src/step{}.py loss 3.0",
        "step {}.5 loss 3.0",
        "step {}% loss 3.0",
        "step_{} loss 3.0",
        "step {}99999999999 loss 3.0",
        "at step, {} loss 3.0",
        "Downloading shards: {}0%|████ | {}/1000 [00:12<00:20,  1.2it/s]",
        "Loading checkpoint shards: 50%|█ | {}/40 [00:01<00:01, 3.2it/s]",
        "Epoch 4:  62%|██████▏   | {}/1000 [08:41<05:19,  1.19it/s, acc=0.7]",
        " 62%|██████▏   | {}/1000 [08:41<05:19,  1.19it/s]",
    ],
)
def test_prose_and_other_counters_are_not_taken_for_progress(shape: str) -> None:
    assert steps_of(*(shape.format(n, n) for n in range(1, 9))) == []


def test_a_lonely_number_without_a_total_must_come_far_enough_to_be_no_set_up() -> None:
    assert steps_of(*(f"=== step {n} ===" for n in range(1, 20))) == []
    assert steps_of(*(f"=== step {n} ===" for n in range(1, 22))) == [1, 2, 20, 21]


@pytest.mark.parametrize("lines", [(5, 3, 4), (5, 3, 4, 5, 6), (1, 2, 3, 1, 2, 3)])
def test_nor_does_a_fall_prove_it(lines: tuple[int, ...]) -> None:
    assert steps_of(*(f"step {n}" for n in lines)) == []


def test_a_number_that_does_not_grow_is_a_setting() -> None:
    assert steps_of(*["global_step 500 loss 3.0"] * 10) == []


def test_a_bar_that_carries_a_loss_counts_after_two_rises_and_gives_the_step_time() -> None:
    bars = [f"  5%|▌   | {n}/1000 [03:10<1:00:12,  3.80s/it, loss=2.3]" for n in (50, 51, 52)]
    assert steps_of(*bars) == [50, 51, 52]
    assert [s.step_time_s for s in signals_of(*bars)] == [pytest.approx(3.8)] * 3


def test_of_a_fast_bar_the_rate_becomes_a_step_time() -> None:
    bars = [f"train:  5%|▌   | {n}/1000 [03:10<10:12,  4.00it/s]" for n in (50, 60, 70)]
    assert [s.step_time_s for s in signals_of(*bars)] == [pytest.approx(0.25)] * 3


def test_bars_are_silent_once_a_keyword_counts() -> None:
    lines = ["step 10 loss 2", "step 20 loss 2", *(f"train: 1%|▌| {n}/1000 [03:10<10:12,  4it/s]" for n in range(5))]
    assert steps_of(*lines) == [10, 20]


def test_the_fields_beside_the_step_are_read() -> None:
    signal = signals_of("step 1 loss 9", "step 2 | loss: 2.5e0 | 12,345.6 tokens/s | 250 ms/step")[-1]
    assert (signal.loss, signal.throughput, signal.step_time_s) == (2.5, 12345.6, 0.25)


def test_a_nan_loss_is_progress_without_a_loss() -> None:
    signals = signals_of("step 1 loss: nan", "step 2 loss: nan")
    assert [(s.step, s.loss) for s in signals if s.kind is SignalKind.PROGRESS] == [(1, None), (2, None)]


def test_ranks_that_report_out_of_order_grow_each_by_itself() -> None:
    parser = LogParser()
    lines = ["0: step 10 loss 2", "1: step 10 loss 2", "0: step 20 loss 2", "0: step 30 loss 2", "1: step 20 loss 2"]
    signals = signals_of(*lines, parser=parser)
    assert [(s.rank, s.step) for s in signals] == [(0, 10), (0, 20), (0, 30), (1, 10), (1, 20)]


def test_unlabelled_ranks_in_one_file_give_each_step_once() -> None:
    lines = [f"step {n} loss 2" for n in (10, 10, 10, 20, 10, 20, 30, 20, 30, 30, 40)]
    assert steps_of(*lines) == [10, 20, 30, 40]


def test_workers_that_start_again_within_the_attempt_are_followed() -> None:
    lines = [f"step {n} loss 2" for n in (10, 20, 30, 40, 10, 20, 30)]
    assert steps_of(*lines) == [10, 20, 30, 40, 20, 30]


def test_what_was_held_back_keeps_its_own_place() -> None:
    first, second = signals_of("step 10 loss 2.5", "step 20 loss 2.4")
    assert (first.line, first.loss, first.text) == (1, 2.5, "step 10 loss 2.5")
    assert (second.line, second.loss) == (2, 2.4)


def test_a_real_format_silences_the_fallback_for_good() -> None:
    parser = LogParser()
    assert steps_of("step 10 loss 2", "step 20 loss 2", parser=parser) == [10, 20]
    assert steps_of(megatron(840), parser=parser) == [840]
    assert steps_of("step 30 loss 2", "step 40 loss 2", "step 50 loss 2", parser=parser) == []
    assert parser.format == "megatron"


def test_a_log_full_of_counters_does_not_fill_the_memory() -> None:
    parser = LogParser()
    for n in range(10_000):
        parser.feed(log_line(f"step 5/{n + 100} loss 2"))
    assert len(parser.memory["generic"]["series"]) == MAX_SERIES


@given(st.lists(st.integers(0, 50), max_size=60))
def test_every_new_highest_step_is_reported_and_no_step_twice_in_a_row(steps: list[int]) -> None:
    reported = steps_of(*(f"step {step} loss 2" for step in steps))
    assert all(a != b for a, b in pairwise(reported))
    if len(set(steps)) > 1 and max(steps) > steps[0]:
        assert max(steps) in reported


def test_a_number_that_begins_anew_with_each_epoch_goes_on_from_the_one_before() -> None:
    lines = [
        f"ep {epoch} train, step {step}, ce 5.3, mem_usage:cuda:0 6.8GB, 3.501 sec/step"
        for epoch in (26, 27, 28)
        for step in (0, 1, 2)
    ]
    assert steps_of(*lines) == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_a_number_that_goes_on_over_epochs_is_the_step_itself() -> None:
    lines = [f"epoch {step // 30} step {step} loss 2.5" for step in (10, 20, 30, 40, 70)]
    assert steps_of(*lines) == [10, 20, 30, 40, 70]


def test_a_restart_in_the_same_epoch_is_a_fall_and_no_new_epoch() -> None:
    lines = [f"epoch 3 step {step} loss 2.5" for step in (10, 20, 30, 10, 20, 30, 40)]
    assert steps_of(*lines) == [10, 20, 30, 20, 30, 40]


def test_epochs_are_remembered_from_one_look_to_the_next() -> None:
    first = LogParser()
    steps_of("epoch 1 step 10 loss 2", "epoch 1 step 20 loss 2", "epoch 2 step 10 loss 2", parser=first)
    second = LogParser(memory=json.loads(json.dumps(first.memory)))
    assert steps_of("epoch 2 step 20 loss 2", "epoch 3 step 10 loss 2", parser=second) == [40, 50]
