"""PyTorch Lightning's output.

Source: `callbacks/progress/tqdm_progress.py`, `callbacks/model_checkpoint.py`, `trainer/connectors/
checkpoint_connector.py` and `loops/fit_loop.py` of Lightning-AI/pytorch-lightning, 1.5 to 2.6.

Traps: the bar counts batches within the epoch. The step is the bar's own `global_step` or `step` where the module
logs it, else epoch × batches per epoch + batch: that counts batches, so with accumulated gradients it runs ahead of
the numbers in checkpoint names. Without a total only the first epoch can be counted. Bars of validation and of the
sanity check are none of training. A user's own bar may say `Epoch 4:` as well: it counts only where it carries
`v_num` or the log has shown another line of Lightning's. Saves are told only by a verbose `ModelCheckpoint`, and not
when they are done, but for the one that it makes upon an exception.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recovery.core.logs.fields import NUMBER, Bar, Says, bar_of, number, pace, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import ITS, Format, Mark, Memory, step_of
from recovery.core.types import SignalKind as S

_EPOCH = re.compile(r"Epoch ([0-9]{1,6})(?:: ?)?$")
_OPEN_END = re.compile(r"Epoch 0: : ([0-9]{1,10})it \[[0-9:]{1,12}, {0,12}([^\]]{0,400})")
_LOSS = re.compile(rf"(?:^|[, ])(?:train[_/])?loss(?:_step)?=({NUMBER})")
_STEP = re.compile(r"(?:^|[, ])(?:global_step|step)=([0-9]{1,10})(?:\.0{1,4})?(?![0-9.])")
_RESUMED = re.compile(r"Training: \|[^|]{0,40}\| [0-9]{1,10}/\? \[[0-9:]{1,12}<[^,\]]{0,20}, {0,4}([^\]]{0,400})")
_MAX_STEPS = re.compile(r"`Trainer\.fit` stopped: `max_steps=([0-9]{1,10})` reached")
_VALIDATION = ("Validation DataLoader", "Validation:", "Validating:")
_RICH = "Params ┃"  # of the table of a model's layers, where the package rich is installed: then its bar is the default
_FIRST_BAR = "Training: |"  # of tqdm's
_ITS_LINES = (
    "GPU available: ", "CUDA_VISIBLE_DEVICES: [", "`Trainer.fit` stopped: ", "Sanity Checking", "Validation DataLoader",
)  # fmt: skip
_TABLE = (
    Says(
        S.LOADED, "lightning.restored", "Restored all states from the checkpoint ",
        re.compile(r"Restored all states from the checkpoint (?:file )?at (?P<path>\S.*)"),
    ),
    Says(
        S.SAVE_STARTED, "lightning.saving", ", saving model to ",
        re.compile(r"global step (?P<step>[0-9]{1,10}): .{1,300}, saving model to '(?P<path>[^']{1,400})'"),
    ),
    Says(
        S.SAVE_DURABLE, "lightning.saved_on_exception", ", saved checkpoint to ",
        re.compile(r" was raised with message: .{0,400}, saved checkpoint to (?P<path>\S.{0,400})$"),
    ),
    Says(
        S.FINISHED, "lightning.stopped", "`Trainer.fit` stopped: ",
        re.compile(r"`Trainer\.fit` stopped: (?!No training batches)"),
    ),
)  # fmt: skip


class _Lightning(Format):
    name = "lightning"
    advice = "Lightning: its rich bar leaves nothing in a log: set callbacks=[TQDMProgressBar()], or print the step."
    words = ("Epoch ", _RICH, _FIRST_BAR, *_VALIDATION, *_ITS_LINES, *(row.literal for row in _TABLE))

    def mute(self, memory: Memory) -> bool:
        return bool(memory.get("rich"))

    def read(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        text = line.text
        if "reduced_train_loss" in text:  # NeMo's
            return ()
        if any(word in text for word in _ITS_LINES):
            memory[ITS] = True
        _look_for_rich(text, memory)
        found = [mark for mark in (_bar(text, memory), said(text, _TABLE)) if mark and not _is_known(mark, memory)]
        for mark in found:
            memory["evaluating"] = mark.kind is S.EVAL_STARTED
            if mark.kind is S.FINISHED:
                memory["ended"] = found[0].step
        return found


def _is_known(mark: Mark, memory: Memory) -> bool:
    """An evaluation that goes on; the bar that is drawn once more when the training ended upon it."""
    if mark.kind is S.EVAL_STARTED:
        return bool(memory.get("evaluating"))
    return mark.kind is S.PROGRESS and mark.step == memory.get("ended", -1)


def _look_for_rich(text: str, memory: Memory) -> None:
    """Note whether the bar is rich's, which writes nothing into a file before the end."""
    if _RICH in text:
        memory["rich"] = True
    elif _FIRST_BAR in text or "%|" in text:
        memory.pop("rich", None)


def _bar(text: str, memory: Memory) -> Mark | None:
    if (bar := bar_of(text)) is not None:
        if bar.what.startswith(_VALIDATION):
            done = bar.step == bar.total
            kind, rule = (S.EVAL_FINISHED, "validated") if done else (S.EVAL_STARTED, "validating")
            return Mark(kind=kind, rule=f"lightning.{rule}", all_ranks=True)
        found = _EPOCH.match(bar.what)
        return _progress(_count(int(found[1]), bar, text, memory), bar.rest, memory) if found and bar.step else None
    if found := _RESUMED.match(text):  # it counts from the epoch's start, as does its pace: only a logged step is told
        mark = _progress(None, found[1], memory)
        return replace(mark, step_time_s=None) if mark else None
    found = _OPEN_END.match(text)
    return _progress(step_of(found[1]), found[2], memory) if found else None


def _count(epoch: int, bar: Bar, text: str, memory: Memory) -> int | None:
    """An epoch is as long as the longest: where `max_steps` cuts the last one short, its bar has a smaller total."""
    length = max(bar.total, memory.get("length", 0))
    if epoch and (end := _MAX_STEPS.search(text)):
        length = max(length, (int(end[1]) - bar.step) // epoch)
    memory["length"] = length
    return step_of(str(epoch * length + bar.step))


def _progress(counted: int | None, rest: str, memory: Memory) -> Mark | None:
    if not (memory.get(ITS) or "v_num=" in rest):
        return None
    logged = _STEP.search(rest)
    step = step_of(logged[1]) if logged else counted
    if step is None:
        return None
    loss = _LOSS.search(rest)
    return Mark(
        kind=S.PROGRESS, rule="lightning.bar", step=step, loss=number(loss[1]) if loss else None,
        step_time_s=pace(rest), all_ranks=True,
    )  # fmt: skip


FORMAT = _Lightning()
