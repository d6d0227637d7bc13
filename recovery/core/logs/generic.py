"""Progress in a log whose format nobody told us: a number after *step* that grows.

The word "step" is everywhere, so a line counts only by its shape and by growth:

1. *Shape.* Either a keyword (step, iter, iteration, global_step, …) with its number **and** a second measured field
   on the line (loss, learning rate, it/s, …); or the keyword and its number (and a total) **alone**; or a progress
   bar without text, or with a text that speaks of training (`5%|▌ | 50/1000 [03:10<1:00:12, 3.80s/it]`).
2. *Growth.* A series is one keyword with one total on one rank. Its numbers must have risen: once where a second
   field vouches for the line, twice where it stands alone or is a bar. The line that fulfils this is the first to
   count; from then on each new highest number does.
3. *A fall* (a launcher that started its workers anew) is believed after two numbers in a row that rise below the
   highest; single stragglers among ranks that share a file don't count.
4. *Bars come second.* As soon as a keyword counts, bars of this log no longer do.

The caller asks only while no real format has matched in the attempt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Mark, Memory, finite, step_of
from recovery.core.types import SignalKind

MAX_SERIES = 64  # that are followed in one attempt; a log with more of them prints no progress that we can tell

_NUMBER = r"[-+]?[0-9]{1,20}(?:\.[0-9]{0,20})?(?:[eE][-+]?[0-9]{1,3})?"
_KEYWORD = re.compile(
    r"(?<![A-Za-z0-9_./-])(global[_ ]step|train[_ ]step|steps?|iterations?|iters?|it|num_updates)"
    r"['\"]?(?: ?[:=#] ?| {1,8}|\[ ?)\[? {0,8}([0-9]{1,10})(?![0-9.A-Za-z_%])"
    r"(?: {0,8}(?:/|of) {0,8}([0-9]{1,10})(?![0-9.A-Za-z_]))?",
    re.IGNORECASE,
)
_LOSS = re.compile(
    r"(?<![A-Za-z0-9])(?:[a-z]{1,20}[_/ ])?loss['\"]?(?: ?[:=] ?| {1,4})['\"]?(" + _NUMBER + r"|nan|inf)\b",
    re.IGNORECASE,
)
_SECOND_FIELD = re.compile(
    r"(?<![A-Za-z0-9])(?:lr|learning[_ ]rate|grad[_ ]?norm|gnorm|acc(?:uracy)?|ppl|perplexity|tflops|mfu|tps|eta"
    r"|elapsed|step[_ ]time|iter[_ ]time|time)['\"]?(?: ?[:=] ?| {1,4})['\"]?[0-9]",
    re.IGNORECASE,
)
_RATE = re.compile(r"(?<![0-9.])([0-9]{1,12}(?:\.[0-9]{1,12})?) ?(it|steps?|iters?)/s(?:ec)?\b", re.IGNORECASE)
_SECONDS = re.compile(
    r"(?<![0-9.])([0-9]{1,12}(?:\.[0-9]{1,12})?) ?(ms|s|sec)/(?:it|step|iter|iteration)\b", re.IGNORECASE
)
_THROUGHPUT = re.compile(
    r"(?<![0-9.,])([0-9][0-9,]{0,20}(?:\.[0-9]{1,12})?) ?(?:samples|tokens|tok|examples|sequences)/s(?:ec)?\b"
    r"|\b(?:samples|tokens)[_ ]per[_ ]sec(?:ond)?['\"]?(?: ?[:=] ?| )([0-9][0-9,]{0,20}(?:\.[0-9]{1,12})?)",
    re.IGNORECASE,
)
_BAR = re.compile(
    r"(?P<what>[^|%]{0,80}?) {0,8}[0-9]{1,3}%\|[^|]{0,300}\| {0,12}(?P<step>[0-9]{1,10})/(?P<total>[0-9]{1,10}) "
    r"\[[0-9:?]{1,12}<"
)
_TRAINING_BAR = re.compile(r"(?:train(?:ing)?|steps?|iterations?|iters?)?:?$", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidate:
    rule: str
    series: str
    step: int
    rises: int  # that the series needs before it counts


class Generic:
    """The fallback. `memory` holds the series: highest number, a lower one that may start a fall, rises so far."""

    name = "generic"

    def read(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        candidate = _candidate(line.text, "" if line.rank is None else str(line.rank))
        if candidate is None or (candidate.rule == "generic.bar" and memory.get("keyword")):
            return ()
        if not _grows(candidate, memory):
            return ()
        if candidate.rule == "generic.step":
            memory["keyword"] = True
        return (_mark(candidate, line.text),)


def _candidate(text: str, rank: str) -> _Candidate | None:
    if (found := _BAR.match(text)) and _TRAINING_BAR.match(found["what"].strip()):
        return _make("generic.bar", f"bar/{found['total']}@{rank}", found["step"], found["total"], rises=2)
    found = _KEYWORD.search(text)
    if found is None:
        return None
    if _measured(text):
        rises = 1
    elif _alone(text, found):
        rises = 2
    else:
        return None
    word = found[1].lower().replace(" ", "_")
    return _make("generic.step", f"{word}/{found[3] or ''}@{rank}", found[2], found[3], rises=rises)


def _make(rule: str, series: str, digits: str, total: str | None, *, rises: int) -> _Candidate | None:
    step = step_of(digits)
    if step is None or (total is not None and step > int(total)):
        return None
    return _Candidate(rule=rule, series=series, step=step, rises=rises)


def _measured(text: str) -> bool:
    return any(p.search(text) for p in (_LOSS, _SECOND_FIELD, _RATE, _SECONDS, _THROUGHPUT))


def _alone(text: str, found: re.Match[str]) -> bool:
    """Nothing but the keyword and its number, a time stamp and marks around it."""
    return not _WORD.search(text, 0, found.start()) and not _WORD.search(text, found.end())


def _grows(candidate: _Candidate, memory: Memory) -> bool:
    """Whether this number is progress; see rules 2 and 3 of this module."""
    every: dict[str, list[int]] = memory.setdefault("series", {})
    step = candidate.step
    state = every.get(candidate.series)
    if state is None:
        if len(every) < MAX_SERIES:
            every[candidate.series] = [step, -1, 0]  # highest, lower, rises
        return False
    highest, lower, rises = state
    if step > highest:
        every[candidate.series] = [step, -1, rises + 1]
        return rises + 1 >= candidate.rises
    if step == highest:
        return False
    if 0 <= lower < step:
        every[candidate.series] = [step, -1, max(rises, candidate.rises)]
        return True
    state[1] = step
    return False


def _mark(candidate: _Candidate, text: str) -> Mark:
    loss = _LOSS.search(text)
    throughput = _THROUGHPUT.search(text)
    return Mark(
        kind=SignalKind.PROGRESS,
        rule=candidate.rule,
        step=candidate.step,
        loss=finite(loss[1]) if loss else None,
        throughput=finite((throughput[1] or throughput[2]).replace(",", "")) if throughput else None,
        step_time_s=_step_time(text),
    )


def _step_time(text: str) -> float | None:
    if found := _SECONDS.search(text):
        value = finite(found[1])
        return value if value is None or found[2].lower() != "ms" else value / 1000
    if found := _RATE.search(text):
        rate = finite(found[1])
        return 1 / rate if rate else None
    return None
