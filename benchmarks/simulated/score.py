"""What the detectors found, against what was true: detection and delay by fault, false alarms per 1000 job-days."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from benchmarks.simulated.bounds import at_most, share_at_least
from benchmarks.simulated.life import Life, live
from benchmarks.simulated.play import LOOK_S, Found, HangsOnly, Player, play
from benchmarks.simulated.profiles import DAY, draw
from benchmarks.simulated.seen import is_told
from recovery.core.detectors import AlarmKind, Limits
from recovery.core.types import FindingKind, SignalKind

# Those of recovery/settings.py.
DEFAULTS = Limits(hang_floor_s=2700.0, first_step_s=3600.0, saving_s=1800.0, hang_witnessed_s=1200.0)
DUE_S = 1800.0  # the ruler of what was due, whatever the floors: it does not grow with them
CRASHES = ("crash", "hidden_crash", "cancelled")
HANGS = ("hang", "hang_saving", "hang_first_step", "hang_evaluating", "hang_resumed")
# What is right to find where this fault is; where there are two, either will do.
WANTED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(HANGS, (FindingKind.HANG.value,)),
    **dict.fromkeys(CRASHES, (FindingKind.CRASH.value,)),
    "slowdown": (FindingKind.SLOWDOWN.value,),
    "straggler": (AlarmKind.STRAGGLER.value, FindingKind.SLOWDOWN.value),
    **dict.fromkeys(("nan", "diverged", "loss_vanished"), (AlarmKind.NUMERICS.value,)),
    "saves_failing": (AlarmKind.UNSAVED.value,),
    "not_restored": (AlarmKind.NOT_RESTORED.value,),
    "stalled_together": (AlarmKind.SHARED_STALL.value,),
}
# What follows from a fault and is no false alarm beside it: nobody saves while it hangs, a slow job saves late, too.
ALSO: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(HANGS, (FindingKind.CRASH.value, AlarmKind.UNSAVED.value)),
    "slowdown": (AlarmKind.UNSAVED.value,), "straggler": (AlarmKind.UNSAVED.value,),
    "not_restored": (AlarmKind.UNSAVED.value,),
}  # fmt: skip
WITNESSED, ALONE = "hang that something else told of", "hang that nothing else told of"  # in training
ADVICE = (FindingKind.SLOWDOWN.value, AlarmKind.STRAGGLER.value)  # told apart: they ask nobody to do anything


@dataclass(slots=True)
class Tally:
    """Counts over many lives."""

    days: float = 0.0
    jobs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    within: Counter[str] = field(default_factory=Counter)  # hangs found within three times what was due
    delays: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    false: Counter[str] = field(default_factory=Counter)  # by kind of finding
    examples: list[str] = field(default_factory=list)  # false alarms by name, advice left out

    def add(self, number: int, life: Life, found: Sequence[Found], limits: Limits) -> None:
        truth = life.truth
        self.days += life.end / DAY
        self.jobs += 1
        if truth.fault:
            self.faults[truth.fault] += 1
        told = False
        for each in found:
            after = each.at >= truth.since
            if truth.fault and after and each.kind in WANTED[truth.fault]:
                if not told:
                    self._hit(life, each, limits)
                told = True
            elif not (after and each.kind in ALSO.get(truth.fault, ())):
                self.false[each.kind] += 1
                if each.kind in ADVICE:
                    continue
                self.examples.append(f"job {number} ({truth.fault or 'healthy'}): {each.kind} at {each.at:.0f} s")

    def _hit(self, life: Life, each: Found, limits: Limits) -> None:
        truth = life.truth
        delay = each.at - truth.since
        self.found[truth.fault] += 1
        self.delays[truth.fault].append(delay)
        if truth.fault == "hang":
            told = is_told(life.seen, truth.since, limits.hang_floor_s)
            self.delays[WITNESSED if told else ALONE].append(delay)
        if truth.fault in HANGS and delay <= 3 * due_of(life, limits):
            self.within[truth.fault] += 1

    def merge(self, other: Tally) -> None:
        self.days += other.days
        self.jobs += other.jobs
        for mine, theirs in ((self.faults, other.faults), (self.found, other.found), (self.false, other.false)):
            mine.update(theirs)
        self.within.update(other.within)
        for fault, delays in other.delays.items():
            self.delays[fault] += delays
        self.examples += other.examples


def due_of(life: Life, limits: Limits) -> float:
    """When progress was due in this job by what is true of it: its own longest ordinary silence, and never sooner than
    half an hour; in a start or a named pause not sooner than the site's limit for that."""
    named = {
        "hang_first_step": limits.first_step_s, "hang_resumed": limits.first_step_s, "hang_saving": limits.saving_s,
        "hang_evaluating": limits.saving_s,
    }  # fmt: skip
    return max(life.truth.due_s, named.get(life.truth.fault, DUE_S))


