from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import wording
from recovery.core.types import ActionKind


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (4.4, "4 s"),
        (59.6, "1 m"),
        (130, "2 m 10 s"),
        (3600, "1 h"),
        (3605, "1 h"),  # two units at most, and neighbours: seconds don't matter after an hour
        (11_100, "3 h 5 m"),
        (187_200, "2 d 4 h"),
        (-5, "0 s"),
        (None, "unknown"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float | None, said: str) -> None:
    assert wording.duration(seconds).replace(wording.JOIN, " ") == said


@given(st.floats(min_value=0, max_value=1e9))
def test_no_duration_breaks_over_a_line(seconds: float) -> None:
    assert " " not in wording.duration(seconds)


def test_steps_are_grouped_by_thin_spaces() -> None:
    assert wording.steps(840) == "840"
    assert wording.steps(1_234_567) == f"1{wording.THIN}234{wording.THIN}567"
    assert wording.steps(None) == "unknown"


def test_one_of_a_thing_is_singular() -> None:
    assert wording.plural(1, "step") == "1 step"
    assert wording.plural(2, "step") == "2 steps"


def test_gpu_hours_have_one_decimal() -> None:
    assert wording.gpu_hours(12.349) == "12.3 GPU-hours"
    assert wording.gpu_hours(None) == "unknown"


def test_few_gpu_hours_never_read_as_none() -> None:
    assert wording.gpu_hours(0.032) == "below 0.1 GPU-hours"
    assert wording.gpu_hours(0.05) == "0.1 GPU-hours"
    assert wording.gpu_hours(0.0) == "0.0 GPU-hours"


@pytest.mark.parametrize(
    ("idle", "counts_gpus", "said"),
    [
        (64, True, "64 GPUs idle: 1.1 GPU-hours a minute."),
        (1, True, "1 GPU idle: below 0.1 GPU-hours a minute."),
        (30, False, "30 nodes idle: 0.5 node-hours a minute."),
        (0, True, "No GPU stands idle for it."),
        (0, False, "No node stands idle for it."),
    ],
)
def test_the_cost_of_waiting_is_told_in_what_the_cluster_counts(idle: int, counts_gpus: bool, said: str) -> None:
    assert wording.cost_of_waiting(idle, counts_gpus=counts_gpus) == said


@pytest.mark.parametrize(
    ("number", "said"), [(None, "unknown"), (0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (140_000_000_000, "140.0 GB")]
)
def test_sizes_are_decimal(number: int | None, said: str) -> None:
    assert wording.size(number) == said


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], ""),
        (["gpu-17"], "gpu-17"),
        (["gpu-03", "gpu-04"], "gpu-03 and gpu-04"),
        (["a", "b", "c", "d", "e", "f"], "a, b, c, d and 2 more"),
    ],
)
def test_many_names_are_cut_with_their_number(items: list[str], said: str) -> None:
    assert wording.names(items) == said


def test_an_action_reads_as_what_a_button_does() -> None:
    assert wording.action(ActionKind.REQUEUE) == "requeue"
    assert wording.action(ActionKind.REQUEUE_EXCLUDING, ["gpu-17"]) == "requeue without gpu-17"
    assert wording.action(ActionKind.NOTHING) == "do nothing"


def test_no_verdict_is_ever_certain() -> None:
    assert wording.confidence(1.0) == "99 %"
    assert wording.confidence(0.874) == "87 %"
    assert wording.confidence(None) == "unknown"
