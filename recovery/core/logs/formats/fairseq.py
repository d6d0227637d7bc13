"""fairseq's log lines.

Source: `fairseq_cli/train.py`, `checkpoint_utils.py` and `logging/progress_bar.py` of facebookresearch/fairseq, 2019
to 2023: `simple` and `json` log formats, and the older one that puts a bar in front.

Traps: `epoch 002: 300 / 1500` counts within the epoch, the step is `num_updates`. Validation prints `num_updates`
too. A copy to `checkpoint_last.pt` is part of the save, so only `Saved checkpoint` counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recovery.core.logs.columns import Columns, InColumns
from recovery.core.logs.fields import NUMBER, Says, inverse, said
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Mark, Memory, step_of
from recovery.core.types import SignalKind as S

_UPDATES = re.compile(r"(?<![A-Za-z_])(?:train_)?num_updates[\"']?[=: ]{1,3}[\"']?([0-9]{1,10})\b")
_TRAIN = re.compile(r"(?:^|\| ?|: ?)(?:train(?:_inner)? ?\||epoch [0-9]{1,6}(?::| \|))")
_VALID = re.compile(r"(?:^|\| )valid(?:ation)? ?\||\bvalid on '")
_FIELD = re.compile(rf"(?<![A-Za-z_])(?:train_)?(loss|wps|ups)[\"']?[=: ]{{1,3}}[\"']?({NUMBER})")
_PLACE = r"\(epoch [0-9]{1,6} @ (?P<step>[0-9]{1,10}) updates"

_TABLE = (
    Says(S.EVAL_STARTED, "fairseq.validating", "begin validation on", re.compile(r"begin validation on \"")),
    Says(
        S.SAVE_STARTED, "fairseq.saving", "Preparing to save checkpoint for epoch ",
        re.compile(r"save checkpoint for epoch [0-9]{1,6} @ (?P<step>[0-9]{1,10}) updates"),
    ),
    Says(
        S.SAVE_DURABLE, "fairseq.saved", "aved checkpoint ",
        re.compile(r"\b[Ss]aved checkpoint (?P<path>\S{1,400}) " + _PLACE + r"[^)]{0,80}\) \(writing took "),
    ),
    Says(
        S.LOADED, "fairseq.loaded", "oaded checkpoint ",
        re.compile(r"\b[Ll]oaded checkpoint (?P<path>\S{1,400}) " + _PLACE),
    ),
    Says(
        S.FRESH_START, "fairseq.fresh_start", "No existing checkpoint found ",
        re.compile(r"No existing checkpoint found (?P<path>\S{1,400})"),
    ),
    Says(S.FINISHED, "fairseq.done", "done training in ", re.compile(r"\bdone training in [0-9.]{1,20} seconds")),
)  # fmt: skip


class _Fairseq(InColumns):
    name = "fairseq"
    advice = "fairseq: set --log-format simple and a --log-interval."
    words = ("num_updates", *(row.literal for row in _TABLE))

    def columns(self, text: str) -> Columns | None:
        found = _UPDATES.search(text)
        if found is None or _VALID.search(text) or not _TRAIN.search(text):
            return None
        fields: dict[str, slice] = {}
        for field in _FIELD.finditer(text):
            fields.setdefault(field[1], slice(*field.span(2)))
        return Columns(
            rule="fairseq.updates", step=slice(*found.span(1)), loss=fields.get("loss"), throughput=fields.get("wps"),
            step_time=fields.get("ups"), in_seconds=inverse,
        )  # fmt: skip

    def other(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        found = _UPDATES.search(line.text)
        mark = _validated(found, line.text) if found else said(line.text, _TABLE)
        if mark is None:
            return ()
        if mark.path.endswith(".pt"):  # a name without a number, as checkpoint_last.pt
            mark = replace(mark, path=mark.path.rpartition("/")[0])
        return (mark,)


def _validated(found: re.Match[str], text: str) -> Mark | None:
    step = step_of(found[1])
    if step is None or not _VALID.search(text):
        return None
    return Mark(kind=S.EVAL_FINISHED, rule="fairseq.validated", step=step, all_ranks=True)


FORMAT = _Fairseq()
