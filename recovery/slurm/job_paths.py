"""Where a batch job's output goes: Slurm's file name patterns, expanded as slurmd expands them.

22.05 gives the pattern only, 23.02 to 24.11 the path in the pattern's place, 26.05 both. Each rule below was tried on
Slurm 22.05.8: for a job outside of an array %A is its own id and %a is 4294967294; %J is the bare id in a batch script;
%b stays as it is; a single backslash anywhere switches all patterns off and is itself taken out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

_PATTERN = re.compile(r"%(\d{0,2})([%AaJjNnstux])")
_UNTIDY = re.compile(r"//|/\./|^\./|/\.?$|^[^/]|^$")  # what pathlib would write otherwise
_NO_ARRAY_TASK = 4_294_967_294  # Slurm's NO_VAL


@dataclass(frozen=True, kw_only=True, slots=True)
class PathFacts:
    """What the patterns stand for. `node` is the job's first node, "" before it ran."""

    raw_id: int
    array_id: int  # 0 outside of an array
    array_task: int | None
    name: str
    user: str
    node: str
    work_dir: str


def expand(pattern: str, facts: PathFacts) -> str:
    """The absolute path of a job's output file; "" where the pattern is empty."""
    if not pattern:
        return ""
    if facts.array_task is not None:  # 24.11 has no number for the last task that waits
        pattern = pattern.replace(str(_NO_ARRAY_TASK), str(facts.array_task))
    path = re.sub(r"\\(.)", r"\1", pattern) if "\\" in pattern else _PATTERN.sub(lambda m: _value(m, facts), pattern)
    whole = path if path.startswith("/") else f"{facts.work_dir}/{path}"
    return str(PurePosixPath(whole)) if _UNTIDY.search(whole) else whole


def default_pattern(facts: PathFacts) -> str:
    """Where sbatch sends the output of a job that names no file."""
    return "slurm-%A_%a.out" if facts.array_id else "slurm-%j.out"


def _value(match: re.Match[str], facts: PathFacts) -> str:
    width, letter = int(match[1] or 0), match[2]
    numbers = {
        "j": facts.raw_id,
        "J": facts.raw_id,
        "A": facts.array_id or facts.raw_id,
        "a": _NO_ARRAY_TASK if facts.array_task is None else facts.array_task,
        "n": 0,  # the batch script runs on the first node, as task 0
        "t": 0,
    }
    words = {"%": "%", "x": facts.name, "u": facts.user, "N": facts.node, "s": "batch"}
    return words[letter] if letter in words else str(numbers[letter]).zfill(min(width, 10))
