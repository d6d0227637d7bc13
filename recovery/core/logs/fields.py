"""What the readers of formats share: numbers as trainers print them, steps in the names of checkpoints, progress bars,
and tables of lines that say one thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from recovery.core.logs.lines import LARGEST
from recovery.core.logs.marks import Mark, finite, step_of
from recovery.core.types import SignalKind

NUMBER = r"[-+]?(?:[0-9][0-9,]{0,24}(?:\.[0-9]{0,24})?(?:[eE][-+]?[0-9]{1,3})?|nan|inf|NaN|Infinity)"

# step-500, step500, global_step500, checkpoint-500, iter_0000500, step=500, ep1-ba500
_STEP_IN_NAME = re.compile(r"(?:^|[^A-Za-z0-9])(?:checkpoint|step|iter|ba)[-_=]?([0-9]{1,10})(?![0-9])")
_NAMES_DEEP = 3  # a step may stand in the name of a file, of its folder, or of the one above

# tqdm's bar: `what:  5%|▌   | 50/1000 [03:10<1:00:12,  3.80s/it, loss=2.3]`; without a total `what: 50it [03:10, …]`
_BAR = re.compile(
    r"(?P<what>[^|%]{0,120}?):? {0,8}[0-9]{1,3}%\|[^|]{0,300}\| {0,12}(?P<step>[0-9]{1,10})/(?P<total>[0-9]{1,10}) "
    r"\[[0-9:]{1,12}<[0-9:?]{1,12}, {0,12}(?P<rest>[^\]]{0,400})"
)
RATE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(it/s|s/it)")


def number(text: str | None) -> float | None:
    """A finite number, thousands separated or not; None for anything else."""
    return None if text is None else finite(text.replace(",", ""))


def inverse(rate: float | None) -> float | None:
    """Seconds per step of a rate per second; None where that is no number."""
    seconds = 1 / rate if rate else inf
    return seconds if abs(seconds) <= LARGEST else None


def checkpoint_at(path: str) -> tuple[str, int | None]:
    """The folder that holds the checkpoints, and the step of the one that `path` is or lies in.

    `/out/checkpoint-500` and `/out/checkpoint-500/model.pt` are both ("/out", 500); without a step in its last names a
    path is left as it is.
    """
    rest = path.rstrip("/")
    for _ in range(_NAMES_DEEP):
        folder, slash, name = rest.rpartition("/")
        if found := _STEP_IN_NAME.search(name):
            return folder or slash, step_of(found[1])
        rest = folder
    return path, None


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One state of a progress bar. `what` is the text before it, `rest` what follows the times."""

    what: str
    step: int
    total: int
    seconds_each: float | None
    rest: str


def bar_of(text: str) -> Bar | None:
    """The progress bar with which `text` begins; None where it is none, or one that counts beyond its total."""
    found = _BAR.match(text) if "%|" in text else None
    if found is None:
        return None
    step, total = step_of(found["step"]), step_of(found["total"])
    if step is None or total is None or step > total:
        return None
    return Bar(what=found["what"].strip(), step=step, total=total, seconds_each=pace(found["rest"]), rest=found["rest"])


def pace(text: str) -> float | None:
    """Seconds per iteration from tqdm's `1.19it/s` or `3.80s/it`."""
    found = RATE.search(text)
    if found is None:
        return None
    value = finite(found[1])
    return value if found[2] == "s/it" else inverse(value)


class Says(NamedTuple):
    """A line that says one thing: its `literal` stands in it, and its `pattern`, where there is one, is found.

    The pattern's groups `step` and `path` are taken over. A path is cut to the folder that holds the checkpoints, and
    gives the step where no group does. Only an absolute path is kept: no line says what the working directory was.
    """

    kind: SignalKind
    rule: str
    literal: str
    pattern: re.Pattern[str] | None = None


def said(text: str, table: Iterable[Says]) -> Mark | None:
    """The mark of the first row that `text` satisfies."""
    for row in table:
        if row.literal not in text:
            continue
        if row.pattern is None:
            return _mark(row, {})
        if found := row.pattern.search(text):
            return _mark(row, found.groupdict())
    return None


def _mark(row: Says, groups: Mapping[str, str | None]) -> Mark | None:
    """None where the step is beyond what any trainer counts."""
    digits, path = groups.get("step"), (groups.get("path") or "").strip()
    folder, step = checkpoint_at(path) if path else ("", None)
    folder = folder if folder.startswith("/") else ""
    if digits is not None:
        step = step_of(digits)
        if step is None:
            return None
    return Mark(kind=row.kind, rule=row.rule, step=step, path=folder, all_ranks=True)
