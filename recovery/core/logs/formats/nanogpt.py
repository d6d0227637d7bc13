"""nanoGPT's log lines, and those of the many scripts that began as a copy of it.

Source: `train.py` of karpathy/nanoGPT. Only the master process prints.

Traps: `step 500: train loss …, val loss …` is an evaluation, not progress. A save line has no step: it is that of the
evaluation just before. Nothing says that a save is done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recovery.core.logs.columns import Columns, InColumns, from_ms, span
from recovery.core.logs.fields import NUMBER, Says, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Mark, Memory
from recovery.core.types import SignalKind as S

_ITER = re.compile(rf"(?:^| )iter ([0-9]{{1,10}}): loss ({NUMBER}), time ({NUMBER}) ?ms")
_EVALUATED = re.compile(rf"(?:^| )step (?P<step>[0-9]{{1,10}}): train loss (?:{NUMBER}), val loss (?:{NUMBER})")
_TABLE = (
    Says(S.EVAL_FINISHED, "nanogpt.evaluated", ": train loss ", _EVALUATED),
    Says(
        S.SAVE_STARTED, "nanogpt.saving", "saving checkpoint to ", re.compile(r"^saving checkpoint to (?P<path>\S.*)")
    ),
    Says(
        S.LOADED, "nanogpt.resuming", "Resuming training from ", re.compile(r"^Resuming training from (?P<path>\S.*)")
    ),
    Says(S.FRESH_START, "nanogpt.fresh_start", "Initializing a new model from scratch"),
)


class _NanoGpt(InColumns):
    name = "nanogpt"
    advice = "nanoGPT: set log_interval."
    words = ("iter ", *(row.literal for row in _TABLE))

    def columns(self, text: str) -> Columns | None:
        found = _ITER.search(text)
        if found is None:
            return None
        return Columns(
            rule="nanogpt.iter", step=slice(*found.span(1)), loss=span(found, 2), step_time=span(found, 3),
            in_seconds=from_ms,
        )  # fmt: skip

    def progressed(self, memory: Memory, step: int) -> None:
        memory.clear()

    def other(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        mark = said(line.text, _TABLE)
        if mark is None:
            return ()
        if mark.kind is S.EVAL_FINISHED:
            memory["evaluated"] = mark.step
        elif mark.kind is S.SAVE_STARTED:
            mark = replace(mark, step=memory.get("evaluated"))
        return (mark,)


FORMAT = _NanoGpt()
