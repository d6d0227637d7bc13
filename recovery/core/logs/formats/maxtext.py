"""MaxText's log lines, with those of Orbax that saves for it.

Source: `MaxText/metric_logger.py` and `checkpointing.py` of AI-Hypercomputer/maxtext, `checkpoint_manager.py` of
google/orbax, 2023 to 2026.

Traps: an asynchronous save is durable when Orbax says `CheckpointManager Save Finalize is done on all hosts`, not when
it is `syncing` nor when a background thread is done. The load is told when it begins, its end has no sure line. Steps
at which a profiler starts or ends have a line without times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recovery.core.logs.columns import Columns, InColumns, span
from recovery.core.logs.fields import NUMBER, Says, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Mark, Memory
from recovery.core.types import SignalKind as S

_STEP = re.compile(rf"\bcompleted (profiler activation/deactivation )?step: ([0-9]{{1,10}})(?:, seconds: ({NUMBER}))?")
_LOSS = re.compile(rf"(?<![A-Za-z_])loss: ({NUMBER})")
_SPEED = re.compile(rf"\bTokens/s/device: ({NUMBER})")
_TABLE = (
    Says(S.EVAL_STARTED, "maxtext.evaluating", "Completed eval step"),
    Says(
        S.EVAL_FINISHED, "maxtext.evaluated", "eval metrics after step: ",
        re.compile(r"eval metrics after step: (?P<step>[0-9]{1,10})\b"),
    ),
    Says(
        S.EVAL_FINISHED, "maxtext.evaluated", "Completed eval after train step ",
        re.compile(r"Completed eval after train step (?P<step>[0-9]{1,10})\b"),
    ),
    Says(
        S.SAVE_STARTED, "maxtext.saving_behind", "Started an asynchronous checkpoint save for step ",
        re.compile(r"checkpoint save for step (?P<step>[0-9]{1,10})\b"),
    ),
    Says(
        S.SAVE_STARTED, "orbax.saving", "] Saving checkpoint at step ",
        re.compile(r"\] Saving checkpoint at step (?P<step>[0-9]{1,10})\b"),
    ),
    Says(
        S.SAVE_DURABLE, "maxtext.saved", "Saved a checkpoint at step ",
        re.compile(r"Saved a checkpoint at step (?P<step>[0-9]{1,10})\b"),
    ),
    Says(
        S.SAVE_DURABLE, "orbax.saved", "CheckpointManager Save Finalize is done",
        re.compile(r"(?:\[step=(?P<step>[0-9]{1,10})\] )?CheckpointManager Save Finalize is done"),
    ),
    Says(
        S.SAVE_DURABLE, "orbax.saved_at_once", "] Finished synchronous save.",
        re.compile(r"\[step=(?P<step>[0-9]{1,10})\] Finished synchronous save\."),
    ),
    Says(
        S.LOADED, "maxtext.restoring", "restoring from this run's directory ",
        re.compile(r"restoring from this run's directory step (?P<step>[0-9]{1,10})\b"),
    ),
    Says(S.FRESH_START, "maxtext.fresh_start", "No existing checkpoints found, not restoring checkpoint"),
)  # fmt: skip


class _MaxText(InColumns):
    name = "maxtext"
    words = ("completed ", *(row.literal for row in _TABLE))

    def columns(self, text: str) -> Columns | None:
        found = _STEP.search(text)
        if found is None or not (found[1] or found[3]):
            return None
        return Columns(
            rule="maxtext.step", step=slice(*found.span(2)), step_time=span(found, 3),
            loss=span(_LOSS.search(text, found.end())), throughput=span(_SPEED.search(text, found.end())),
            all_ranks=False,
        )  # fmt: skip

    def progressed(self, memory: Memory, step: int) -> None:
        memory.pop("evaluating", None)

    def other(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        mark = said(line.text, _TABLE)
        if mark is None or (mark.kind is S.EVAL_STARTED and memory.get("evaluating")):
            return ()
        memory["evaluating"] = mark.kind is S.EVAL_STARTED
        if mark.kind is S.SAVE_STARTED:
            memory["saving"] = mark.step
        elif mark.rule == "orbax.saved" and mark.step is None:  # older releases don't name the step
            mark = replace(mark, step=memory.get("saving"))
        return (mark,)


FORMAT = _MaxText()
