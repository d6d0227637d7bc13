"""The Hugging Face Trainer's output, and that of what is built on it: TRL, Axolotl, LLaMA-Factory, ms-swift.

Source: `src/transformers/trainer.py` and `trainer_callback.py` of huggingface/transformers, 2020 to 2026. One process
prints. Measured values are a dict (newer releases quote its numbers); the step is only in tqdm's bar. The lines about
saves, loads and evaluations are logged at level INFO, which has to be switched on.

Traps: the bar has no name, and an evaluation's or a data set's bar looks the same. It is believed to be the training's
if its total is that of `Total optimization steps`, or if a dict with a loss was printed upon it or after it while it
was not full. One with that total that begins anew is another's, until a dict is printed. Epochs are no steps. A NaN
loss is printed as the mean of the others unless `logging_nan_inf_filter` is off. Nothing says that a save is done. A
resumed run's bar starts at 0 before it jumps to the step that was restored, so 0 is none, and its pace, an average,
counts the jump as steps for a while.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recovery.core.logs.fields import NUMBER, Bar, Says, bar_of, checkpoint_at, number, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import ITS, Format, Mark, Memory, step_of
from recovery.core.types import SignalKind as S

FORGETS = 50  # steps after which a jump of a million no longer shows in the bar's pace
_LOSS = re.compile(rf"[{{ ,]['\"]loss['\"]: ['\"]?({NUMBER})")
_TOKENS = re.compile(rf"['\"]num_(?:input_)?tokens(?:_seen)?['\"]: ['\"]?({NUMBER})")
_TOTAL = re.compile(r"Total optimization steps = ([0-9][0-9,]{0,14})")
_LOADING = re.compile(r"\b(?:Loading model|Attempting to resume) from (\S{1,400}?)\.?$")
_TABLE = (
    Says(S.EVAL_STARTED, "huggingface.evaluating", "***** Running Evaluation *****"),
    Says(S.EVAL_STARTED, "huggingface.evaluating", "***** Running evaluation *****"),
    Says(
        S.SAVE_STARTED, "huggingface.saving", "Saving model checkpoint to ",
        re.compile(r"Saving model checkpoint to (?P<path>\S{0,400}checkpoint-[0-9]{1,10}/?)$"),
    ),
    Says(
        S.LOADED, "huggingface.continuing", "Continuing training from global step ",
        re.compile(r"Continuing training from global step (?P<step>[0-9]{1,10})\b"),
    ),
    Says(
        S.LOADED, "huggingface.resuming", "Resuming training from checkpoint with epoch ",
        re.compile(r"Resuming training from checkpoint with epoch [0-9]{1,10} and global step (?P<step>[0-9]{1,10})\b"),
    ),
    Says(S.FINISHED, "huggingface.completed", "Training completed. Do not forget to share your model"),
)  # fmt: skip


class _HuggingFace(Format):
    name = "huggingface"
    advice = "Hugging Face Trainer: leave its bar on (disable_tqdm=False), which alone has the step; set logging_steps."
    words = (
        "%|", "'loss': ", '"loss": ', "'eval_runtime': ", "'train_runtime': ", "Loading model from ",
        "Attempting to resume from ", "Total optimization steps", *(row.literal for row in _TABLE),
    )  # fmt: skip

    def wants(self, text: str) -> bool:
        """A bar with a name is none of its own."""
        return "%|" not in text or "{" in text or text.lstrip()[:1].isdigit()

    def read(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        text = line.text
        if not self.wants(text):
            return ()
        bar = bar_of(text)
        if "{" in text and ("'epoch': " in text or '"epoch": ' in text):
            return _dict(text, bar or bar_of(line.before), memory)
        if bar is not None:
            # The bar has no end of line: what is logged next stands upon it.
            mark = said(text, _TABLE)
            return (*(() if bar.what else _bar(bar, memory)), *((mark,) if mark else ()))
        if found := _TOTAL.search(text):
            memory[ITS] = True
            memory["total"] = step_of(found[1].replace(",", ""))
            for known in ("ended", "top", "other"):
                memory.pop(known, None)
        elif found := _LOADING.search(text):
            memory["folder"] = checkpoint_at(found[1])[0][:1000]
        mark = said(text, _TABLE)
        if mark is None:
            return ()
        if mark.kind is S.LOADED:
            memory.pop("began", None)
            mark = Mark(
                kind=mark.kind, rule=mark.rule, step=mark.step, path=str(memory.get("folder", "")), all_ranks=True
            )
        return (mark,)


def _bar(bar: Bar, memory: Memory) -> Sequence[Mark]:
    if bar.step == 0 or (bar.step == bar.total and memory.get("ended")):  # drawn once more when it is closed
        return ()
    bar = replace(bar, seconds_each=_pace(bar, memory))
    memory["bar"] = [bar.step, bar.total, bar.seconds_each]
    if bar.total != memory.get("total") or _begins_anew(bar, memory):
        return ()
    return (_progress(bar, None, None),)


def _begins_anew(bar: Bar, memory: Memory) -> bool:
    """Whether it is the bar of an evaluation that happens to be as long as the training; told by its first numbers."""
    if 2 * bar.step < memory.get("top", 0):
        memory["other"] = True
    if memory.get("other"):
        return True
    memory["top"] = max(bar.step, memory.get("top", 0))
    return False


def _dict(text: str, upon: Bar | None, memory: Memory) -> Sequence[Mark]:
    memory.pop("other", None)
    if "'train_runtime': " in text:
        memory["ended"] = True
        return (Mark(kind=S.FINISHED, rule="huggingface.trained", all_ranks=True),)
    if "'eval_runtime': " in text:
        memory.pop("bar", None)
        return (Mark(kind=S.EVAL_FINISHED, rule="huggingface.evaluated", all_ranks=True),)
    found = _LOSS.search(text)
    if found:
        memory[ITS] = True
    bar = _last_bar(upon, memory) if found else None
    if found is None or bar is None:
        return ()
    memory["total"], memory["top"] = bar.total, bar.step
    tokens = _TOKENS.search(text)
    return (_progress(bar, number(found[1]), number(tokens[1]) if tokens else None),)


def _last_bar(upon: Bar | None, memory: Memory) -> Bar | None:
    """The bar to which a dict belongs: that upon which it is printed, else the one before it, once and if not full."""
    step, total, seconds_each = memory.pop("bar", [0, 0, None])
    if upon is not None and not upon.what and upon.step:
        return replace(upon, seconds_each=_pace(upon, memory))
    if not 0 < step < total or total != memory.get("total", total):
        return None
    return Bar(what="", step=step, total=total, seconds_each=seconds_each, rest="")


def _pace(bar: Bar, memory: Memory) -> float | None:
    """Seconds for each step, unless the bar began with a jump that its average has not forgotten yet."""
    if bar.total != memory.get("total", bar.total):
        return bar.seconds_each  # an evaluation's
    began = memory["began"] = min(bar.step, memory.get("began", bar.step))
    return None if FORGETS < began <= bar.step < began + FORGETS else bar.seconds_each


def _progress(bar: Bar, loss: float | None, tokens: float | None) -> Mark:
    return Mark(
        kind=S.PROGRESS, rule="huggingface.bar", step=bar.step, loss=loss, step_time_s=bar.seconds_each, tokens=tokens,
        all_ranks=True,
    )  # fmt: skip


FORMAT = _HuggingFace()
