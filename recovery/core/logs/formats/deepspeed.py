"""DeepSpeed's log lines, whichever trainer drives it.

Source: `deepspeed/runtime/engine.py`, `runtime/pipe/engine.py`, `utils/timer.py` and `runtime/checkpoint_engine/` of
deepspeedai/DeepSpeed, 2020 to 2026.

Traps: `step=0` is printed when the engine is built, before anything is loaded: no step was done. The timer's
`global_step` begins at 0 in each process, also after a load. A skipped step (overflow) counts as a step. A tag need not
name a step. Every rank says `is ready now!` of its own files; newer releases (0.19 for one) say it no more, and then
only the folder tells. A missing `latest` is only a warning, and the trainer goes on from scratch. Since 0.18 nothing of
this is printed unless `log_level` is `info`; the table of times is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recovery.core.logs.columns import Columns, InColumns, span
from recovery.core.logs.fields import NUMBER, Says, checkpoint_at, number, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import ITS, Mark, Memory, step_of
from recovery.core.types import SignalKind as S

_STEP = re.compile(r"(?:^| )step=([0-9]{1,10}), skipped=[0-9]{1,10}, lr=\[")
_TIMER = re.compile(r"\bmicro_step=[0-9]{1,10}/global_step=([0-9]{1,10}), RunningAvgSamplesPerSec=")
_CURRENT = re.compile(rf"\bCurrSamplesPerSec=({NUMBER})")
_PIPELINE = re.compile(rf"(?:^| )steps: ([0-9]{{1,10}}) loss: ({NUMBER}) ")
_ITER_TIME = re.compile(rf" iter time \(s\): ({NUMBER})")  # other losses may stand before it
_SPEED = re.compile(rf"\bsamples/sec: ({NUMBER})")
_TIMES = "] time (ms) | "
_FILE = re.compile(r"\] Saving (?:(/\S{1,400}?)\.\.\.$|model checkpoint: (/\S{1,400})$)")

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
        S.LOADED, "deepspeed.loaded", "] End Load checkpoint from ",
        re.compile(r"End Load checkpoint from (?P<path>\S{1,400}?)\.*$"),
    ),
    Says(
        S.FRESH_START, "deepspeed.no_latest", "Unable to find latest file at ",
        re.compile(r"Unable to find latest file at (?P<path>\S{1,400}?),"),
    ),
)  # fmt: skip


class _DeepSpeed(InColumns):
    name = "deepspeed"
    advice = 'DeepSpeed: set steps_per_print and "log_level": "info", without which releases since 0.18 print no step.'
    words = (
        "skipped=", "RunningAvgSamplesPerSec=", "iter time (s):", "] Saving /", "] Saving model checkpoint: ", _TIMES,
        *(row.literal for row in _TABLE),
    )  # fmt: skip

    def columns(self, text: str) -> Columns | None:
        if (found := _PIPELINE.search(text)) and (seconds := _ITER_TIME.search(text, found.end() - 1)):
            return Columns(
                rule="deepspeed.pipeline", step=slice(*found.span(1)), loss=span(found, 2), step_time=span(seconds),
                throughput=span(_SPEED.search(text)),
            )  # fmt: skip
        found = _STEP.search(text)
        return Columns(rule="deepspeed.step", step=slice(*found.span(1)), first=1) if found else None

    def progressed(self, memory: Memory, step: int) -> None:
        memory.pop("said", None)
        memory["step"] = step

    def other(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        mark = said(line.text, _TABLE)
        if mark is not None:
            return _once(_placed(mark, memory), memory)
        if _TIMES in line.text:
            memory[ITS] = True
        elif " step=0, skipped=" in line.text:
            memory.clear()
            memory[ITS] = True
        elif found := _TIMER.search(line.text):
            return _timer(found, line.text, memory)
        elif found := _FILE.search(line.text):
            memory["folder"] = checkpoint_at(found[1] or found[2])[0][:1000]
        return ()


def _timer(found: re.Match[str], text: str, memory: Memory) -> Sequence[Mark]:
    """The timer counts from 0 in each process, so the step is that of the line before it, if the engine prints one."""
    step = memory.get("step", None if memory.get("loaded") else step_of(found[1]))
    speed = _CURRENT.search(text)
    if step is None:
        return ()
    return (
        Mark(
            kind=S.PROGRESS, rule="deepspeed.timer", step=step, throughput=number(speed[1]) if speed else None,
            all_ranks=True,
        ),
    )  # fmt: skip


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
    memory.pop("step", None)
    memory["said"], memory["loaded"] = what, mark.kind is S.LOADED
    return (mark,)


FORMAT = _DeepSpeed()
