"""torchtitan's log lines.

Source: `torchtitan/components/metrics.py`, `components/checkpoint.py` and `train.py` of pytorch/torchtitan, 2024 to
2026. Older releases lack `grad_norm` or `tflops` and say `wps` for `tps`. Every rank prints, unless the launcher
filters.

Traps: a save line has no step. An asynchronous save has no line that says it is on disk (`Finished staging`, or the
older `(or staging if async is enabled)`): only the folder tells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recovery.core.logs.columns import Columns, InColumns, span
from recovery.core.logs.fields import NUMBER, Says, checkpoint_at, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Mark, Memory, step_of
from recovery.core.types import SignalKind as S

_STEP = re.compile(rf"(?<!validate)(?:^| )step: {{1,6}}([0-9]{{1,10}})  loss: {{1,8}}({NUMBER})  ")
_SPEED = re.compile(rf"\b(?:tps|wps): {{1,6}}({NUMBER})")
_VALIDATE = re.compile(r"(?:^| )validate step: {1,6}(?P<step>[0-9]{1,10})  loss:")
_LOADING = re.compile(r"(?:^| )Loading the checkpoint (?:from (\S{1,400}?)\.?$|at step ([0-9]{1,10})\.)")
_STARTS = re.compile(r"(?:^| )Training starts at step ([0-9]{1,10})\b")

_TABLE = (
    Says(S.EVAL_FINISHED, "torchtitan.validated", "validate step:", _VALIDATE),
    Says(
        S.SAVE_STARTED, "torchtitan.saving", "Saving the checkpoint",
        re.compile(r"(?:^| )Saving the checkpoint(?: \(or staging if async is enabled\))?\.$"),
    ),
    Says(
        S.SAVE_STARTED, "torchtitan.staging", "Staging the checkpoint",
        re.compile(r"(?:^| )Staging the checkpoint\b"),
    ),
    Says(
        S.SAVE_DURABLE, "torchtitan.saved", "Finished saving the checkpoint in ",
        re.compile(r"(?:^| )Finished saving the checkpoint in [0-9]"),
    ),
    Says(S.SAVE_DURABLE, "torchtitan.saved_behind", "Finish saving the checkpoint in the background process in "),
    Says(S.SAVE_DURABLE, "torchtitan.saved_last", "Last step checkpoint completed in "),
    Says(S.FRESH_START, "torchtitan.fresh_start", "No checkpoint was provided, this is a fresh start"),
    Says(S.FINISHED, "torchtitan.done", "Training completed", re.compile(r"(?:^| - )Training completed\.?$")),
)  # fmt: skip


class _Torchtitan(InColumns):
    name = "torchtitan"
    advice = "torchtitan: set metrics.log_freq."
    words = ("step: ", "the checkpoint", "Training starts at step", *(row.literal for row in _TABLE))

    def columns(self, text: str) -> Columns | None:
        found, speed = _STEP.search(text), _SPEED.search(text)
        if found is None or speed is None:
            return None
        return Columns(
            rule="torchtitan.step", step=slice(*found.span(1)), loss=span(found, 2), throughput=span(speed),
            all_ranks=False,
        )  # fmt: skip

    def progressed(self, memory: Memory, step: int) -> None:
        memory.clear()
        memory["began"] = True

    def other(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        mark = said(line.text, _TABLE) or _load(line.text, memory) or _start(line.text, memory)
        if mark is None:
            return ()
        if mark.kind is S.FRESH_START:
            self.progressed(memory, mark.step or 0)
        return (mark,)


def _load(text: str, memory: Memory) -> Mark | None:
    if found := _LOADING.search(text):
        folder, step = checkpoint_at(found[1]) if found[1] else ("", step_of(found[2]))
        memory["load"] = [folder, step]
        return None
    if "Finished loading the checkpoint in " not in text:
        return None
    folder, step = memory.get("load", ["", None])
    memory["began"] = step is not None  # else only weights were loaded, and the first step tells
    return Mark(kind=S.LOADED, rule="torchtitan.loaded", step=step, path=str(folder), all_ranks=True)


def _start(text: str, memory: Memory) -> Mark | None:
    """Where neither a load nor a fresh start was told, the first step tells."""
    found = _STARTS.search(text)
    step = step_of(found[1]) if found else None
    if step is None or memory.get("began"):
        return None
    memory["began"] = True
    if step <= 1:
        return Mark(kind=S.FRESH_START, rule="torchtitan.starts_at_one", all_ranks=True)
    return Mark(kind=S.LOADED, rule="torchtitan.starts_at", step=step - 1, all_ranks=True)


FORMAT = _Torchtitan()
