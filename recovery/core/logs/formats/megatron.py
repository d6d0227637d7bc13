"""Megatron-LM's log lines.

Source: `megatron/training/training.py` and `checkpointing.py` of NVIDIA/Megatron-LM, releases 2020 to 2026, and the
forks that keep their wording. Older releases print no time stamp, no throughput, and say "saved checkpoint at".
`progress.txt`, which `--log-progress` writes beside the checkpoints, tells of saves as well (`append_to_progress_log`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recovery.core.logs.columns import Columns, InColumns, from_ms, span
from recovery.core.logs.fields import NUMBER
from recovery.core.logs.lines import CleanLine
from recovery.core.logs.marks import Mark, Memory, step_of
from recovery.core.types import SignalKind

_ITERATION = re.compile(r"iteration {1,12}([0-9]{1,10})/ {0,12}[0-9]{1,10} {0,4}\|")  # begins with text: found fast
_NEOX = "samples/sec:"  # in front of GPT-NeoX's lines
_EVALUATING = re.compile(r"(?:^| )Evaluating on [0-9]{1,12} samples$")
_ITS_FIELDS = ("consumed samples:", "elapsed time per iteration")  # NeMo's lines begin alike and lack both
_SAVING = re.compile(r"\bsaving (?:non-persistent )?checkpoint at iteration {1,12}([0-9]{1,10}) to (\S.*)")
_SCHEDULED = re.compile(r"\bscheduled an async checkpoint save at iteration {1,12}([0-9]{1,10}) to (\S.*)")
_SAVED = re.compile(r"\bsuccessfully saved checkpoint (?:from|at) iteration {1,12}([0-9]{1,10}) to (\S.*)")
_IN_PROGRESS_FILE = re.compile(
    r"\bJob ID: \S{0,60} {1,2}# GPUs: [0-9]{1,7} (Saved|Saving async|Saved async) checkpoint Iteration: ([0-9]{1,10})\b"
)
_LOADED = re.compile(r"\bsuccessfully loaded checkpoint from (\S.*)")
_LOADED_STEP = re.compile(r"([0-9]{1,10})\b")
_NO_TRACKER = re.compile(r"\bcould not find the metadata file (\S.*)")
_FRESH = "will not load any checkpoints and will start from random"
_DONE = "[after training is done] datetime:"
_EXIT = re.compile(r"\bexiting program (?:at iteration {1,12}([0-9]{1,10})|after (receiving|[0-9]))")
_IN_FORMAT = re.compile(r" in \S{1,40} format$")
_PLACES = re.compile(r" \[ ?(?:t|gtp|tp|p|pp)\b[^\]]{0,120}\]$")  # [ t 1/2, p 1/1 ]: the writer's place among the ranks

# Fields end with a bar: without it the line is cut off within one. A loss that is NaN leaves its field out.
_ELAPSED = re.compile(rf"elapsed time per iteration \(ms\): {{0,12}}({NUMBER}) {{0,4}}\|")
_THROUGHPUT = re.compile(rf"throughput per GPU[^:|]{{0,40}}: {{0,12}}({NUMBER}) {{0,4}}\|")
_LM_LOSS = re.compile(rf"\| lm loss: {{0,12}}({NUMBER}) {{0,4}}\|")
_ANY_LOSS = re.compile(rf"\| {{1,4}}[^|:]{{0,40}}loss: {{0,12}}({NUMBER}) {{0,4}}\|")
_VALIDATED = re.compile(r"\bvalidation(?:-\S{1,80})? loss at iteration ([0-9]{1,10})\b")  # one for each set


class _Megatron(InColumns):
    name = "megatron"
    advice = "Megatron-LM: set --log-interval; its last rank prints, whose output must be in the log."
    words: tuple[str, ...] = (
        *_ITS_FIELDS, "aving checkpoint at iteration ", "saving non-persistent checkpoint at ", _FRESH, _DONE,
        "scheduled an async checkpoint save at ", "successfully saved checkpoint ", "successfully loaded checkpoint ",
        "could not find the metadata file ", "exiting program ", " loss at iteration ", "Evaluating on ",
        " checkpoint Iteration: ",
    )  # fmt: skip

    def columns(self, text: str) -> Columns | None:
        found = _ITERATION.search(text)
        if found is None or _NEOX in text[: found.start()] or not any(field in text for field in _ITS_FIELDS):
            return None
        return Columns(
            rule="megatron.iteration",
            step=slice(*found.span(1)),
            loss=span((_LM_LOSS if "| lm loss:" in text else _ANY_LOSS).search(text)),
            throughput=span(_THROUGHPUT.search(text)),
            step_time=span(_ELAPSED.search(text)),
            in_seconds=from_ms,
        )

    def progressed(self, memory: Memory, step: int) -> None:
        memory.pop("no_tracker", None)

    def other(self, line: CleanLine, memory: Memory) -> Sequence[Mark]:
        text = line.text
        mark = _save(text) or _load(text, memory) or _evaluation(text) or _end(text)
        return (mark,) if mark else ()


def _save(text: str) -> Mark | None:
    for pattern, kind, rule in (
        (_SAVING, SignalKind.SAVE_STARTED, "megatron.saving"),
        (_SCHEDULED, SignalKind.SAVE_STARTED, "megatron.save_scheduled"),
        (_SAVED, SignalKind.SAVE_DURABLE, "megatron.saved"),
    ):
        if (found := pattern.search(text)) and (step := step_of(found[1])) is not None:
            return Mark(kind=kind, rule=rule, step=step, path=_directory(found[2]), all_ranks=True)
    found = _IN_PROGRESS_FILE.search(text)
    if found is None or (step := step_of(found[2])) is None:
        return None
    kind = SignalKind.SAVE_STARTED if found[1] == "Saving async" else SignalKind.SAVE_DURABLE
    return Mark(kind=kind, rule="megatron.progress_file", step=step, all_ranks=True)


def _directory(text: str) -> str:
    """The directory at the start of what follows "to" or "from", without Megatron's additions."""
    return _PLACES.sub("", _IN_FORMAT.sub("", text.strip())).strip()


