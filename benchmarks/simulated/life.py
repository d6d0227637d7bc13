"""One simulated job from its start to its end: what its log says and when that can be read, and what is true of it.

Seconds since the start of the job throughout. Two clocks: `written` is what the line itself carries (a node's clock,
which may be off or jump), `read` is when a reader of the log can see it (a shipped or buffered log comes later).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import NamedTuple

from benchmarks.simulated.profiles import HOUR, Profile
from benchmarks.simulated.seen import Seen, Wait, look
from recovery.core.types import JobState, SignalKind

SHIPPED_S = 60.0  # a shipped log is at most so late
NUMERIC = ("nan", "diverged", "loss_vanished")
WATCHED_S = 6 * HOUR  # a job that hangs is given up by its owner after so long
LONGER = 1.8  # a step of the longer sequences of a curriculum
NOTHING = Seen(measured="", waits=(), lines=(), faults=())
STALL_S, MOST_STALL_S = 10.0, 900.0  # single stalls of data loaders and file systems: the least, and the longest


class Event(NamedTuple):
    """One line. `step` of a load is the step that was loaded."""

    read: float
    kind: SignalKind
    step: int
    written: float
    loss: float | None = None
    step_time: float | None = None
    throughput: float | None = None
    rank: int = -1
    tokens: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """What really is the matter, and since when. `due_s`: how long this job's silence lasts at most in ordinary life.

    It is taken from the job's own life before the fault, not from any threshold: the longest gap in what can be read.
    """

    fault: str
    since: float = math.inf
    until: float = math.inf
    due_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    profile: Profile
    events: list[Event]  # by `read`
    saves: list[tuple[float, int]]  # when a checkpoint was complete, and of which step
    written: list[tuple[float, float]]  # from when to when files of a checkpoint can be seen to change
    end: float
    state: JobState  # at the end
    exit_code: int
    step_exit_codes: tuple[int, ...]
    truth: Truth
    earlier_wait: float  # the longest silence that an earlier attempt of the run came back from; 0: it is the first
    earlier_start: float  # how long an earlier attempt took to its first step; likewise
    seen: Seen  # what else tells of it


def live(profile: Profile, random: Random) -> Life:
    """The whole life of one job."""
    return _Living(profile, random).life()


class _Living:
    """What is remembered from one report to the next."""

    def __init__(self, profile: Profile, random: Random) -> None:
        self.p, self.random = profile, random
        self.lines: list[Event] = []
        self.saves: list[tuple[float, int]] = []
        self.written: list[tuple[float, float]] = []
        self.waits: list[Wait] = []  # in which its GPUs do not train
        self.t = 0.0
        self.step = profile.resumed_from
        self.saved_step = profile.resumed_from
        self.tokens = self.saved_tokens = float(profile.resumed_from)  # as many a step as there are units of work
        self.next = {
            "save": profile.save_every_s, "eval": profile.eval_every_s, "epoch": profile.epoch_every_s,
        }  # fmt: skip
        self.spike = 0.0  # what a passing loss spike still adds, as a share
        self.hung_in = ""
        self.back_at = math.inf  # when it went on after a stall of the storage
        self.restarts = list(profile.launcher_restarts)

    def life(self) -> Life:
        p = self.p
        end = p.hours * HOUR
        state, exit_code = JobState.COMPLETED, 0
        codes: tuple[int, ...] = ()
        if p.fault in ("crash", "hidden_crash", "cancelled"):
            end = p.fault_at
            state = {"crash": self._state(), "cancelled": JobState.CANCELLED}.get(p.fault, JobState.COMPLETED)
            exit_code = 1 if state is JobState.FAILED else 0
            codes = (0, 1) if p.fault == "hidden_crash" else ()
        self._start()
        since = self._train(end)
        truth = self._truth(since, end)
        if p.fault.startswith("hang") and truth.since < math.inf:
            end, state = min(end, truth.since) + WATCHED_S, JobState.CANCELLED
        elif not p.fault or state is JobState.COMPLETED:
            self.lines.append(Event(self.t, SignalKind.FINISHED, self.step, self.t))
            if p.fault == "hidden_crash":
                self.lines.pop()
        told = Life(
            profile=p, events=self._read(self.lines, end), saves=self.saves, written=self.written, end=end, state=state,
            exit_code=exit_code, step_exit_codes=codes, truth=truth, earlier_wait=self._earlier_wait(),
            earlier_start=self._earlier_start(), seen=NOTHING,
        )  # fmt: skip
        # Drawn last, so that the lives of a seed are what they were before anything of this was simulated.
        hang_since = truth.since if truth.fault.startswith("hang") else math.inf
        return replace(told, seen=look(self.waits, hang_since, end, self.random))

    def _state(self) -> JobState:
        states = (JobState.FAILED, JobState.NODE_FAIL, JobState.TIMEOUT, JobState.OUT_OF_MEMORY, JobState.PREEMPTED)
        return self.random.choices(states, (70, 10, 10, 5, 5))[0]

    def _earlier_wait(self) -> float:
        """Of an earlier attempt of some hours: the longest of its pauses, whether a log line names them or not."""
        p = self.p
        if not p.resumed_from:
            return 0.0
        pauses = [p.interval_s, p.interval_s * p.buffer, p.epoch_s]
        saves = range(self.random.randrange(1, 20))
        pauses += [p.save_s * self.random.lognormvariate(0, p.save_sigma) for _ in saves if p.saves != "async"]
        pauses += [p.eval_s] if p.eval_every_s < math.inf else []
        return max(pauses)

    def _earlier_start(self) -> float:
        p = self.p
        if not p.resumed_from:
            return 0.0
        return (p.start_up_s + p.fast_forward_s) * self.random.lognormvariate(0, 0.3)

    def _start(self) -> None:
        """Up to the first step: a load where it resumes, a data loader that skips on."""
        p = self.p
        self.t = p.start_up_s * 0.5
        if p.fault == "not_restored":
            self.step = 0 if p.fault_size < 0.6 else int(p.resumed_from * 0.5)
            if p.fault_size < 0.2:
                self._mark(SignalKind.FRESH_START, 0)
            elif p.fault_size >= 0.6:
                self._mark(SignalKind.LOADED, self.step)
        elif p.resumed_from:
            if self.random.random() < 0.8:  # not every trainer says so
                self._mark(SignalKind.LOADED, p.resumed_from)
        elif self.random.random() < 0.5:
            self._mark(SignalKind.FRESH_START, 0)
        self.t += p.start_up_s * 0.5 + p.fast_forward_s

    def _train(self, end: float) -> float:
        """Reports until `end`, or until it hangs; the moment since when the fault holds."""
        p, number, since = self.p, 0, math.inf
        after = self.random.randrange(5) if p.fault == "hang_resumed" else -1
        while True:
            if p.fault == "hang_first_step" or number == after:
                return self.t
            stalled = self._stall()
            took = self._interval(number) + stalled
            if p.fault == "hang" and self.t + took > p.fault_at:
                return max(self.t, p.fault_at)
            self.t += took
            if stalled:
                self.back_at = self.t
                self.waits.append(Wait(self.t - stalled, self.t, "storage"))
            if self.t >= end:
                self.t = end
                return since
            number += 1
            self.step += p.stride
            self.tokens += p.stride * self._work()
            self._report(took - stalled)
            if p.fault_at <= self.t:
                since = min(since, self.t)
            if self._pauses():
                return self.t
            if self.restarts and self.t > self.restarts[0]:
                self._restart()

    def _interval(self, number: int) -> float:
        p, r = self.p, self.random
        took = p.interval_s * r.lognormvariate(0, p.sigma)
        if number < p.warm_up:
            took *= r.uniform(1, 4)
        stall = min(STALL_S * r.paretovariate(1.6), MOST_STALL_S) if r.random() < p.tail else 0.0
        took *= self._work()
        if p.fault in ("slowdown", "straggler") and self.t > p.fault_at:
            took *= 1.6 + 2.4 * p.fault_size
        return took + stall

    def _work(self) -> float:
        """Of one step, in those of the first: a curriculum makes steps longer on purpose."""
        return LONGER if any(self.t > moment for moment in self.p.curriculum) else 1.0

    def _stall(self) -> float:
        """The file system that many jobs share stands still."""
        p = self.p
        if p.fault != "stalled_together" or not p.fault_at <= self.t < p.fault_at + p.interval_s * 1.5:
            return 0.0
        return 300 + 2100 * p.fault_size

    def _report(self, took: float) -> None:
        p, r = self.p, self.random
        step_time = took / p.stride
        work, tokens = self._work(), self.tokens if p.counts_tokens else None
        shown = step_time * r.lognormvariate(0, 0.01)
        for rank in range(p.ranks):
            own = shown
            if p.fault == "straggler" and self.t > p.fault_at and p.ranks > 1:
                # all wait for the slow one: it alone computes for the whole step, the others report their own work
                own = shown if rank == p.ranks - 1 else shown / (1.6 + 2.4 * p.fault_size)
            self.lines.append(
                Event(
                    self.t, SignalKind.PROGRESS, self.step, self.t, self._loss() if rank == 0 else None,
                    own if p.prints == "step_time" or p.ranks > 1 else None,
                    1000 * work / shown if p.prints == "throughput" else None,
                    -1 if p.ranks == 1 else rank, tokens,
                )
            )  # fmt: skip

    def _loss(self) -> float | None:
        p, r = self.p, self.random
        late = self.t - p.fault_at
        if not p.loss or (p.fault == "loss_vanished" and late > 0):
            return None
        if p.fault == "nan" and late > 0:
            return math.nan if p.fault_size < 0.8 else math.inf
        if p.fp16 and r.random() < 0.004:
            return math.nan
        value = 2.0 + 8.0 * math.exp(-self.step / (400 * p.stride)) + r.gauss(0, 0.04)
        if r.random() < 0.002:
            self.spike = r.uniform(0.2, 1.2)
        self.spike *= 0.85
        if p.fault == "diverged" and late > 0:
            value *= 1 + min(late / (20 * p.interval_s), 1) * (1 + 4 * p.fault_size)
        return value * (1 + self.spike)

    def _pauses(self) -> bool:
        """Save, evaluate, begin an epoch, where it is time. True: it hangs in it."""
        p, r = self.p, self.random
        if self.t >= self.next["save"]:
            self.next["save"] = self.t + p.save_every_s
            if self._save(p.save_s * r.lognormvariate(0, p.save_sigma)):
                return True
        if self.t >= self.next["eval"]:
            self.next["eval"] = self.t + p.eval_every_s
            if self._evaluate(p.eval_s * r.lognormvariate(0, 0.1)):
                return True
        if self.t >= self.next["epoch"]:
            self.next["epoch"] = self.t + p.epoch_every_s
            began = self.t
            self.t += p.epoch_s * r.lognormvariate(0, 0.2)
            self.waits.append(Wait(began, self.t, "epoch"))
        return False

    def _save(self, took: float) -> bool:
        p, step = self.p, self.step
        fails = p.fault == "saves_failing" and self.t > p.fault_at
        if p.saves != "silent":
            self._mark(SignalKind.SAVE_STARTED, step)
        if p.fault == "hang_saving" and self.t > p.fault_at:
            self.hung_in = "saving"
            return True
        done = self.t + took
        if not fails:
            self.saves.append((done, step))
            if p.saves_seen:
                self.written.append((self.t, done))
            self.saved_step, self.saved_tokens = step, self.tokens
        if p.saves != "async":
            self.waits.append(Wait(self.t, done, "save"))
            self.t = done
        if p.saves != "silent" and not fails:
            self.lines.append(Event(done, SignalKind.SAVE_DURABLE, step, done))
        return False

    def _evaluate(self, took: float) -> bool:
        announced = self.p.evals == "announced"
        if announced:
            self._mark(SignalKind.EVAL_STARTED, self.step)
        if self.p.fault == "hang_evaluating" and self.t > self.p.fault_at:
            self.hung_in = "evaluating"
            return True
        self.waits.append(Wait(self.t, self.t + took, "eval"))
        self.t += took
        if announced:
            self._mark(SignalKind.EVAL_FINISHED, self.step)
        return False

    def _restart(self) -> None:
        self.restarts.pop(0)
        began = self.t
        self.t += self.p.start_up_s * self.random.uniform(0.5, 1)
        self.waits.append(Wait(began, self.t, "start"))
        self.step, self.tokens = self.saved_step, self.saved_tokens
        self._mark(SignalKind.LOADED, self.step)

    def _mark(self, kind: SignalKind, step: int) -> None:
        self.lines.append(Event(self.t, kind, step, self.t))

    def _read(self, lines: list[Event], end: float) -> list[Event]:
        """When each line can be read, and what time it carries; lines that were not flushed when it ended are flushed
        by its end, those of a job that hangs never."""
        p, read = self.p, []
        lines = sorted(lines, key=lambda line: line.written)
        hangs = p.fault.startswith("hang")
        for number, line in enumerate(lines):
            if p.log == "buffered":
                last = number // p.buffer * p.buffer + p.buffer - 1
                if last >= len(lines) and hangs:
                    break
                at = lines[last].written if last < len(lines) else end
            else:
                at = line.written + (self.random.uniform(0, SHIPPED_S) if p.log == "shipped" else 0)
            read.append(line._replace(read=at, written=line.written + self._clock(line.written)))
        read.sort(key=lambda line: line.read)
        return read

    def _clock(self, at: float) -> float:
        return self.p.clock_off_s + sum(by for moment, by in self.p.clock_jumps if at > moment)

    def _truth(self, since: float, end: float) -> Truth:
        p = self.p
        if p.fault in NUMERIC and not p.loss:
            return Truth(fault="")  # it never printed any
        if not p.fault or (since is math.inf and not p.fault.startswith(("hang", "crash", "hidden", "cancelled"))):
            return Truth(fault="")
        if p.fault.startswith("hang"):
            if since is math.inf:
                return Truth(fault="")
            if p.fault in ("hang_saving", "hang_evaluating") and not self.hung_in:
                return Truth(fault="")
            return Truth(fault=p.fault, since=since, due_s=usual_silence(self._read(self.lines, end)))
        if p.fault in ("crash", "hidden_crash", "cancelled"):
            return Truth(fault=p.fault, since=end)
        if p.fault == "saves_failing":
            return Truth(fault=p.fault, since=max(p.fault_at, self.saves[-1][0] if self.saves else 0.0))
        if p.fault == "not_restored":
            return Truth(fault=p.fault, since=p.start_up_s * 0.5)  # the moment of the load
        if p.fault == "stalled_together":
            return Truth(fault=p.fault, since=p.fault_at, until=self.back_at)
        return Truth(fault=p.fault, since=since)


def usual_silence(events: list[Event]) -> float:
    """The longest gap between two moments at which a new step could be read; 0 without any."""
    moments = sorted({event.read for event in events if event.kind is SignalKind.PROGRESS})
    return max((b - a for a, b in pairwise(moments)), default=0.0)
