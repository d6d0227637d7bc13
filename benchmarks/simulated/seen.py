"""What can be seen of a simulated job beside its steps: readings of its GPUs, words of its ranks, faults of its nodes.

Written down before the floors by witness were tuned, after what is public: a GPU that waits in a collective shows full
utilisation and draws a fraction of its power (NVIDIA/nccl#968: about 70 W; nebius/soperator#796); PyTorch's watchdog
reports after 10 minutes or after what the trainer sets (30 is usual), and mostly ends the job, which is a crash then.
That half of all sites measure power is our guess; so are the shares below. Everything that makes GPUs wait in a healthy
job (saves, epochs, storage, evaluations on one rank) makes them wait here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
USUAL_W = 600.0
READ_S = 60.0  # a reading so often
LATELY, STEADY = 3, 10  # readings of which means and extremes are taken (recovery/pipeline/measure_gpus.py)
MEASURED = {"power": 0.5, "utilisation": 0.1, "": 0.4}
HANGS = {"spins": 0.7, "idle": 0.2, "between": 0.07, "works": 0.03}
EVALUATES = {"works": 0.6, "lightly": 0.2, "one rank": 0.2}
WATCHDOG = {600.0: 0.5, 1080.0: 0.2, 1800.0: 0.3}  # seconds after the hang; the middle: a monitor's time-out after that
WAITS = 0.45  # of its usual power a GPU draws at most that only waits
TOLD, FAULTY = 0.25, 0.1  # shares of hangs of which a rank, a node's kernel or Slurm says something
HEALTHY_LINE, HEALTHY_FAULT = 0.02, 0.01  # of all jobs: one such line or fault that ends nothing


class Wait(NamedTuple):
    """A stretch in which the GPUs do something else than to train. `share`: of their usual power."""

    begin: float
    end: float
    what: str  # save, eval, epoch, storage, start, hang
    share: float = 1.0
    utilisation: float = 97.0


TRAINS = Wait(0.0, math.inf, "trains")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    measured: str  # power (and utilisation), utilisation, "": nothing
    waits: tuple[Wait, ...]
    lines: tuple[float, ...]  # moments at which a rank reports that a collective operation timed out
    faults: tuple[float, ...]  # moments at which a node's fault is told


def look(waits: Sequence[Wait], hang_since: float, end: float, random: Random) -> Seen:
    """What can be seen of a job with these stretches; `hang_since` is inf where it never hangs."""
    kind, stretches = _pick(EVALUATES, random), []
    for wait in waits:
        share, utilisation = _draws(wait.what, kind, random)
        stretches.append(wait._replace(share=share, utilisation=utilisation))
    lines = [random.uniform(0, end)] if random.random() < HEALTHY_LINE else []
    faults = [random.uniform(0, end)] if random.random() < HEALTHY_FAULT else []
    measured = _pick(MEASURED, random)
    if hang_since < math.inf:
        share, utilisation = _hangs(_pick(HANGS, random), random)
        stretches.append(Wait(hang_since, math.inf, "hang", share, utilisation))
        if random.random() < TOLD:
            lines.append(hang_since + _pick(WATCHDOG, random) + random.uniform(0, 20))
        if random.random() < FAULTY:
            faults.append(max(hang_since + random.uniform(-60, 120), 0.0))
    return Seen(
        measured=measured, waits=tuple(stretches), lines=tuple(sorted(lines)), faults=tuple(sorted(faults))
    )  # fmt: skip


def readings(seen: Seen, at: float) -> dict[str, Any]:
    """What the product would know of the GPUs at that moment; {} where nobody measures. `newest`: seconds."""
    newest = math.floor(at / READ_S) * READ_S
    if not seen.measured or newest < STEADY * READ_S:
        return {}
    rows = [_during(seen, newest - number * READ_S) for number in range(STEADY)]
    watts = [USUAL_W * row.share for row in rows]
    busy = [row.utilisation for row in rows]
    by_power = seen.measured == "power"
    return {
        "newest": newest, "utilisation": fmean(busy[:LATELY]), "most_utilisation": max(busy),
        "power_w": fmean(watts[:LATELY]) if by_power else None, "most_power_w": max(watts) if by_power else None,
        "usual_power_w": USUAL_W if by_power else None,
    }  # fmt: skip


def is_told(seen: Seen, since: float, within_s: float) -> bool:
    """Whether a witness of a hang since then could be seen so soon, by what is true of it and whatever a rule says."""
    if any(since - 60 <= moment <= since + within_s for moment in (*seen.lines, *seen.faults)):
        return True
    hang = next((wait for wait in seen.waits if wait.what == "hang"), TRAINS)
    return bool(seen.measured) and (hang.utilisation == 0 or (seen.measured == "power" and hang.share <= WAITS))


def _during(seen: Seen, moment: float) -> Wait:
    return next((wait for wait in seen.waits if wait.begin <= moment < wait.end), TRAINS)


def _pick(shares: Mapping[T, float], random: Random) -> T:
    return random.choices(list(shares), list(shares.values()))[0]


def _draws(what: str, evaluates: str, random: Random) -> tuple[float, float]:
    """Share of the usual power, and percent of utilisation, in one stretch of a healthy job."""
    if what != "eval":
        return random.uniform(0.1, WAITS), random.choice((0.0, 100.0))
    if evaluates == "works":
        return random.uniform(0.6, 1.0), 95.0
    if evaluates == "lightly":
        return random.uniform(0.3, 0.6), 80.0
    return random.uniform(0.15, WAITS), 100.0


def _hangs(kind: str, random: Random) -> tuple[float, float]:
    if kind == "idle":
        return random.uniform(0.1, 0.25), 0.0
    least, most = {"spins": (0.15, WAITS), "between": (0.5, 0.8), "works": (0.85, 1.0)}[kind]
    return random.uniform(least, most), 100.0