def _load(text: str, memory: Memory) -> Mark | None:
    if found := _LOADED.search(text):
        path, _, rest = found[1].rpartition(" at iteration ")
        number = _LOADED_STEP.match(rest.strip())
        step = step_of(number[1]) if number else None
        if step is None:
            return None
        return Mark(kind=SignalKind.LOADED, rule="megatron.loaded", step=step, path=_directory(path), all_ranks=True)
    if found := _NO_TRACKER.search(text):
        memory["no_tracker"] = found[1].strip().rpartition("/")[0][:1000]
    elif _FRESH in text:
        path = str(memory.pop("no_tracker", ""))
        return Mark(kind=SignalKind.FRESH_START, rule="megatron.fresh_start", path=path, all_ranks=True)
    return None


def _evaluation(text: str) -> Mark | None:
    if found := _VALIDATED.search(text):
        return Mark(kind=SignalKind.EVAL_FINISHED, rule="megatron.validated", step=step_of(found[1]), all_ranks=True)
    if _EVALUATING.search(text):
        return Mark(kind=SignalKind.EVAL_STARTED, rule="megatron.evaluating", all_ranks=True)
    return None


def _end(text: str) -> Mark | None:
    """The trainer ends by itself. Which way is in the rule: done, the exit interval or duration, or a signal."""
    if _DONE in text:
        return Mark(kind=SignalKind.FINISHED, rule="megatron.done", all_ranks=True)
    found = _EXIT.search(text)
    if found is None:
        return None
    if found[1] is not None:
        return Mark(kind=SignalKind.FINISHED, rule="megatron.exit_interval", step=step_of(found[1]), all_ranks=True)
    rule = "megatron.exit_signal" if found[2] == "receiving" else "megatron.exit_duration"
    return Mark(kind=SignalKind.FINISHED, rule=rule, all_ranks=True)


FORMAT = _Megatron()