@dataclass(frozen=True, kw_only=True, slots=True)
class Play:
    """Which jobs of the fleet are played, and how. `only`: those with one of these faults, "" for healthy ones."""

    seed: int
    only: tuple[str, ...] = ()
    player: type[Player] = Player


def simulate(how: Play, numbers: Iterable[int], every: Sequence[Limits] = (DEFAULTS,)) -> list[Tally]:
    """Play these jobs, each once for every one of the thresholds; a tally for each."""
    tallies = [Tally() for _ in every]
    for number in numbers:
        random = Random(f"{how.seed}-{number}")  # noqa: S311 - chance, no secret
        profile = draw(random)
        if how.only and profile.fault not in how.only:
            continue
        life = live(profile, random)
        if how.player is HangsOnly and _is_never_silent(life, every):
            for tally, limits in zip(tallies, every, strict=True):
                tally.add(number, life, [], limits)
            continue
        for tally, limits in zip(tallies, every, strict=True):
            tally.add(number, life, play(life, limits, how.player), limits)
    return tallies


def _is_never_silent(life: Life, every: Sequence[Limits]) -> bool:
    """Whether no hang can be found in it by any of these: it has none, and each of its silences is shorter than all."""
    if life.truth.fault in HANGS:
        return False
    reports = [0.0, *sorted(event.read for event in life.events if event.kind is SignalKind.PROGRESS), life.end]
    least = min(min(limits.witnessed_floor_s, limits.first_step_s) for limits in every)
    return max(b - a for a, b in pairwise(reports)) + LOOK_S < least


def fleet(how: Play, count: int, every: Sequence[Limits] = (DEFAULTS,), *, workers: int = 2) -> list[Tally]:
    """The same on several processes."""
    parts = [range(start, count, 4 * workers) for start in range(4 * workers)]
    tallies = [Tally() for _ in every]
    with ProcessPoolExecutor(workers) as pool:
        for done in [pool.submit(simulate, how, part, every) for part in parts]:
            for tally, more in zip(tallies, done.result(), strict=True):
                tally.merge(more)
    return tallies


def figures(tally: Tally) -> dict[str, Any]:
    """What `python -m benchmarks detection` prints; `at_most` and `at_least` are bounds of 95 % (bounds.py)."""
    thousand = tally.days / 1000
    alarms = sum(count for kind, count in tally.false.items() if kind not in ADVICE)
    hangs, crashes = (sum(tally.faults[fault] for fault in faults) for faults in (HANGS, CRASHES))
    within, missed = sum(tally.within.values()), crashes - sum(tally.found[fault] for fault in CRASHES)
    return {
        "job_days": round(tally.days), "jobs": tally.jobs,
        "crashes": crashes, "missed_crashes": missed,
        "missed_crashes_at_most": round(1 - share_at_least(crashes - missed, crashes), 4),
        "hangs": hangs, "hangs_found": sum(tally.found[fault] for fault in HANGS),
        "hangs_found_within_3_due": round(within / hangs, 4) if hangs else None,
        "hangs_found_within_3_due_at_least": round(share_at_least(within, hangs), 4),
        "false_alarms": alarms,
        "false_alarms_per_1000_job_days": round(alarms / thousand, 2),
        "false_alarms_per_1000_job_days_at_most": round(at_most(alarms, thousand), 2),
        "false_advice_per_1000_job_days": round((sum(tally.false.values()) - alarms) / thousand, 2),
        "false_by_kind": dict(sorted(tally.false.items())),
        "false": tally.examples,
        "by_fault": {fault: _of_fault(tally, fault) for fault in sorted(tally.faults)},
        "hangs_in_training": {
            kind: {"found": len(tally.delays[kind]), **_delays(tally.delays[kind])} for kind in (WITNESSED, ALONE)
        },
    }  # fmt: skip


def _of_fault(tally: Tally, fault: str) -> dict[str, Any]:
    told = {"jobs": tally.faults[fault], "found": round(tally.found[fault] / tally.faults[fault], 4)}
    return {**told, **_delays(tally.delays[fault])}


def _delays(each: Sequence[float]) -> dict[str, Any]:
    delays = sorted(each)
    if not delays:
        return {}
    return {
        "delay_median_s": round(delays[len(delays) // 2]), "delay_p95_s": round(delays[int(0.95 * len(delays))])
    }  # fmt: skip
