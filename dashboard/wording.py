"""How quantities read: durations, steps, GPU-hours, sizes, and what is not known. Pages and chart labels share it.

static/js/ages.js says durations in the same words in the browser; a browser test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recovery.core import speech
from recovery.core.types import ActionKind

THIN = "\u202f"  # narrow no-break space: groups digits
JOIN = "\u00a0"  # no-break space: a duration never breaks, and a search in the page finds it


def duration(seconds: float | None) -> str:
    """Whole seconds, two units at most: "4 s", "2 m 10 s", "3 h"; "unknown" for None. A negative one counts as zero."""
    if seconds is None:
        return "unknown"
    return speech.duration(float(max(0, round(seconds)))).replace(" ", JOIN)


def steps(number: int | None) -> str:
    """A step or a count with its digits in groups of three: 12 480."""
    return speech.steps(number)


def plural(number: int, one: str, many: str = "") -> str:
    """ "1 step", "12 480 steps"."""
    return f"{steps(number)} {one if number == 1 else many or one + 's'}"


def gpu_hours(hours: float | None) -> str:
    """One decimal: "12.4 GPU-hours", "below 0.1 GPU-hours"."""
    return "unknown" if hours is None else f"{speech.tenths(hours)} GPU-hours"


def cost_of_waiting(idle: int, *, counts_gpus: bool) -> str:
    """What each minute without a decision costs. A cluster that counts no GPUs is told in nodes."""
    if idle <= 0:
        return "No GPU stands idle for it." if counts_gpus else "No node stands idle for it."
    noun, unit = ("GPU", "GPU-hours") if counts_gpus else ("node", "node-hours")
    return f"{plural(idle, noun)} idle: {speech.tenths(idle / 60)} {unit} a minute."


def size(number: int | None) -> str:
    """Bytes in decimal units, one decimal from kB on."""
    if number is None:
        return "unknown"
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")


def names(items: Sequence[str], *, most: int = 4) -> str:
    """ "gpu-17", "gpu-03 and gpu-04", "gpu-01, gpu-02, gpu-03, gpu-04 and 12 more"."""
    if len(items) <= 1:
        return "".join(items)
    if len(items) <= most:
        return f"{', '.join(items[:-1])} and {items[-1]}"
    return f"{', '.join(items[:most])} and {len(items) - most} more"


def action(kind: str, nodes: Sequence[str] = (), parameters: Mapping[str, Any] | None = None) -> str:
    """What a button does, as the object of "Approve: …"."""
    given, without = parameters or {}, f" without {names(nodes)}" if nodes else ""
    node = given.get("node", "a node")
    said = {
        ActionKind.REQUEUE: "requeue",
        ActionKind.REQUEUE_EXCLUDING: f"requeue{without}",
        ActionKind.RELEASE: "release the job",
        ActionKind.HOLD: "hold the job",
        ActionKind.CANCEL: "cancel the job for good",
        ActionKind.RESUBMIT: f"cancel and resubmit{without}",
        ActionKind.EXTEND_TIME_LIMIT: f"set the time limit to {duration(given.get('seconds'))}",
        ActionKind.DRAIN: f"drain {node}",
        ActionKind.RESUME: f"resume {node}",
        ActionKind.RESTORE_OLDER: f"restore checkpoint {steps(given.get('step'))}",
        ActionKind.NOTHING: "do nothing",
    }
    return said[ActionKind(kind)]


def confidence(value: float | None) -> str:
    """A probability in percent. Never 100 %: a verdict is a conclusion."""
    if value is None:
        return "unknown"
    return f"{min(99, round(value * 100))} %"
