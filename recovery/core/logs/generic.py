"""Progress in a log whose format nobody told us: a number after *step* that grows.

The word "step" is everywhere, and a wrong step is worse than none: without one the attempt is *blind*, and says so. A
line counts only by its shape and by growth:

1. *Shape.* The keyword (step, iter, iteration, global_step, …) with its number and a second measured field on the line
   (loss, it/s, …); or the keyword and its number alone; or a progress bar that speaks of training, by its name or by
   a loss behind it (`train:  5%|▌ | 50/1000 [03:10<1:00:12, 3.80s/it]`). Not where the words before it speak of
   something else (eval, warm-up, download), not where any word of the line speaks of preparing (install, tokenize,
   benchmark), nor where the total is small: a set-up has steps too.
2. *Growth.* A series is one keyword with one total on one rank of one file. Its numbers must have risen once where loss
   or speed vouch for the line, else twice, and then without a total they must have come to SMALLEST_TOTAL as well. The
   lines until then are held back, and count from that moment on.
3. *A fall* (a launcher that started its workers anew) is believed after two numbers in a row that rise below the
   highest; single stragglers among ranks that share a file don't count.
4. *Epochs.* Where a higher epoch stands on the line and the number began anew, it counts within the epoch: it goes on
   from the highest one before (`ep 27 train, step 0, ce 5.3` after `ep 26 train, step 390`). Steps are then as good as
   the reports are frequent, and progress isn't taken for silence.
5. *Bars come second.* As soon as a keyword counts, bars no longer do.

A bar without a name is believed by nobody here: data sets, shards and evaluations have the same. Where it is Hugging
Face's, that format knows by the lines around it.

The caller asks only while no real format has reported progress in the attempt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

from recovery.core.logs.fields import bar_of
from recovery.core.logs.lines import MAX_STEP
from recovery.core.logs.marks import Memory, finite, step_of
from recovery.core.types import Signal, SignalKind

MAX_SERIES = 32  # that are followed in one attempt; a log with more of them prints no progress that we can tell
SMALLEST_TOTAL = 20
LOOKED_AT = 1000  # characters of a line

_NUMBER = r"[-+]?[0-9]{1,20}(?:\.[0-9]{0,20})?(?:[eE][-+]?[0-9]{1,3})?"
_IS = r"['\"]?(?: ?[:=] {0,6}| {1,6})['\"\[]?"  # between a field's name and its value: "loss: ", "'loss': ", "loss="
_KEYWORD = re.compile(
    r"(?<![A-Za-z0-9_./-])(global[_ ]step|train[_ ]step|steps?|iterations?|iters?|num_updates)"
    r"['\"]?(?: ?[:=#] {0,6}| {1,8}|\[ ?)['\"\[]?([0-9]{1,10})(?![0-9.A-Za-z_%])"
    r"(?: {0,8}(?:/|of) {0,8}([0-9]{1,10})(?![0-9.A-Za-z_]))?",
    re.IGNORECASE,
)
_LOSS = re.compile(rf"(?<![A-Za-z0-9])(?:[a-z]{{1,20}}[_/ ])?loss{_IS}({_NUMBER}|nan|inf)\b", re.IGNORECASE)
_OTHER_FIELD = re.compile(
    r"(?<![A-Za-z0-9])(?:lr|learning[_ ]rate|grad[_ ]?norm|gnorm|acc|accuracy|ppl|perplexity|tflops|mfu|tps|eta|elapsed"
    rf"|step[_ ]time|iter[_ ]time|time){_IS}[0-9]",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"\bep(?:och)?[ :=#\[]{1,3}([0-9]{1,6})\b", re.IGNORECASE)
_RATE = re.compile(r"(?<![0-9.])([0-9]{1,12}(?:\.[0-9]{1,12})?) ?(?:it|steps?|iters?)/s(?:ec)?\b", re.IGNORECASE)
_SECONDS = re.compile(
    r"(?<![0-9.])([0-9]{1,12}(?:\.[0-9]{1,12})?) ?(ms|s|sec)/(?:it|step|iter|iteration)\b", re.IGNORECASE
)
_THROUGHPUT = re.compile(
    r"(?<![0-9.,])([0-9][0-9,]{0,20}(?:\.[0-9]{1,12})?) ?(?:samples|tokens|tok|examples|sequences)/s(?:ec)?\b"
    rf"|(?:samples|tokens)[_ /](?:per[_ ])?sec(?:ond)?{_IS}([0-9][0-9,]{{0,20}}(?:\.[0-9]{{1,12}})?)",
    re.IGNORECASE,
)
_TRAINING_BAR = re.compile(r"(?:train|training|steps?|iterations?|iters?)(?: steps?)?", re.IGNORECASE)
_SOMETHING_ELSE = re.compile(
    r"\b(?:eval|valid|val|test|predict|infer|generat|sampling|warm-?up|decay|download|build|compil|install|load|profil)"
    r"(?!\w{0,12}[_ ]loss)",  # a validation loss may stand beside the training step
    re.IGNORECASE,
)
_PREPARING = re.compile(
    r"\b(?:install|benchmark|tokeni[sz]|pre-?process|download|unpack|extract|convert|dry.run"
    r"|(?:of|in|during) (?:the )?(?:warm-?up|set-?up|data))",
    re.IGNORECASE,
)
COUNTING = ("step", "iter", "num_updates", "%|")  # one of them, in small letters, stands in every line that counts

_WORD = re.compile(r"[A-Za-z]{2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One line that has the shape of progress. `rises`: how often its series must have risen before it counts.

    `epoch`: the one that stands before the number, None where none does.
    """

    rule: str
    series: str
    step: int
    rises: int
    least: int = 0  # a number that the series must have come to as well
    epoch: int | None = None
    loss: float | None = None
    throughput: float | None = None
    step_time_s: float | None = None


