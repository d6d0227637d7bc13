"""Where a trainer is heard and prints no progress, the parser says what would make it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recovery.core.logs import LogParser, heard
from recovery.core.logs.cut import LogBytes
from recovery.core.logs.formats import FORMATS
from recovery.core.logs.marks import Memory

RECORDED = Path(__file__).parents[2] / "trainers" / "recorded"
SUMMARY = "┃   ┃ Name  ┃ Type   ┃   Params ┃ Mode  ┃"


def after(*lines: str) -> Memory:
    """What a parser remembers of the lines."""
    parser = LogParser()
    parser.feed_bytes(LogBytes(data="\n".join(lines).encode(), file="a"))
    return dict(json.loads(json.dumps(parser.memory)))


def test_a_log_in_which_no_trainer_is_heard_gives_no_advice() -> None:
    memory = after(
        "hello", "Loading shards:  50%|█████     | 5/10 [00:01<00:01,  5.00it/s]", " 50%|██   | 1/2 [00:01<00:01]"
    )
    assert (heard.advice(memory), heard.mute(memory)) == ("", False)


@pytest.mark.parametrize(("name", "mute"), [("lightning", True), ("lightning_tqdm", False)])
def test_what_the_real_lightning_writes_tells_its_bars_apart(name: str, mute: bool) -> None:
    parser = LogParser()
    for log in sorted((RECORDED / name).glob("killed*.log")):
        parser.feed_bytes(LogBytes(data=log.read_bytes(), file="a"))
    assert heard.mute(parser.memory) is mute
    assert "TQDMProgressBar" in heard.advice(parser.memory)


def test_a_bar_of_tqdms_behind_the_table_of_layers_is_seen_at_its_first_state() -> None:
    assert heard.mute(after("GPU available: True", SUMMARY))
    assert not heard.mute(after("GPU available: True", SUMMARY, "Training: |          | 0/? [00:00<?, ?it/s]"))
    assert not heard.mute(after("GPU available: True", SUMMARY, "Epoch 0:   0%|          | 0/10 [00:00<?, ?it/s]"))


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("{'loss': 1.9321, 'grad_norm': 0.87, 'learning_rate': 1.9e-05, 'epoch': 0.42}", "disable_tqdm=False"),
        ("  Total optimization steps = 1,000", "logging_steps"),
        ("saving checkpoint at iteration     840 to /ckpt/run", "--log-interval"),
        ("[titan] 2026-02-03 04:05:06,700 - root - INFO - Training starts at step 1.", "metrics.log_freq"),
        ("[Rank 0] [Torch] Checkpoint x is about to be saved!", "steps_per_print"),
        ("[Rank 0] time (ms) | fwd: 7.82 | bwd: 10.32 | bwd_allreduce: 8.89 | step: 87.79", "log_level"),
    ],
)  # fmt: skip
def test_each_trainer_is_told_of_its_own_switch(line: str, advice: str) -> None:
    assert advice in heard.advice(after(line))


def test_advice_fits_into_a_remedy_and_names_its_trainer() -> None:
    for each in FORMATS:
        assert len(each.advice) <= 150
        assert not each.advice or each.advice.partition(":")[0].lower()[:4] in each.name.replace("_", " ").replace(
            "gpt neox", "gpt-neox"
        )
