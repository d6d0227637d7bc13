"""Plays one life through the detectors as the product would: read, judge when it must be judged, note what is found.

When a judgement must be made is asked of recovery.core.quiet, as the product does; so whatever that would miss is
missed here, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

from benchmarks.simulated.life import Event, Life
from recovery.core.detectors import AlarmLimits, Limits, Surroundings, alarms, detect
from recovery.core.detectors.hang import detect_hang, next_due, remember_wait
from recovery.core.detectors.slowdown import pace_is_back
from recovery.core.phases import next_phase
from recovery.core.quiet import Pace, after, earliest_hang, how_long
from recovery.core.types import AttemptFacts, FindingKind, JobState, Phase, Sample, Signal, SignalKind
from recovery.core.verify.restore import Source, Told

START = datetime(2026, 1, 11, tzinfo=UTC)
LOOK_S = 10.0  # the product looks at a running job so often
NEWEST, FIRST = 250, 150  # samples that a detector sees, as recovery/pipeline/facts.py hands them over
STANDING_S = 60.0  # a finding that stands is looked at again so often

ALARMS_S = 1200.0  # alarms are looked for every ten minutes in the product; half as often here, for speed
ALARM_LIMITS = AlarmLimits()


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """One thing that was found, at its first moment."""

    kind: str
    at: float


class Player:
    """One attempt as the product knows it at one moment."""

    def __init__(self, life: Life, limits: Limits) -> None:
        self.life, self.limits = life, limits
        self.phase, self.phase_since = Phase.STARTING, 0.0
        self.progress_at: float | None = None
        self.reached = -1
        self.samples: list[Sample] = []
        self.found: list[Found] = []
        self.standing = ""  # kind of the finding that holds now
        self.slow_since: datetime | None = None
        self.pace: Pace | None = None
        self.until = 0.0
        self.alarms_at = 0.0
        self.told: dict[str, bool] = {}  # kinds of alarms that hold
        self.ranks: list[Sample] = []
        self.loaded: list[Told] = []
        self.first_step: int | None = None
        self.longest_wait = life.earlier_wait

    def play(self) -> list[Found]:
        for event in self.life.events:
            seen = math.ceil(event.read / LOOK_S) * LOOK_S
            if seen >= self.life.end:
                break
            self._judge_until(seen)
            self._take(event, seen)
            if seen - self.alarms_at >= ALARMS_S:
                self._alarms(seen)
        self._judge_until(self.life.end)
        self._end()
        return self.found

    def _judge_until(self, moment: float) -> None:
        """All judgements that are due before `moment`."""
        while self.until < moment:
            at = math.floor(self.until / LOOK_S) * LOOK_S + LOOK_S
            if at >= moment:
                return
            self._judge(at)

    def _judge(self, at: float) -> None:
        facts = self.facts(at)
        kinds = [finding.kind for finding in detect(facts, self.limits)]
        for kind in kinds:
            if kind != self.standing:
                self.found.append(Found(kind=kind.value, at=at))
                self.slow_since = facts.now
        self.standing = kinds[0] if kinds else self._still(facts)
        quiet = how_long(facts, self.limits, trains=True)
        self.pace = quiet.pace if not kinds else None
        self.until = (quiet.until - START).total_seconds() if not kinds else at + STANDING_S

    def _alarms(self, at: float) -> None:
        """As recovery/pipeline/alarms.py looks for them."""
        self.alarms_at = at
        found = alarms(self.facts(at), self._around(at), ALARM_LIMITS)
        kinds = {alarm.kind.value for alarm in found}
        self.found += [Found(kind=kind, at=at) for kind in sorted(kinds) if not self.told.get(kind)]
        self.told = dict.fromkeys(kinds, True)

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
            save_every_s=median(gaps) if gaps else life.profile.save_every_s if resumed else None,
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
        signal = Signal(kind=event.kind, file="", line=0, offset=0, text="", rule="")
        following = next_phase(self.phase, signal)
        if following is not self.phase:
            self.phase, self.phase_since = following, min(event.written, seen)
        if event.kind is SignalKind.PROGRESS:
            self._progress(event, seen)
        elif event.kind in (SignalKind.LOADED, SignalKind.FRESH_START):
            self.reached = event.step
            source = Source.LOAD if event.kind is SignalKind.LOADED else Source.FRESH
            self.loaded, self.first_step = [Told(source=source, step=event.step)], None
            self.until, self.pace = seen - LOOK_S, None
        else:
            self._reset_until(seen)

    def _progress(self, event: Event, seen: float) -> None:
        sample = Sample(
            at=_at(min(event.written, seen)), step=event.step,
            loss=event.loss if event.loss is not None and math.isfinite(event.loss) else None,
            throughput=event.throughput, step_time_s=event.step_time, rank=event.rank,
        )  # fmt: skip
        if event.step > self.reached:
            self._came_back(seen)
            self.reached, self.progress_at = event.step, seen
            if self.standing == FindingKind.HANG:
                self.standing = ""
        if self.first_step is None:
            self.first_step = event.step
        if event.rank <= 0:
            self.samples.append(sample)
        if event.rank >= 0:
            self.ranks.append(sample)
        self.pace = after(self.pace, [sample], self.limits) if self.pace is not None else None
        if self.pace is None:
            self.until = seen - LOOK_S if self.standing == "" else min(self.until, seen + STANDING_S)
        else:
            self._reset_until(seen)

    def _came_back(self, seen: float) -> None:
        if self.progress_at is not None:
            waited = seen - LOOK_S - self.progress_at
            self.longest_wait = remember_wait(self.longest_wait, waited, seen - self.progress_at)

    def _reset_until(self, seen: float) -> None:
        if self.standing == "" and self.pace is not None:
            self.until = (earliest_hang(self.facts(seen, brief=True), self.limits) - START).total_seconds()

    def facts(self, at: float, *, brief: bool = False) -> AttemptFacts:
        now = START + timedelta(seconds=at)
        return AttemptFacts(
            now=now, seen_at=now, state=JobState.RUNNING, started_at=START, phase=self.phase,
            phase_since=START + timedelta(seconds=self.phase_since),
            last_progress_at=None if self.progress_at is None else START + timedelta(seconds=self.progress_at),
            last_step=self.reached if self.reached >= 0 else None, samples=() if brief else self._seen(),
            longest_wait_s=self.longest_wait, stalled_with=self._beside(at),
        )  # fmt: skip

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
        signals = tuple(
            Signal(kind=event.kind, file="", line=0, offset=0, text="", rule="")
            for event in life.events[-1:]
            if event.kind is SignalKind.FINISHED
        )
        facts = replace(
            self.facts(life.end + LOOK_S), state=life.state, ended_at=ended, seen_at=seen, exit_code=life.exit_code,
            step_exit_codes=life.step_exit_codes, signals=signals,
        )  # fmt: skip
        for finding in detect(facts, self.limits):
            self.found.append(Found(kind=finding.kind.value, at=life.end + LOOK_S))


def _at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class HangsOnly(Player):
    """Asks for hangs alone, and only when one could be due: many times as fast, for curves."""

    def _judge(self, at: float) -> None:
        facts = self.facts(at)
        due = next_due(facts, self.limits)
        if detect_hang(facts, self.limits) is None:
            self.standing = ""
            self.until = math.inf if due is None else (due.since - START).total_seconds() + due.limit_s
            return
        if not self.standing:
            self.found.append(Found(kind=FindingKind.HANG.value, at=at))
        self.standing, self.until = FindingKind.HANG, at + STANDING_S

    def _progress(self, event: Event, seen: float) -> None:
        super()._progress(event, seen)
        self.until = seen + min(self.limits.hang_floor_s, self.limits.first_step_s)  # no limit is lower

    def _reset_until(self, seen: float) -> None:
        self.until = min(self.until, seen + self.limits.saving_s)

    def _alarms(self, at: float) -> None:
        self.alarms_at = math.inf


def play(life: Life, limits: Limits, *, hangs_only: bool = False) -> list[Found]:
    """What is found, in order."""
    return (HangsOnly if hangs_only else Player)(life, limits).play()
