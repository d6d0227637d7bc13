"""torchtune's log lines.

Source: the recipes and `torchtune/training/checkpointing` of meta-pytorch/torchtune, 2024 to 2025. Progress is a tqdm
bar whose description is `epoch|global step|Loss: …`; the bar itself counts within the epoch.

Traps: the bar's own numbers are not the step. A checkpoint is several files, and each has its line `Model checkpoint
of size …`: none of them says that it is whole. An asynchronous save is durable when the line says so, much later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recovery.core.logs.columns import Columns, InColumns, span
from recovery.core.logs.fields import NUMBER, RATE, Says, inverse, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Mark, Memory
from recovery.core.types import SignalKind as S

_BAR = re.compile(rf"(?:^| )[0-9]{{1,6}}\|([0-9]{{1,10}})\|Loss: ({NUMBER})")
_TABLE = (
    Says(S.SAVE_STARTED, "torchtune.saving", "Saving checkpoint. This may take some time."),
    Says(S.SAVE_STARTED, "torchtune.saving_behind", "Saving checkpoint asynchronously"),
    Says(
        S.SAVE_DURABLE, "torchtune.saved", "Saving checkpoint took ",
        re.compile(r"Saving checkpoint took [0-9.]{1,12} s"),
    ),
    Says(
        S.SAVE_DURABLE, "torchtune.saved_behind", "Checkpoint is saved asynchronously to ",
        re.compile(r"Checkpoint is saved asynchronously to (?P<path>\S{1,400}) successfully"),
    ),
    Says(S.SAVE_STARTED, "torchtune.saving", "Starting checkpoint save..."),
    Says(
        S.SAVE_DURABLE, "torchtune.saved", "Checkpoint saved in ",
        re.compile(r"Checkpoint saved in [0-9.]{1,12} seconds"),
    ),
    Says(S.LOADED, "torchtune.loaded", "DistributedCheckpointer loaded the checkpoint in "),
    Says(S.EVAL_FINISHED, "torchtune.validated", "Validation loss: ", re.compile(r"(?:^|:| )Validation loss: [0-9]")),
)  # fmt: skip


class _Torchtune(InColumns):
    name = "torchtune"
    advice = "torchtune: its bar, on standard error, has the step: have that in the log."
    words = ("|Loss: ", *(row.literal for row in _TABLE))

    def columns(self, text: str) -> Columns | None:
        found = _BAR.search(text)
        if found is None:
            return None
        pace = RATE.search(text, found.end())
        return Columns(
            rule="torchtune.bar", step=slice(*found.span(1)), loss=span(found, 2), step_time=span(pace),
            in_seconds=inverse if pace and pace[2] == "it/s" else float,
        )  # fmt: skip

    def other(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        mark = said(line.text, _TABLE)
        return (mark,) if mark else ()


FORMAT = _Torchtune()
