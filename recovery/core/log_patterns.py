"""A `log` pattern of a job's comment: one name, or many that only the folders tell.

Slurm's file name patterns (srun(1) and sbatch(1), "filename pattern") are filled in where one value is meant, and left
open where a job has many: `%t` a task, `%n` and `%N` a node, `%s` a step, and the step in `%J`. `*`, `?` and sets like
`[0-9]` are open too. What is filled in adds no folder and opens nothing: a job may be called `*` or `../x`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

MOST_OPEN = 20  # `*` in one pattern
_NO_TASK = "4294967294"  # what Slurm fills in for %a where the job is no array task
_PIECE = re.compile(r"%([0-9]{0,2})([A-Za-z%])|\*+|\?|\[!?(?:[^\]\[\\/]|-){1,60}\]|.", re.DOTALL)
_MOST_DIGITS = 10  # Slurm pads numbers only, to at most so many


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFacts:
    """What the patterns stand for. `raw_id`: an array task's own number, "" where it isn't known."""

    job_id: str  # "4711", "4711_3", "4711+1"
    raw_id: str = ""
    name: str = ""
    user: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPattern:
    """An absolute path; each of its names is a text, or a pattern for the names in its folder.

    The groups `rank` and `node` of a pattern, where it has them, tell where a file's lines come from.
    `any_host`: the names again, for where none is found: Slurm fills in the host's own name for %N, which need not be
    what the node is called in Slurm. Empty unless the job's id stands in them, which keeps the files of others out.
    """

    text: str  # as a person would write it, with what is known filled in
    names: tuple[str | re.Pattern[str], ...]
    any_host: tuple[str | re.Pattern[str], ...] = ()

    @property
    def is_open(self) -> bool:
        return any(isinstance(name, re.Pattern) for name in self.names)


def log_pattern(pattern: str, facts: LogFacts) -> LogPattern:
    """The pattern with what is known filled in. Names are compared in time proportional to their length."""
    text, names = _names(pattern, facts)
    letters = {found[2] for found in _PIECE.finditer(pattern)}
    is_own = bool(letters & {"j", "J"}) or ("A" in letters and ("_" not in facts.job_id or "a" in letters))
    any_host = _names(pattern, replace(facts, nodes=()))[1] if facts.nodes and "N" in letters and is_own else ()
    return LogPattern(text=text, names=names, any_host=any_host)


def _names(pattern: str, facts: LogFacts) -> tuple[str, tuple[str | re.Pattern[str], ...]]:
    values, opened = _values(facts), _opened(facts)
    names = [_name(part, values, opened) for part in pattern.strip("/").split("/") if part]
    return "/" + "/".join(text for text, _ in names), tuple(_compiled(text, source) for text, source in names)


def _values(facts: LogFacts) -> dict[str, str]:
    main, _, task = facts.job_id.partition("_")
    main = main.partition("+")[0]
    return {
        "j": facts.raw_id or main, "A": main, "a": task or _NO_TASK, "x": facts.name, "u": facts.user, "%": "%",
        "b": task[-1:] if task.isascii() and task.isdigit() else "",
    }  # fmt: skip


def _opened(facts: LogFacts) -> dict[str, str]:
    """Sources of regular expressions, by letter. A node is written without its domain."""
    own = facts.raw_id or facts.job_id.partition("_")[0].partition("+")[0]
    nodes = "|".join(re.escape(node.partition(".")[0]) for node in facts.nodes) or r"[A-Za-z0-9][A-Za-z0-9-]{0,62}"
    return {
        "t": "(?P<rank>[0-9]{1,10})", "n": "[0-9]{1,10}", "N": f"(?P<node>{nodes})", "s": "(?:[0-9]{1,10}|batch)",
        "J": rf"{re.escape(own)}(?:\.[0-9]{{1,10}})?",
    }  # fmt: skip


def _name(part: str, values: dict[str, str], opened: dict[str, str]) -> tuple[str, list[str] | None]:
    """One name of the path, as text and, where it is open, as sources of regular expressions, "*" among them."""
    shown: list[str] = []
    sources: list[str] = []
    is_open = False
    for found in _PIECE.finditer(part):
        piece, letter = found[0], found[2]
        text = _filled(values.get(letter, ""), found[1]) if letter else ""
        shown.append(text or piece)
        if text or (letter and letter not in opened):
            sources.append(re.escape(text or piece))
            continue
        source = opened.get(letter or "") or _glob(piece)
        is_open = is_open or source != re.escape(piece)
        sources.append(_once(source, sources))
    return "".join(shown), sources if is_open else None


def _filled(value: str, width: str) -> str:
    value = value.replace("/", "_").replace("\0", "_")
    return value.zfill(min(int(width or 0), _MOST_DIGITS)) if value.isascii() and value.isdigit() else value


def _glob(piece: str) -> str:
    if piece.startswith("*"):
        return "*"
    if piece == "?":
        return "[^/]"
    if piece.startswith("[") and len(piece) > 1:
        inside = piece[2:-1] if piece[1] == "!" else piece[1:-1]
        safe = re.sub(r"([\\^&~|\[\]])", r"\\\1", inside)
        return f"[{'^' if piece[1] == '!' else ''}{safe}]"
    return re.escape(piece)


def _once(source: str, before: Sequence[str]) -> str:
    """A group can have its name once: where it comes again it must be the same."""
    found = re.match(r"\(\?P<(rank|node)>", source)
    return f"(?P={found[1]})" if found and source in before else source


def _compiled(text: str, sources: list[str] | None) -> str | re.Pattern[str]:
    """Every `*` but the last takes as little as it can and gives nothing back: that bounds the work."""
    if sources is None:
        return text
    pieces: list[str] = [""]
    for source in sources:
        if source == "*":
            pieces.append("")
        else:
            pieces[-1] += source
    if len(pieces) - 1 > MOST_OPEN:
        return text  # nobody means that; no file is called so
    first, *rest = pieces
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    last = f".*{rest[-1]}" if rest else ""
    try:
        return re.compile(f"{first}{middle}{last}", re.DOTALL)
    except re.error:  # a set that is none, like [z-a]
        return text
