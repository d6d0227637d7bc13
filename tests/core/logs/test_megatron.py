from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recovery.core.logs import LogParser
from recovery.core.types import Signal, SignalKind
from tests.core.logs.lines import megatron, signals_of

SAVED = "successfully saved checkpoint from iteration     840 to /ckpt/run"


def only(text: str) -> Signal:
    (signal,) = signals_of(text)
    return signal


def test_a_progress_line_gives_step_loss_speed_and_time() -> None:
    signal = only(megatron(840))
    assert (signal.kind, signal.rule, signal.step) == (SignalKind.PROGRESS, "megatron.iteration", 840)
    assert signal.loss == pytest.approx(2.61)
    assert signal.throughput == pytest.approx(402.5)
    assert signal.step_time_s == pytest.approx(4.3127)
    assert signal.at == datetime(2026, 2, 3, 4, 5, 6, 700000, tzinfo=UTC)


def test_an_older_release_prints_neither_time_nor_throughput() -> None:
    signal = only(
        " iteration      100/  500000 | consumed samples:        25600 | elapsed time per iteration (ms): 1029.1 |"
        " learning rate: 1.500E-04 | global batch size:   256 | lm loss: 9.412E+00 | loss scale: 65536.0 |"
        " grad norm: 2.105 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )
    assert (signal.step, signal.at, signal.throughput) == (100, None, None)
    assert signal.step_time_s == pytest.approx(1.0291)


def test_neox_puts_its_speed_in_front() -> None:
    signal = only(
        " samples/sec: 41.2 | iteration       20/  320000 | elapsed time per iteration (ms): 1550.0 |"
        " lm_loss: 9.9E+00 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )
    assert signal.step == 20
    assert signal.loss == pytest.approx(9.9)


def test_without_a_loss_field_the_step_still_counts() -> None:
    signals = signals_of(megatron(841, loss=""))
    progress = [s for s in signals if s.kind is SignalKind.PROGRESS]
    assert [(s.step, s.loss) for s in progress] == [(841, None)]


def test_a_loss_scale_is_no_loss() -> None:
    assert only(megatron(5, loss="", skipped=1)).loss is None


def test_another_losss_field_stands_in_for_a_missing_lm_loss() -> None:
    assert only(megatron(5, loss=" mtp_1 loss: 3.000000E+00 |")).loss == pytest.approx(3.0)


def test_skipped_iterations_advance() -> None:
    assert only(megatron(7, loss="", skipped=1)).step == 7


def test_a_nan_or_infinite_number_is_never_stored() -> None:
    assert only(megatron(7, loss=" lm loss: NAN |")).loss is None
    assert only(megatron(7, elapsed_ms=float("inf"))).step_time_s is None


def test_nan_iterations_are_reported_beside_the_progress() -> None:
    kinds = {s.kind: s.rule for s in signals_of(megatron(7, nans=3))}
    assert kinds[SignalKind.PROGRESS] == "megatron.iteration"
    assert kinds[SignalKind.FAILURE] == "numerics.nan_iterations"


def test_a_line_cut_off_in_the_middle_gives_what_is_whole() -> None:
    text = megatron(840)
    cut = text[: text.index("lm loss: 2.61") + len("lm loss: 2.6")]
    signal = only(cut)
    assert (signal.step, signal.loss) == (840, None)


@pytest.mark.parametrize(
    "text",
    [
        " iteration      840/   20000 | learning rate: 1.0E-4 |",  # NeMo's shape: none of Megatron's fields
        "Training epoch 0, iteration 120/9999 | lr: 0.00012 | consumed_samples: 61952",
        " iteration  9999999999/ 20000 | consumed samples: 1 |",  # no trainer counts so far
        "validation loss at iteration 1000 | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 | ",
        "(min, max) time across ranks (ms):",
    ],
)
def test_lines_that_look_like_progress_and_are_none(text: str) -> None:
    assert [s for s in signals_of(text) if s.rule == "megatron.iteration"] == []


@pytest.mark.parametrize(
    ("text", "kind", "rule", "step", "path"),
    [
        (
            "[2026-02-03 04:05:06.1] saving checkpoint at iteration     840 to /ckpt/run in torch_dist format",
            SignalKind.SAVE_STARTED, "megatron.saving", 840, "/ckpt/run",
        ),
        ("saving checkpoint at iteration 840 to /c/run", SignalKind.SAVE_STARTED, "megatron.saving", 840, "/c/run"),
        (
            "  [2026-02-03 04:05:06.1] scheduled an async checkpoint save at iteration     840 to /ckpt/run",
            SignalKind.SAVE_STARTED, "megatron.save_scheduled", 840, "/ckpt/run",
        ),
        (
            f"  [2026-02-03 04:05:06.1] {SAVED} [ t 1/8, gtp_remat 1/1, p 1/4 ]",
            SignalKind.SAVE_DURABLE, "megatron.saved", 840, "/ckpt/run",
        ),
        (f"  {SAVED} [ t 1/8, p 1/4 ]", SignalKind.SAVE_DURABLE, "megatron.saved", 840, "/ckpt/run"),
        (
            "  successfully saved checkpoint at iteration     840 to /ckpt/my run",
            SignalKind.SAVE_DURABLE, "megatron.saved", 840, "/ckpt/my run",
        ),
        (
            "  successfully loaded checkpoint from /ckpt/run [ t 1/8, p 1/4 ] at iteration 840",
            SignalKind.LOADED, "megatron.loaded", 840, "/ckpt/run",
        ),
        (
            "  successfully loaded checkpoint from /ckpt/a at iteration b at iteration 840",
            SignalKind.LOADED, "megatron.loaded", 840, "/ckpt/a at iteration b",
        ),
        (" successfully loaded checkpoint from /c at iteration 0", SignalKind.LOADED, "megatron.loaded", 0, "/c"),
        ("[after training is done] datetime: 2026-02-03 04:05:06 ", SignalKind.FINISHED, "megatron.done", None, ""),
        ("exiting program at iteration 900 [2026-02-03 04:05]", SignalKind.FINISHED, "megatron.exit_interval", 900, ""),
        ("exiting program after receiving SIGTERM.", SignalKind.FINISHED, "megatron.exit_signal", None, ""),
        ("exiting program after 230.5 minutes", SignalKind.FINISHED, "megatron.exit_duration", None, ""),
    ],
)  # fmt: skip
def test_saves_loads_and_ends(text: str, kind: SignalKind, rule: str, step: int | None, path: str) -> None:
    (signal,) = [s for s in signals_of(text) if s.kind is not SignalKind.FAILURE]
    assert (signal.kind, signal.rule, signal.step, signal.path) == (kind, rule, step, path)


@pytest.mark.parametrize(
    "text",
    [
        " loading checkpoint from /ckpt/run at iteration 840",  # only begun
        " loading distributed checkpoint from /ckpt/run at iteration 840",
        "  successfully saved local checkpoint from iteration     840",  # gone with its node
        "  successfully loaded checkpoint from /ckpt/run",
        "  successfully loaded checkpoint from /ckpt/run at iteration soon",
        "saving checkpoint at iteration 99999999999 to /ckpt/run",
        "before the start of training step",
    ],
)
def test_what_is_not_finished_or_not_durable_is_no_signal(text: str) -> None:
    assert signals_of(text) == []


def test_a_fresh_start_names_the_folder_that_was_empty() -> None:
    signals = signals_of(
        "WARNING: could not find the metadata file /ckpt/run/latest_checkpointed_iteration.txt",
        "    will not load any checkpoints and will start from random",
    )
    fresh = [s for s in signals if s.kind is SignalKind.FRESH_START]
    assert [(s.rule, s.path, s.line) for s in fresh] == [("megatron.fresh_start", "/ckpt/run", 2)]


def test_a_missing_tracker_alone_is_no_fresh_start() -> None:
    signals = signals_of(
        "WARNING: could not find the metadata file /ckpt/run/latest_checkpointed_iteration.txt",
        ">> '--exit-on-missing-checkpoint' set ... exiting. <<",
    )
    assert [s for s in signals if s.kind is SignalKind.FRESH_START] == []


def test_an_asynchronous_save_is_started_in_one_place_and_durable_in_another() -> None:
    signals = signals_of(
        "saving checkpoint at iteration      20 to /ckpt/run in torch_dist format",
        "  scheduled an async checkpoint save at iteration      20 to /ckpt/run",
        megatron(21),
        megatron(22),
        "  successfully saved checkpoint from iteration      20 to /ckpt/run [ t 1/1, p 1/1 ]",
    )
    assert [(s.kind.value, s.step) for s in signals] == [
        ("save_started", 20),
        ("save_started", 20),
        ("progress", 21),
        ("progress", 22),
        ("save_durable", 20),
    ]


def test_the_rank_that_prints_speaks_for_all() -> None:
    (signal,) = signals_of(f"15: {megatron(3)}")
    assert (signal.step, signal.rank) == (3, None)


def test_the_format_is_named() -> None:
    parser = LogParser()
    assert parser.format == ""
    signals_of(megatron(1), parser=parser)
    assert parser.format == "megatron"


def test_a_field_that_holds_no_number_is_passed_over() -> None:
    signal = only(megatron(5, loss=" lm loss: 2.5E+00 | note: none | other |"))
    assert signal.loss == pytest.approx(2.5)
