"""Composer's console output, and llm-foundry's.

Source: `composer/loggers/console_logger.py`, `file_logger.py` and `trainer/trainer.py` of mosaicml/composer, 2022 to
2026. Rank 0 prints.

Traps: a report is a head `[batch=40/4800]:` and its values on the lines below. With a duration in epochs the head
counts within the epoch, with one in tokens or samples it counts those: the step is then computed from the epoch and
its length, or taken from `time/batch`, which is one behind. Saves are logged at level DEBUG only, so only the folder
tells. The load is told when it begins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recovery.core.logs import blocks
from recovery.core.logs.fields import NUMBER, Says, number, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Format, Mark, Memory, step_of
from recovery.core.types import SignalKind as S

_HEAD = re.compile(
    r"(?:^| )(?:\[epoch=(?P<epoch>[0-9]{1,6})\])?\[(?P<unit>batch|token|sample|iteration|second)=(?P<count>[0-9]{1,18})"
    r"(?:/(?P<total>[0-9]{1,18}))?\](?P<more>:?)$"
)
_EVAL = re.compile(r"\[Eval batch=([0-9]{1,10})/([0-9]{1,10})\] Eval on ")
_METRIC = re.compile(rf"\[metric\]\[batch=([0-9]{{1,10}})\]: loss/train/total: ({NUMBER})")
_VALUE = re.compile(r" {0,16}Train ([A-Za-z][^:]{0,100}): (\S{1,40})$")
_USES = {
    "time/batch": "step",
    "time/token": "tokens",
    "loss/train/total": "loss",
    "throughput/tokens_per_sec": "throughput",
    "throughput/batches_per_sec": "steps_per_s",
}
_TABLE = (
    Says(
        S.LOADED, "composer.loading", "Loading checkpoint from ",
        re.compile(r"\bcomposer[.\w]{0,80}:? ?Loading checkpoint from (?P<path>\S{1,400})"),
    ),
    Says(S.FRESH_START, "composer.fresh_start", "No previous autoresume checkpoint found"),
    Says(S.FINISHED, "composer.done", "Done.", re.compile(r"\bllmfoundry\S{0,80}: Done\.$")),
)  # fmt: skip


class _Composer(Format):
    name = "composer"
    advice = "Composer: give it a console_log_interval, such as 1ba."
    words = (
        "batch=", "[token=", "[sample=", "[iteration=", "[second=", *(row.literal for row in _TABLE),
    )  # fmt: skip

    def read(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        text = line.text
        if blocks.OPEN in memory and (value := _VALUE.match(text)):
            mark = blocks.take(memory, value[1], _behind(value[1], value[2]), _USES)
            return (mark,) if mark else ()
        late = blocks.close(memory)
        marks = _line(text, memory)
        return (late, *marks) if late else marks


def _behind(name: str, value: str) -> str:
    """`time/batch` is logged before the batch is counted."""
    return str(int(value) + 1) if name == "time/batch" and value.isascii() and value.isdigit() else value


def _line(text: str, memory: Memory) -> Sequence[Mark]:
    if found := _HEAD.search(text):
        return _head(found, memory)
    if found := _EVAL.search(text):
        return _evaluation(found, memory)
    if found := _METRIC.search(text):
        step = step_of(found[1])
        if step is not None:
            return (Mark(kind=S.PROGRESS, rule="composer.metric", step=step, loss=number(found[2]), all_ranks=True),)
    mark = said(text, _TABLE)
    return (mark,) if mark else ()


def _head(found: re.Match[str], memory: Memory) -> Sequence[Mark]:
    step = _step(found)
    memory.pop("evaluating", None)
    if found["more"]:
        blocks.begin(memory, "composer.report", step)
        return ()
    return (Mark(kind=S.PROGRESS, rule="composer.marker", step=step, all_ranks=True),) if step is not None else ()


def _step(found: re.Match[str]) -> int | None:
    """The batch since the start of the run; None where the head alone doesn't tell."""
    if found["unit"] != "batch":
        return None
    if found["epoch"] is None:
        return step_of(found["count"])
    epoch = int(found["epoch"])
    if found["total"] is None:
        return step_of(found["count"]) if epoch == 1 else None
    return step_of(str((epoch - 1) * int(found["total"]) + int(found["count"])))


def _evaluation(found: re.Match[str], memory: Memory) -> Sequence[Mark]:
    if int(found[1]) >= int(found[2]):
        memory.pop("evaluating", None)
        return (Mark(kind=S.EVAL_FINISHED, rule="composer.evaluated", all_ranks=True),)
    if memory.get("evaluating"):
        return ()
    memory["evaluating"] = True
    return (Mark(kind=S.EVAL_STARTED, rule="composer.evaluating", all_ranks=True),)


FORMAT = _Composer()
