"""The Hugging Face Trainer's output, and that of what is built on it: TRL, Axolotl, LLaMA-Factory, ms-swift.

Source: `src/transformers/trainer.py` and `trainer_callback.py` of huggingface/transformers, 2020 to 2026. One process
prints. Measured values are a dict (newer releases quote its numbers); the step is only in tqdm's bar. The lines about
saves, loads and evaluations are logged at level INFO, which has to be switched on.

Traps: the bar has no name, and an evaluation's or a data set's bar looks the same. It is believed to be the training's
if its total is that of `Total optimization steps`, or if a dict with a loss was printed upon it (the same line), or
twice after it while it was not full. Epochs are no steps. A NaN loss is printed as the mean of the others unless
`logging_nan_inf_filter` is off. Nothing says that a save is done. A resumed run's bar starts at 0 before it jumps to
the step that was restored, so 0 is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recovery.core.logs.fields import NUMBER, Bar, Says, bar_of, checkpoint_at, number, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Format, Mark, Memory, step_of
from recovery.core.types import SignalKind as S

_LOSS = re.compile(rf"[{{ ,]['\"]loss['\"]: ['\"]?({NUMBER})")
_TOKENS = re.compile(rf"['\"]num_(?:input_)?tokens(?:_seen)?['\"]: ['\"]?({NUMBER})")
_TOTAL = re.compile(r"Total optimization steps = ([0-9][0-9,]{0,14})")
_LOADING = re.compile(r"\bLoading model from (\S{1,400}?)\.?$")
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
    Says(S.FINISHED, "huggingface.completed", "Training completed. Do not forget to share your model"),
)  # fmt: skip
_UPON = 2  # dicts that must follow a bar before it is taken for the training's


class _HuggingFace:
    name = "huggingface"
    words = (
        "%|", "'loss': ", '"loss": ', "'eval_runtime': ", "'train_runtime': ", "Loading model from ",
        "Total optimization steps", *(row.literal for row in _TABLE),
    )  # fmt: skip

    def read(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        text = line.text
        if bar := bar_of(text):
            return _bar(bar, memory) if not bar.what else ()
        if "{" in text and ("'epoch': " in text or '"epoch": ' in text):
            return _dict(text, bar_of(line.before), memory)
        if found := _TOTAL.search(text):
            memory["total"] = step_of(found[1].replace(",", ""))
        elif found := _LOADING.search(text):
            memory["folder"] = checkpoint_at(found[1])[0][:1000]
        mark = said(text, _TABLE)
        if mark is None:
            return ()
        if mark.kind is S.LOADED:
            mark = Mark(
                kind=mark.kind, rule=mark.rule, step=mark.step, path=str(memory.get("folder", "")), all_ranks=True
            )
        return (mark,)


def _bar(bar: Bar, memory: Memory) -> Sequence[Mark]:
    memory["bar"] = [bar.step, bar.total]
    if bar.total != memory.get("total") or bar.step == 0:
        return ()
    return (_progress(bar, memory.pop("loss", None), memory.pop("tokens", None)),)


def _dict(text: str, upon: Bar | None, memory: Memory) -> Sequence[Mark]:
    if "'train_runtime': " in text:
        return (Mark(kind=S.FINISHED, rule="huggingface.trained", all_ranks=True),)
    if "'eval_runtime': " in text:
        return (Mark(kind=S.EVAL_FINISHED, rule="huggingface.evaluated", all_ranks=True),)
    found = _LOSS.search(text)
    if found is None:
        return ()
    tokens = _TOKENS.search(text)
    loss, seen = number(found[1]), number(tokens[1]) if tokens else None
    if upon is not None and not upon.what:
        memory.update(total=upon.total, bar=[upon.step, upon.total])
        memory.update(loss=None, tokens=None)  # an older one is out of date
        return (_progress(upon, loss, seen),)
    memory.update(loss=loss, tokens=seen)  # for the next state of the bar
    _guess(memory)
    return ()


def _guess(memory: Memory) -> None:
    """Which bar is the training's, where no line tells: losses are printed while it is the last one and not full."""
    step, total = memory.get("bar", [0, 0])
    if step >= total or "total" in memory:
        return
    seen = memory["upon"] = [total, 1 + (memory["upon"][1] if memory.get("upon", [None])[0] == total else 0)]
    if seen[1] >= _UPON:
        memory["total"] = total


def _progress(bar: Bar, loss: float | None, tokens: float | None) -> Mark:
    return Mark(
        kind=S.PROGRESS, rule="huggingface.bar", step=bar.step, loss=loss, step_time_s=bar.seconds_each, tokens=tokens,
        all_ranks=True,
    )  # fmt: skip


FORMAT: Format = _HuggingFace()
