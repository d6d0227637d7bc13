"""OLMo-core's log lines.

Source: `src/olmo_core/train/trainer.py` and `train/callbacks/` of allenai/OLMo-core, 2024 to 2026.

Traps: a report is a head `[step=200/50000,epoch=1,eta=…]` and its values on the lines below. A head without `eta` is
progress by itself, but those of the first step and the last have values, too. `[eval=lm,step=5/40]` is none, nor
is a head of the step that was loaded: how long the load took is told below it. A save that runs asynchronously has its
own last line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recovery.core.logs import blocks
from recovery.core.logs.fields import Says, checkpoint_at, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Format, Mark, Memory, step_of
from recovery.core.types import SignalKind as S

_HEAD = re.compile(r"\[step=([0-9]{1,10})/(?:[0-9]{1,12}|\?\?\?),epoch=[0-9]{1,6}(,eta=[^\]]{1,60})?\](?: +\S{1,60})?$")
_BARE = "bare"  # of an open report: its head was given out by itself, and no value came yet
_VALUE = re.compile(r" {2,60}([A-Za-z][^=]{0,100})=(\S{1,40})$")
_LOADING = re.compile(r"Loading checkpoint from '([^']{1,400})'\.\.\.")
_RESUMES = re.compile(r"Will resume training from step ([0-9]{1,10}),")
_USES = {
    "train/CE loss": "loss",
    "throughput/device/TPS": "throughput",
    "throughput/device/BPS": "steps_per_s",
    "throughput/total tokens": "tokens",
}
_PLACE = r"Saving checkpoint for step (?P<step>[0-9]{1,10}) to '(?P<path>[^']{1,400})'"
_TABLE = (
    Says(S.SAVE_STARTED, "olmo_core.saving", "Saving checkpoint for step ", re.compile(_PLACE)),
    Says(S.SAVE_DURABLE, "olmo_core.saved", "Checkpoint saved", re.compile(r"(?:^| )Checkpoint saved$")),
    Says(
        S.SAVE_DURABLE, "olmo_core.saved_behind", "Checkpoint for step ",
        re.compile(r"Checkpoint for step (?P<step>[0-9]{1,10}) saved successfully"),
    ),
    Says(S.LOADED, "olmo_core.loaded", "Checkpoint successfully loaded"),
    Says(
        S.FRESH_START, "olmo_core.fresh_start", "will train from scratch",
        re.compile(r"No checkpoint found in save folder"),
    ),
    Says(S.EVAL_STARTED, "olmo_core.evaluating", " evals...", re.compile(r"\bRunning .{1,200} evals\.\.\.$")),
    Says(
        S.EVAL_FINISHED, "olmo_core.evaluated", " evals in ",
        re.compile(r"\bFinished .{1,200} evals in [0-9.]{1,12} seconds"),
    ),
    Says(S.FINISHED, "olmo_core.done", "Training complete", re.compile(r"(?:^| )Training complete$")),
)  # fmt: skip


class _OlmoCore(Format):
    name = "olmo_core"
    advice = "OLMo-core: keep its ConsoleLoggerCallback among the callbacks."
    words = (
        "[step=", "Loading checkpoint from '", "Will resume training from step ", *(row.literal for row in _TABLE),
    )  # fmt: skip

    def read(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        text = line.text
        if blocks.OPEN in memory and (value := _VALUE.match(text)):
            if memory[blocks.OPEN].pop(_BARE, False):
                memory[blocks.OPEN].pop("given")
            mark = blocks.take(memory, value[1], value[2], _USES)
            return (mark,) if mark else ()
        late = blocks.close(memory)
        marks = _head(found, memory) if (found := _HEAD.search(text)) else _other(text, memory)
        return (late, *marks) if late else marks


def _head(found: re.Match[str], memory: Memory) -> Sequence[Mark]:
    step = step_of(found[1])
    if step is None or step <= memory.get("loaded", -1):
        return ()
    blocks.begin(memory, "olmo_core.report", step)
    if found[2]:
        return ()
    memory[blocks.OPEN].update({_BARE: True, "given": True})
    return (Mark(kind=S.PROGRESS, rule="olmo_core.marker", step=step, all_ranks=True),)


def _other(text: str, memory: Memory) -> Sequence[Mark]:
    if found := _LOADING.search(text):
        memory["load"] = list(checkpoint_at(found[1]))
    elif found := _RESUMES.search(text):
        memory["load"] = [memory.get("load", [""])[0], step_of(found[1])]
    mark = said(text, _TABLE)
    if mark is None:
        return ()
    if mark.kind is S.SAVE_STARTED:
        memory["saving"] = [mark.path, mark.step]
    elif mark.rule == "olmo_core.saved":
        path, step = memory.get("saving", ["", None])
        mark = replace(mark, path=path, step=step)
    elif mark.kind is S.LOADED:
        path, step = memory.pop("load", ["", None])
        memory["loaded"] = -1 if step is None else step
        mark = replace(mark, path=path, step=step)
    elif mark.kind is S.FRESH_START:
        memory.pop("loaded", None)
    return (mark,)


FORMAT = _OlmoCore()
