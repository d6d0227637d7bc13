"""Plays one life through the detectors as the product would: read, judge when it must be judged, note what is found.

When a judgement must be made is asked of recovery.core.quiet, as the product does; so whatever that would miss is
missed here, too.
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.simulated.life import Event, Life
from benchmarks.simulated.seen import readings
from recovery.core.detectors import AlarmLimits, Limits, Surroundings, alarms, detect
from recovery.core.detectors.hang import (
    detect_hang,
    earliest_hang,
    is_silent,
    next_due,
    remember_wait,
    waits_for_a_start,
)
from recovery.core.detectors.slowdown import pace_is_back
from recovery.core.phases import next_phase
from recovery.core.quiet import ANY, Pace, after, how_long, overdue_from
from recovery.core.types import (
    AttemptFacts,
    FindingKind,
    GpuFacts,
    JobState,
    NodeEvent,
    NodeState,
    Phase,
    Sample,
    Signal,
    SignalKind,
)
from recovery.core.verify.restore import Source, Told

START = datetime(2026, 1, 11, tzinfo=UTC)
LOOK_S = 10.0  # the product looks at a running job so often
NEWEST, FIRST = 250, 150  # samples that a detector sees, as recovery/pipeline/facts.py hands them over
STANDING_S, STANDING_REPORTS = 600.0, 20  # a slowdown that stands is looked at again so often
RHYTHM = 2  # gaps between checkpoints that are a rhythm, as recovery/pipeline/surroundings.py has it
ALARMS_S = 600.0  # alarms are looked for so often
SIGNALS = {kind: Signal(kind=kind, file="", line=0, offset=0, text="", rule="") for kind in SignalKind}
TIMED_OUT = SIGNALS[SignalKind.FAILURE]._replace(rule="nccl.collective_timeout")
FAULT = NodeEvent(at=START, node="gpu-01", text="Not responding", state=NodeState.DOWN)
ALARM_LIMITS = AlarmLimits()


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """One thing that was found, at its first moment."""

    kind: str
    at: float


class Player:
    """One attempt as the product knows it at one moment. It is looked at when it could look different."""

    def __init__(self, life: Life, limits: Limits) -> None:
        self.life, self.limits = life, limits
        self.phase, self.phase_since = Phase.STARTING, 0.0
        self.progress_at: float | None = None
        self.reached = -1
        self.samples: list[Sample] = []  # by step, as the product's table has them
        self.found: list[Found] = []
        self.standing = ""  # kind of the finding that holds now
        self.slow_since: datetime | None = None
        self.pace: Pace | None = None
        self.until = 0.0  # so long the last judgement holds
        self.asks_at = math.inf  # when alarms are looked for next: without news they are what they were
        self.told: frozenset[str] = frozenset()  # kinds of alarms that hold
        self.ranks: list[Sample] = []
        self.loaded: list[Told] = []
        self.first_step: int | None = None
        self.longest_wait = life.earlier_wait

    def play(self) -> list[Found]:
        for event in self.life.events:
            seen = math.ceil(event.read / LOOK_S) * LOOK_S
            if seen >= self.life.end:
                break
            self._look_until(seen)
            self._take(event, seen)
        self._look_until(self.life.end)
        self._end()
        return self.found

    def _look_until(self, moment: float) -> None:
        """All looks that are due before `moment`; each judges first, and then looks for alarms."""
        while self.until < moment or self.asks_at < moment:
            at = min(_look_after(self.until), self.asks_at)
            if at >= moment:
                return
            if at > self.until:
                self._judge_if_it_must_be(at)
            if at == self.asks_at:
                self._alarms(at)

    def _judge_if_it_must_be(self, at: float) -> None:
        """The reports since the last judgement allow no slowdown, and for a hang it may be too early yet."""
        if self.pace is not None and not self.standing:
            earliest = _seconds(earliest_hang(self.facts(at, brief=True), self.limits))
            if at <= earliest:
                self.until = earliest
                return
        self._judge(at)

    def _judge(self, at: float) -> None:
        """As recovery/pipeline/judge.py does."""
        facts = self.full_facts(at)
        if facts.stalled_with:
            self._alarms(at)  # people are told at once
        found = detect(facts, self.limits)
        kinds = [finding.kind for finding in found]
        for kind in kinds:
            if kind != self.standing:
                self.found.append(Found(kind=kind.value, at=at))
                self.slow_since = facts.now
        self.standing = kinds[0] if kinds else self._still(facts)
        self.until, self.pace = self._holds(facts, kinds, at)

    def _holds(self, facts: AttemptFacts, kinds: list[FindingKind], at: float) -> tuple[float, Pace | None]:
        if kinds == [FindingKind.HANG]:
            return math.inf, None  # silence only grows
        quiet = how_long(facts, self.limits, trains=True)
        told = [_at(moment) for moment in (*self.life.seen.lines, *self.life.seen.faults) if moment > at]
        quiet = replace(quiet, until=min([quiet.until, *told]))  # a line that is read is judged at once
        if not self.standing or not facts.samples:
            return _seconds(quiet.until), quiet.pace
        last = facts.samples[-1]
        pace = Pace(measure="any", rank=last.rank, step=last.step, at=last.at, below=ANY, slow=0, left=STANDING_REPORTS)
        return min(_seconds(quiet.until), at + STANDING_S), pace

    def _alarms(self, at: float) -> None:
        """As recovery/pipeline/alarms.py looks for them."""
        self.asks_at = math.inf
        facts = self.full_facts(at)
        kinds = frozenset(alarm.kind.value for alarm in alarms(facts, self._around(at), ALARM_LIMITS))
        self.found += [Found(kind=kind, at=at) for kind in sorted(kinds - self.told)]
        self.told = kinds

    def _around(self, at: float) -> Surroundings:
        life = self.life
        saves = [(moment, step) for moment, step in life.saves if moment <= at][-20:]
        gaps = [b[0] - a[0] for a, b in pairwise(saves)]
        told = (*self.loaded, *self._first())
        resumed = life.profile.resumed_from
        return Surroundings(
            gpus=life.profile.gpus, saves_to="/ckpt/run", expected_step=resumed or None, told=told,
            saved_at=_at(saves[-1][0]) if saves else _at(-600) if resumed else None,
            saved_step=saves[-1][1] if saves else resumed or None,
            save_every_s=median(gaps) if len(gaps) >= RHYTHM else life.profile.save_every_s if resumed else None,
            log_interval=life.profile.stride, ranks=tuple(self.ranks[-100:]),
        )  # fmt: skip

    def _first(self) -> list[Told]:
        return [] if self.first_step is None else [Told(source=Source.FIRST_STEP, step=self.first_step)]

    def _still(self, facts: AttemptFacts) -> str:
        """A slowdown stands until a whole row of reports is quick again."""
        slow = self.standing == FindingKind.SLOWDOWN and self.slow_since is not None
        back = slow and self.slow_since is not None and pace_is_back(facts, self.limits, found_at=self.slow_since)
        return FindingKind.SLOWDOWN if slow and not back else ""

    def _take(self, event: Event, seen: float) -> None:
        if self.asks_at == math.inf:
            self.asks_at = math.ceil(seen / ALARMS_S) * ALARMS_S
        following = next_phase(self.phase, SIGNALS[event.kind])
        if following is not self.phase:
            self.phase, self.phase_since = following, min(event.written, seen)
        if event.kind is SignalKind.PROGRESS:
            self._progress(event, seen)
        elif event.kind in (SignalKind.LOADED, SignalKind.FRESH_START):
            self.reached = event.step
            source = Source.LOAD if event.kind is SignalKind.LOADED else Source.FRESH
            self.loaded, self.first_step = [Told(source=source, step=event.step)], None
            self._must_be_judged(seen)
        elif self.standing == FindingKind.HANG:
            self._must_be_judged(seen)
        else:
            earliest = earliest_hang(self.facts(seen, brief=True), self.limits)
            self.until = min(self.until, _seconds(earliest))

    def _progress(self, event: Event, seen: float) -> None:
        sample = Sample(
            at=_at(min(event.written, seen)), step=event.step,
            loss=event.loss if event.loss is not None and math.isfinite(event.loss) else None,
            throughput=event.throughput, step_time_s=event.step_time, rank=event.rank,
            tokens=event.tokens,
        )  # fmt: skip
        if event.step > self.reached:
            self._came_back(seen)
            self.reached, self.progress_at = event.step, seen
            if self.standing == FindingKind.HANG:
                self.standing = ""
        if self.first_step is None:
            self.first_step = event.step
        if event.rank >= 0:
            self.ranks.append(sample)
        if event.rank > 0:
            return
        if self.samples and sample.step <= self.samples[-1].step:
            insort(self.samples, sample, key=_by_step)
        else:
            self.samples.append(sample)
        self.pace = after(self.pace, [sample], self.limits) if self.pace is not None else None
        if self.pace is None:
            self._must_be_judged(seen)

    def _must_be_judged(self, seen: float) -> None:
        self.until, self.pace = seen - LOOK_S, None

    def _came_back(self, seen: float) -> None:
        if self.progress_at is not None:
            waited = seen - LOOK_S - self.progress_at
            self.longest_wait = remember_wait(self.longest_wait, waited, seen - self.progress_at)

    def facts(self, at: float, *, brief: bool = False) -> AttemptFacts:
        now = _at(at)
        return AttemptFacts(
            now=now, seen_at=now, state=JobState.RUNNING, started_at=START, phase=self.phase,
            phase_since=_at(self.phase_since),
            last_progress_at=None if self.progress_at is None else _at(self.progress_at),
            last_step=self.reached if self.reached >= 0 else None, samples=() if brief else self._seen(),
            longest_wait_s=self.longest_wait,
        )  # fmt: skip

    def full_facts(self, at: float) -> AttemptFacts:
        """As recovery/pipeline/silence.py has them."""
        facts = self.facts(at)
        return replace(facts, **self._asked(facts, at)) if is_silent(facts, self.limits) else facts

    def _asked(self, facts: AttemptFacts, at: float) -> dict[str, Any]:
        """What else tells of its silence. A checkpoint that is being written is looked at once a minute; one that is
        complete is none any more."""
        written = next((done for begun, done in reversed(self.life.written) if begun <= at), -1.0)
        return {
            "longest_start_s": self.life.earlier_start if waits_for_a_start(facts) else 0.0,
            "written_at": _at(math.floor(at / 60) * 60) if written > at else None,
            "stalled_with": self._beside(at), **self._witnesses(at),
        }  # fmt: skip

    def _witnesses(self, at: float) -> dict[str, Any]:
        seen, gpu = self.life.seen, readings(self.life.seen, at)
        newest = gpu.pop("newest", None)
        return {
            "signals": tuple(TIMED_OUT._replace(at=_at(moment)) for moment in seen.lines if moment <= at),
            "node_events": tuple(replace(FAULT, at=_at(moment)) for moment in seen.faults if moment <= at),
            "gpu": GpuFacts(at=_at(newest), nodes=2, **gpu) if newest is not None else None,
        }  # fmt: skip

    def _beside(self, at: float) -> int:
        truth = self.life.truth
        return 4 if truth.fault == "stalled_together" and truth.since <= at <= truth.until + LOOK_S else 0

    def _seen(self) -> tuple[Sample, ...]:
        every = self.samples
        newest = every[-NEWEST:]
        return (*every[: min(FIRST, len(every) - len(newest))], *newest)

    def _end(self) -> None:
        life = self.life
        ended = START + timedelta(seconds=life.end)
        seen = ended + timedelta(seconds=LOOK_S)
        signals = tuple(SIGNALS[event.kind] for event in life.events[-1:] if event.kind is SignalKind.FINISHED)
        facts = replace(
            self.facts(life.end + LOOK_S), state=life.state, ended_at=ended, seen_at=seen, exit_code=life.exit_code,
            step_exit_codes=life.step_exit_codes, signals=signals,
        )  # fmt: skip
        for finding in detect(facts, self.limits):
            self.found.append(Found(kind=finding.kind.value, at=life.end + LOOK_S))


def _at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def _seconds(at: datetime) -> float:
    return (at - START).total_seconds()


def _look_after(moment: float) -> float:
    """The first look after it."""
    return math.inf if moment == math.inf else math.floor(moment / LOOK_S) * LOOK_S + LOOK_S


def _by_step(sample: Sample) -> tuple[int, datetime]:
    return sample.step, sample.at


class EveryLook(Player):
    """The plain way: judged at every look, alarms looked for every ten minutes, whatever was read. Slow."""

    def _judge_if_it_must_be(self, at: float) -> None:
        self._judge(at)
        self.until, self.pace = at, None

    def _alarms(self, at: float) -> None:
        super()._alarms(at)
        self.asks_at = at + ALARMS_S


class HangsOnly(Player):
    """Asks for hangs alone: many times as fast, for curves."""

    def _judge_if_it_must_be(self, at: float) -> None:
        self._judge(at)

    def _judge(self, at: float) -> None:
        facts = self.facts(at)
        facts = replace(facts, **self._asked(facts, at))
        due = next_due(facts, self.limits)
        if detect_hang(facts, self.limits) is None:
            self.standing = ""
            self.until = math.inf if due is None else _seconds(overdue_from(facts, due))
            return
        if not self.standing:
            self.found.append(Found(kind=FindingKind.HANG.value, at=at))
        self.standing, self.until = FindingKind.HANG, math.inf

    def _progress(self, event: Event, seen: float) -> None:
        super()._progress(event, seen)
        self.until = seen + min(self.limits.witnessed_floor_s, self.limits.first_step_s)  # no limit is lower

    def _alarms(self, at: float) -> None:
        self.asks_at = math.inf


def play(life: Life, limits: Limits, how: type[Player] = Player) -> list[Found]:
    """What is found, in order."""
    return how(life, limits).play()