def may_count(text: str) -> bool:
    """Whether `text` holds what every candidate has. Depends on its shape alone: digits may be exchanged for others."""
    text = text.lower()
    if "step" in text or "iter" in text or "num_updates" in text:
        return True
    return "%|" in text and ("train" in text or "loss" in text)  # the bar's name, or behind it


def read(text: str) -> Candidate | None:
    """What `text` says by its shape alone (rule 1 of this module)."""
    text = text[:LOOKED_AT]
    candidate = _bar(text) or _keyword(text)
    if candidate is None:
        return None
    loss, throughput = _LOSS.search(text), _THROUGHPUT.search(text)
    step_time_s = _step_time(text)
    vouched = loss or throughput or step_time_s
    if candidate.rises == 0:  # a keyword among other words: without a second field it is prose
        if not vouched and not _OTHER_FIELD.search(text):
            return None
        candidate = replace(candidate, rises=1 if vouched else 2)
    if candidate.rises > 1 and candidate.series.endswith("/"):  # neither loss nor speed nor a total
        candidate = replace(candidate, least=SMALLEST_TOTAL)
    return replace(
        candidate,
        loss=finite(loss[1]) if loss else None,
        throughput=finite((throughput[1] or throughput[2]).replace(",", "")) if throughput else None,
        step_time_s=step_time_s,
    )


def _bar(text: str) -> Candidate | None:
    bar = bar_of(text)
    if (
        bar is None
        or bar.step == 0
        or not (_TRAINING_BAR.fullmatch(bar.what) or (not bar.what and _LOSS.search(bar.rest)))
    ):
        return None
    return _candidate("generic.bar", "bar", str(bar.step), str(bar.total), rises=2)


def _keyword(text: str) -> Candidate | None:
    found = _KEYWORD.search(text)
    if found is None or _SOMETHING_ELSE.search(text, 0, found.start()) or _PREPARING.search(text):
        return None
    alone = not _WORD.search(text, 0, found.start()) and not _WORD.search(text, found.end())
    word = found[1].lower().replace(" ", "_")
    candidate = _candidate("generic.step", word, found[2], found[3], rises=2 if alone else 0)
    epoch = _EPOCH.search(text, 0, found.start())
    return candidate if candidate is None or epoch is None else replace(candidate, epoch=int(epoch[1]))


