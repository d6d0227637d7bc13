"""NeMo's output, 1.x and 2.x. What Lightning says below it (restored states) is read as Lightning's.

Source: `nemo/lightning/pytorch/callbacks/progress_printer.py`, `model_checkpoint.py`, `nemo/lightning/io/` and
`utils/exp_manager.py` of NVIDIA/NeMo (now NVIDIA-NeMo/Speech), 2022 to 2026.

Traps: NeMo 1 prints `global_step=99.00` in Lightning's bar. Steps are counted from 0, and `Async checkpoint save for
step 25` is the save after iteration 24: the step is the one in the file's name. Both lines of an asynchronous save
come when it is durable. `iteration` counts within the epoch; the step is `global_step`. `Training from scratch` is only
a warning: a save that was cut short is passed over like none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recovery.core.logs.columns import Columns, InColumns, span
from recovery.core.logs.fields import NUMBER, Says, number, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Mark, Memory, step_of
from recovery.core.types import SignalKind as S

_PRINTED = re.compile(r"\bTraining epoch ([0-9]{1,6}), iteration ([0-9]{1,10})/[0-9]{1,10} \| ")
_VALIDATION = re.compile(r"(?<!checking )\bValidation: iteration ([0-9]{1,10})/([0-9]{1,10})\b")
_GLOBAL_STEP = re.compile(r"\bglobal_step(?:=|: )([0-9]{1,10})(?:\.[0-9]{1,4})?(?![0-9.e])")
_LOSS = re.compile(rf"\breduced_train_loss(?:=|: )({NUMBER})")
_SECONDS = re.compile(rf"\btrain_step_timing in s(?:=|: )({NUMBER})")
_TABLE = (
    Says(
        S.SAVE_STARTED, "nemo.saving", "Checkpoint save for step ",
        re.compile(r"\bCheckpoint save for step (?P<step>[0-9]{1,10}) started\b"),
    ),
    Says(
        S.SAVE_STARTED, "nemo.written", "Global Checkpoint Save : Rank: 0 : ",
        re.compile(r"Global Checkpoint Save : Rank: 0 : Iteration: (?P<step>[0-9]{1,10}) : "),
    ),
    Says(
        S.SAVE_DURABLE, "nemo.saved", "Successfully saved checkpoint from iteration ",
        re.compile(r"Successfully saved checkpoint from iteration {1,10}(?P<step>[0-9]{1,10}) to (?P<path>\S{1,400})"),
    ),
    Says(
        S.SAVE_DURABLE, "nemo.finalized", "Async checkpoint save for step ",
        re.compile(r"Async checkpoint save for step [0-9]{1,10} \((?P<path>[^)]{1,400})\) finalized successfully"),
    ),
    Says(
        S.FRESH_START, "nemo.fresh_start", " Training from scratch.",
        re.compile(r"no checkpoint folder at checkpoint_dir ?:(?P<path>\S{1,400}?)\. Training from scratch"),
    ),
)  # fmt: skip


class _NeMo(InColumns):
    name = "nemo"
    advice = "NeMo: keep its ProgressPrinter, or Lightning's TQDMProgressBar, among the callbacks."
    words = ("reduced_train_loss", "Validation: iteration ", *(row.literal for row in _TABLE))

    def columns(self, text: str) -> Columns | None:
        printed, loss, step = _PRINTED.search(text), _LOSS.search(text), _GLOBAL_STEP.search(text)
        if step is None or not (printed or loss):
            return None
        return Columns(
            rule="nemo.printed" if printed else "nemo.bar", step=slice(*step.span(1)), loss=span(loss),
            step_time=span(_SECONDS.search(text)),
        )  # fmt: skip

    def progressed(self, memory: Memory, step: int) -> None:
        memory.pop("evaluating", None)

    def other(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        text = line.text
        if mark := _first_epoch(text):
            self.progressed(memory, mark.step or 0)
            return (mark,)
        if found := _VALIDATION.search(text):
            return _validation(found, memory)
        mark = said(text, _TABLE)
        return _save(mark, text, memory) if mark else ()


def _first_epoch(text: str) -> Mark | None:
    """Without a `global_step` the iteration is the step as long as there was no epoch before."""
    found, loss, seconds = _PRINTED.search(text), _LOSS.search(text), _SECONDS.search(text)
    step = step_of(found[2]) if found and int(found[1]) == 0 else None
    if step is None:
        return None
    return Mark(
        kind=S.PROGRESS, rule="nemo.printed", step=step, loss=number(loss[1]) if loss else None,
        step_time_s=number(seconds[1]) if seconds else None, all_ranks=True,
    )  # fmt: skip


def _validation(found: re.Match[str], memory: Memory) -> Sequence[Mark]:
    if int(found[1]) >= int(found[2]):
        memory.pop("evaluating", None)
        return (Mark(kind=S.EVAL_FINISHED, rule="nemo.validated", all_ranks=True),)
    if memory.get("evaluating"):
        return ()
    memory["evaluating"] = True
    return (Mark(kind=S.EVAL_STARTED, rule="nemo.validating", all_ranks=True),)


def _save(mark: Mark, text: str, memory: Memory) -> Sequence[Mark]:
    """An asynchronous save is told twice at its end: the second time only where the first was not printed."""
    if mark.kind is not S.SAVE_DURABLE:
        return (mark,)
    name = text.rpartition("/")[2].partition(")")[0].strip()[:400]
    if mark.rule == "nemo.finalized":
        if memory.pop("saved", None) == name:
            return ()
        return (mark,)
    memory["saved"] = name
    if mark.path and mark.path.endswith(name):
        mark = replace(mark, path=mark.path[: -len(name)].rstrip("/"))
    return (mark,)


FORMAT = _NeMo()
