"""torchtune's log lines.

Source: the recipes and `torchtune/training/checkpointing` of meta-pytorch/torchtune, 2024 to 2025. Progress is a tqdm
bar whose description is `epoch|global step|Loss: …`; the bar itself counts within the epoch.

Traps: the bar's own numbers are not the step. A checkpoint is several files, and each has its line `Model checkpoint
of size …`: none of them says that it is whole. An asynchronous save is durable when the line says so, much later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recovery.core.logs.fields import NUMBER, Says, number, pace, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Format, Mark, Memory, step_of
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
    Says(S.EVAL_FINISHED, "torchtune.validated", "Validation loss: ", re.compile(r"(?:^|:| )Validation loss: [0-9]")),
)  # fmt: skip


class _Torchtune:
    name = "torchtune"
    words = ("|Loss: ", *(row.literal for row in _TABLE))

    def read(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        mark = _progress(line.text) or said(line.text, _TABLE)
        return (mark,) if mark else ()


def _progress(text: str) -> Mark | None:
    found = _BAR.search(text)
    step = step_of(found[1]) if found else None
    if found is None or step is None:
        return None
    return Mark(
        kind=S.PROGRESS, rule="torchtune.bar", step=step, loss=number(found[2]), step_time_s=pace(text[found.end() :]),
        all_ranks=True,
    )  # fmt: skip


FORMAT: Format = _Torchtune()