def _candidate(rule: str, word: str, digits: str, total: str | None, *, rises: int) -> Candidate | None:
    step = step_of(digits)
    if step is None or (total is not None and not max(step, SMALLEST_TOTAL) <= int(total)):
        return None
    return Candidate(rule=rule, series=f"{word}/{total or ''}", step=step, rises=rises)


def _step_time(text: str) -> float | None:
    if found := _SECONDS.search(text):
        value = finite(found[1])
        return value if value is None or found[2].lower() != "ms" else value / 1000
    if found := _RATE.search(text):
        rate = finite(found[1])
        return 1 / rate if rate else None
    return None


class Growth:
    """Rules 2 to 5: which candidates count.

    `memory` holds, by series: the highest number, a lower one that may begin a fall (-1: none), the rises so far, the
    lines held back, and where it counts within epochs the last of these and what the ones before it came to.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def admit(self, candidate: Candidate, signal: Signal) -> list[Signal]:
        """The progress that `candidate` proves: nothing, its own `signal`, or that and those held back before it."""
        if candidate.rule == "generic.bar" and self._memory.get("keyword"):
            return []
        series = self._series(f"{candidate.series}@{signal.rank}@{signal.file}", candidate.step)
        if series is None:
            return []
        candidate = _in_epochs(series, candidate)
        signal = signal._replace(step=candidate.step)
        if not _rises(series, candidate):
            if series["rises"] < candidate.rises or candidate.step < candidate.least:
                _hold(series["held"], signal)
            return []
        held = [_unpacked(each, signal) for each in series["held"]]
        series["held"] = []
        if candidate.rule == "generic.step":
            self._memory["keyword"] = True
        return [*held, signal]

    def _series(self, name: str, step: int) -> Memory | None:
        every: dict[str, Memory] = self._memory.setdefault("series", {})
        if name not in every and len(every) < MAX_SERIES:
            every[name] = {"top": step - 1, "low": -1, "rises": -1, "held": []}
        return every.get(name)


def _in_epochs(series: Memory, candidate: Candidate) -> Candidate:
    """The candidate with the number that it has over all epochs."""
    if candidate.epoch is None:
        return candidate
    before = series.get("base", 0)
    if candidate.epoch > series.get("epoch", candidate.epoch) and before + candidate.step <= series["top"]:
        series["base"] = series["top"] + (1 if candidate.step == 0 else 0)
    series["epoch"] = max(candidate.epoch, series.get("epoch", 0))
    return replace(candidate, step=min(series.get("base", 0) + candidate.step, MAX_STEP))


def _rises(series: Memory, candidate: Candidate) -> bool:
    step = candidate.step
    if step > series["top"]:
        series.update(top=step, low=-1, rises=series["rises"] + 1)
        return bool(series["rises"] >= candidate.rises and step >= candidate.least)
    if step == series["top"]:
        return False
    if 0 <= series["low"] < step:
        series.update(top=step, low=-1, rises=max(series["rises"], candidate.rises))
        return step >= candidate.least
    series["low"] = step
    return False


def _hold(held: list[Memory], signal: Signal) -> None:
    """Keep a line that is not proved yet; at most two, as two rises prove a series."""
    step = signal.step or 0
    if not held or (len(held) < 2 and held[-1]["step"] < step):
        held.append(_packed(signal))


def _packed(signal: Signal) -> Memory:
    fields = signal._asdict()
    del fields["kind"], fields["file"]  # always progress, and the file is that of the series
    fields["at"] = signal.at.isoformat() if signal.at else None
    return fields


def _unpacked(fields: Memory, like: Signal) -> Signal:
    at = fields["at"]
    return Signal(
        kind=SignalKind.PROGRESS, file=like.file, **{**fields, "at": datetime.fromisoformat(at) if at else None}
    )
