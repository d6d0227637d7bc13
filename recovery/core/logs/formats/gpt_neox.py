"""GPT-NeoX's log lines. Its saves and their ends are DeepSpeed's.

Source: `megatron/logging.py`, `training.py` and `checkpointing.py` of EleutherAI/gpt-neox, 2021 to 2025: a Megatron
line with `samples/sec` in front and no `consumed samples`.

Traps: `Unable to load checkpoint.` is printed and training goes on from step 0. Skipped iterations advance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recovery.core.logs.columns import Columns, InColumns, from_ms, span
from recovery.core.logs.fields import NUMBER, Says, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Mark, Memory
from recovery.core.types import SignalKind as S

_ITERATION = re.compile(
    rf"\bsamples/sec: ({NUMBER}) \| {{1,4}}iteration {{1,12}}([0-9]{{1,10}})/ {{0,12}}[0-9]{{1,10}} \|"
)
_ELAPSED = re.compile(rf" elapsed time per iteration \(ms\): ({NUMBER}) \|")
_LOSS = re.compile(rf" lm_loss: ({NUMBER}) \|")
_TABLE = (
    Says(
        S.LOADED, "gpt_neox.loaded", "successfully loaded ",
        re.compile(r"^ {0,4}successfully loaded (?P<path>\S{1,300}/global_step[0-9]{1,10}/\S{1,90}\.pt)$"),
    ),
    Says(
        S.FRESH_START, "gpt_neox.fresh_start", "Unable to load checkpoint.",
        re.compile(r"^Unable to load checkpoint\.$"),
    ),
    Says(
        S.EVAL_FINISHED, "gpt_neox.evaluated", "results at iteration ",
        re.compile(r" (?:validation|evaluation) results at iteration (?P<step>[0-9]{1,10}) \|"),
    ),
)  # fmt: skip


class _GptNeoX(InColumns):
    name = "gpt_neox"
    advice = "GPT-NeoX: set log_interval."
    words = ("samples/sec: ", *(row.literal for row in _TABLE))

    def columns(self, text: str) -> Columns | None:
        found = _ITERATION.search(text)
        if found is None:
            return None
        return Columns(
            rule="gpt_neox.iteration",
            step=slice(*found.span(2)),
            loss=span(_LOSS.search(text, found.end() - 1)),
            throughput=span(found),
            step_time=span(_ELAPSED.search(text, found.end() - 1)),
            in_seconds=from_ms,
        )

    def other(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        mark = said(line.text, _TABLE)
        return (mark,) if mark else ()


FORMAT = _GptNeoX()
