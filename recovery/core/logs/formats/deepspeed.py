"""DeepSpeed's log lines, whichever trainer drives it.

Source: `deepspeed/runtime/engine.py`, `runtime/pipe/engine.py`, `utils/timer.py` and `runtime/checkpoint_engine/` of
deepspeedai/DeepSpeed, 2020 to 2026.

Traps: a skipped step (overflow) counts as a step. A tag need not name a step. Every rank says `is ready now!` of its
own files. A missing `latest` is only a warning, and the trainer goes on from scratch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recovery.core.logs.fields import NUMBER, Says, checkpoint_at, number, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Format, Mark, Memory, step_of
from recovery.core.types import SignalKind as S

_STEP = re.compile(r"(?:^| )step=([0-9]{1,10}), skipped=[0-9]{1,10}, lr=\[")
_TIMER = re.compile(r"\bmicro_step=[0-9]{1,10}/global_step=([0-9]{1,10}), RunningAvgSamplesPerSec=")
_CURRENT = re.compile(rf"\bCurrSamplesPerSec=({NUMBER})")
_PIPELINE = re.compile(rf"(?:^| )steps: ([0-9]{{1,10}}) loss: ({NUMBER}) iter time \(s\): ({NUMBER})")
_SPEED = re.compile(rf"\bsamples/sec: ({NUMBER})")
_FILE = re.compile(r"\] Saving (/\S{1,400}?)\.\.\.$")

_TABLE = (
    Says(
        S.SAVE_STARTED, "deepspeed.saving", " is about to be saved!",
        re.compile(r"Checkpoint (?P<path>\S{1,200}) is about"),
    ),
    Says(
        S.SAVE_DURABLE, "deepspeed.saved", " is ready now!",
        re.compile(r"Checkpoint (?P<path>\S{1,200}) is ready now!"),
    ),
    Says(
        S.LOADED, "deepspeed.loaded", "] Loaded checkpoint from ",
        re.compile(r"Loaded checkpoint from (?P<path>\S{1,400}?)\.?$"),
    ),
    Says(
        S.FRESH_START, "deepspeed.no_latest", "Unable to find latest file at ",
        re.compile(r"Unable to find latest file at (?P<path>\S{1,400}?),"),
    ),
)  # fmt: skip


class _DeepSpeed:
    name = "deepspeed"
    words = (
        "skipped=", "RunningAvgSamplesPerSec=", "iter time (s):", "] Saving /", *(row.literal for row in _TABLE),
    )  # fmt: skip

    def read(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        text = line.text
        mark = _progress(text) or said(text, _TABLE)
        if mark is None:
            if found := _FILE.search(text):
                memory["folder"] = checkpoint_at(found[1])[0][:1000]
            return ()
        if mark.kind is S.PROGRESS:
            memory.pop("said", None)
            return (mark,)
        return _once(_placed(mark, memory), memory)


def _placed(mark: Mark, memory: Memory) -> Mark:
    """The tag is a name, not a path: the folder is known from the files. A missing `latest` names a file."""
    if mark.kind in (S.SAVE_STARTED, S.SAVE_DURABLE):
        return replace(mark, path=str(memory.get("folder", "")))
    if mark.kind is S.FRESH_START:
        return replace(mark, path=mark.path.rpartition("/")[0])
    return mark


def _once(mark: Mark, memory: Memory) -> Sequence[Mark]:
    """Loads are told for each file and rank, a missing `latest` by each rank: one of them is enough."""
    if mark.kind in (S.SAVE_STARTED, S.SAVE_DURABLE):
        return (mark,)
    what = [mark.rule, mark.step]
    if memory.get("said") == what:
        return ()
    memory["said"] = what
    return (mark,)


def _progress(text: str) -> Mark | None:
    if found := _TIMER.search(text):
        rule, speed, loss, seconds = "deepspeed.timer", _CURRENT.search(text), None, None
    elif found := _PIPELINE.search(text):
        rule, speed, loss, seconds = "deepspeed.pipeline", _SPEED.search(text), number(found[2]), number(found[3])
    elif found := _STEP.search(text):
        rule, speed, loss, seconds = "deepspeed.step", None, None, None
    step = step_of(found[1]) if found else None
    if step is None:
        return None
    throughput = number(speed[1]) if speed else None
    return Mark(
        kind=S.PROGRESS, rule=rule, step=step, loss=loss, throughput=throughput, step_time_s=seconds, all_ranks=True
    )  # fmt: skip


FORMAT: Format = _DeepSpeed()
