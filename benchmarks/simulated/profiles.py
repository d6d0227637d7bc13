"""What kind of run is simulated: its rhythm, its noise, its pauses, how its log is written, and what will go wrong.

The distributions are ours, drawn after what operators of large clusters publish and what docs/trainers.md knows of the
trainers; they were written down before the thresholds were tuned. Seconds, unless said otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

HOUR = 3600.0
DAY = 24 * HOUR
FLUSHED_S = 1200.0  # a buffered log is flushed so often at least; one that is later can't be watched by anybody

# What goes wrong, and in how many of 1000 jobs. Far more than in life, so that there is enough of each.
FAULTS = {
    "hang": 140, "hang_saving": 15, "hang_first_step": 15, "hang_evaluating": 10, "hang_resumed": 20, "crash": 100,
    "hidden_crash": 10, "cancelled": 20, "slowdown": 40, "straggler": 20, "nan": 20, "diverged": 20,
    "loss_vanished": 10, "saves_failing": 25, "not_restored": 25, "stalled_together": 40,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """One job's nature. `interval_s`: between two reports; `stride`: steps between them."""

    hours: float
    interval_s: float
    stride: int
    sigma: float  # of the lognormal noise of an interval
    tail: float  # share of reports that stall: heavy tail (Pareto, exponent 1.6)
    prints: str  # what the trainer prints of its pace: throughput, step_time, none
    start_up_s: float  # to the first report, compilation included
    warm_up: int  # first reports that take up to four times as long
    save_every_s: float
    save_s: float  # median of a save
    save_sigma: float
    saves: str  # announced, silent, async
    eval_every_s: float  # inf: it never evaluates
    eval_s: float
    evals: str  # announced, silent
    epoch_every_s: float  # a data loader begins anew, with a pause
    epoch_s: float
    curriculum: tuple[float, ...]  # moments at which steps become longer on purpose
    log: str  # line: each line is read soon after; shipped: up to a minute later; buffered: many lines at once
    buffer: int  # reports in one flush
    clock_off_s: float  # of the node that writes the log
    clock_jumps: tuple[tuple[float, float], ...]  # when, and by how much from then on
    launcher_restarts: tuple[float, ...]  # the launcher restarts its workers within the attempt, from the last save
    resumed_from: int  # step; 0: starts from scratch
    fast_forward_s: float  # a resumed data loader skips what was seen, before the first step
    ranks: int  # that report each for themselves; 1: one for all
    loss: bool
    fp16: bool  # a loss scale is being found: single steps are not numbers
    gpus: int
    saves_seen: bool  # the files of a save are seen to change while it is written
    counts_tokens: bool  # it prints how many it has trained on
    fault: str  # "" or a key of FAULTS
    fault_at: float  # seconds after the start of the job
    fault_size: float  # how slow, how long; by fault


def draw(random: Random) -> Profile:
    """One job of the fleet."""
    hours = _log_uniform(random, 3, 72)
    interval = _log_uniform(random, 30, 300)
    slow_storage = random.random() < 0.15
    log = _choice(random, line=0.87, shipped=0.09, buffered=0.04)
    fault = _fault(random)
    long = hours * HOUR
    resumed = fault in ("hang_resumed", "not_restored") or random.random() < 0.4
    return Profile(
        hours=hours, interval_s=interval, stride=random.choice((1, 5, 10, 10, 50)),
        sigma=random.uniform(0.01, 0.15), tail=random.choice((0.0, 0.001, 0.005, 0.01)),
        prints=_choice(random, throughput=0.45, step_time=0.3, none=0.25),
        start_up_s=min(_lognormal(random, 180, 0.8) * (2.5 if slow_storage else 1), 2 * HOUR),
        warm_up=random.randrange(6),
        save_every_s=_log_uniform(random, 900, 3 * HOUR),
        save_s=random.uniform(90, 300) if slow_storage else random.uniform(5, 60),
        save_sigma=0.6 if slow_storage else 0.4,
        saves=_choice(random, announced=0.55, silent=0.2, **{"async": 0.25}),
        eval_every_s=_log_uniform(random, HOUR, 6 * HOUR) if random.random() < 0.5 else math.inf,
        eval_s=_lognormal(random, 150, 0.8),
        evals=_choice(random, announced=0.75, silent=0.25),
        epoch_every_s=_log_uniform(random, 2 * HOUR, 12 * HOUR),
        epoch_s=min(_lognormal(random, 60, 0.8), 1200),
        curriculum=(random.uniform(0.1, 0.9) * long,) if random.random() < 0.04 else (),
        log=log, buffer=max(min(random.randint(3, 30), int(FLUSHED_S / interval)), 2) if log == "buffered" else 1,
        clock_off_s=random.gauss(0, 2) if random.random() < 0.9 else random.uniform(-240, 240),
        clock_jumps=_jumps(random, long),
        launcher_restarts=(random.uniform(0.2, 0.9) * long,) if random.random() < 0.03 else (),
        resumed_from=random.randrange(1000, 200_000) if resumed else 0,
        fast_forward_s=_lognormal(random, 120, 1.0) if resumed and random.random() < 0.3 else 0,
        ranks=random.choice((4, 8)) if fault == "straggler" or random.random() < 0.03 else 1,
        loss=random.random() < 0.95, fp16=random.random() < 0.1, gpus=random.choice((8, 16, 64, 256, 1024)),
        fault=fault, fault_at=_fault_at(random, fault, long), fault_size=random.random(),
        saves_seen=random.random() < 0.8, counts_tokens=random.random() < 0.4,
    )  # fmt: skip


def _fault(random: Random) -> str:
    place = random.randrange(1000)
    for name, share in FAULTS.items():
        if place < share:
            return name
        place -= share
    return ""


def _jumps(random: Random, long: float) -> tuple[tuple[float, float], ...]:
    return ((random.uniform(0, long), random.choice((-3600, -90, 60, 3600))),) if random.random() < 0.02 else ()


def _fault_at(random: Random, fault: str, long: float) -> float:
    return 0.0 if fault in ("hang_first_step", "hang_resumed", "not_restored") else random.uniform(0.15, 0.9) * long


def _log_uniform(random: Random, least: float, most: float) -> float:
    return math.exp(random.uniform(math.log(least), math.log(most)))


def _lognormal(random: Random, median: float, sigma: float) -> float:
    return random.lognormvariate(math.log(median), sigma)


def _choice(random: Random, **shares: float) -> str:
    return random.choices(list(shares), list(shares.values()))[0]
