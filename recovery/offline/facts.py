"""The facts that detectors and diagnosis work on, from logs and a record.

What the product learns over time by polling is told here by the logs at once: phases, samples, silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from recovery.core.detectors import Limits
from recovery.core.phases import next_phase
from recovery.core.types import AttemptFacts, JobState, Phase, Sample, Signal, SignalKind
from recovery.offline.logs import LogsRead, TextLog, read_files
from recovery.offline.record import OfflineJob

# The job's start is not in its record: its first log line comes this much later at most.
BEFORE_FIRST_LINE = timedelta(minutes=5)
CLOCKS_APART = timedelta(minutes=1)  # those of Slurm and of the nodes, at most
SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # the clock of a case whose logs carry no time at all


def facts_of(job: OfflineJob, files: Sequence[Path | TextLog], limits: Limits) -> AttemptFacts:
    """Everything that the files and the record tell. Raises OSError where a file can't be read.

    Without a node list in the record, the nodes that the logs and events name stand for it: nothing is acted on here.
    """
    logs = read_files(files, job.nodes)
    signals = logs.signals
    clock = _clock(job, logs, limits)
    samples = tuple(_samples(signals, clock))
    phase, phase_since = _phase(signals, clock)
    return AttemptFacts(
        now=clock.now,
        seen_at=clock.now,
        state=job.state,
        number=job.restart_count,
        state_reason=job.reason,
        exit_code=job.exit_code,
        exit_signal=job.exit_signal,
        step_exit_codes=job.step_exit_codes,
        nodes=job.nodes or _named_nodes(job, signals),
        started_at=clock.started - (timedelta(0) if job.start else BEFORE_FIRST_LINE),
        ended_at=clock.ended if job.state.is_terminal else None,
        time_limit_s=job.time_limit_s,
        cancelled_by=job.cancelled_by,
        ranks=logs.ranks,
        requeued_by_slurm=job.requeued,
        phase=phase,
        phase_since=phase_since,
        blind_reason=clock.blind,
        last_progress_at=samples[-1].at if samples else None,
        last_step=samples[-1].step if samples else _last_step(signals),
        samples=samples,
        signals=signals,
        node_events=tuple(sorted(job.node_events, key=lambda e: e.at)),
        checkpoints=job.checkpoints,
    )


def _named_nodes(job: OfflineJob, signals: Sequence[Signal]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(s.node for s in signals if s.node), *(e.node for e in job.node_events)]))


def _last_step(signals: Sequence[Signal]) -> int | None:
    """The step of the last report, which need not be the highest: a log may hold the attempt before, too."""
    return next((s.step for s in reversed(signals) if s.kind is SignalKind.PROGRESS and s.step is not None), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Clock:
    """When the job began, when it is looked at, and when each line was written as far as can be told."""

    started: datetime
    begun: datetime  # what was reported before it belongs to an attempt before, in a log that was appended to
    ended: datetime  # if it has: what was noted of its nodes later tells nothing of it
    now: datetime
    times: dict[tuple[str, int], datetime]
    blind: str


def _clock(job: OfflineJob, logs: LogsRead, limits: Limits) -> _Clock:
    events = [event.at for event in job.node_events]
    started = job.start or logs.first or min(events, default=SOME_DAY)
    times, blind = logs.times, ""
    reports = [s for s in logs.signals if s.kind is SignalKind.PROGRESS]
    if logs.first is None and reports:
        times = _times_by_step(reports, started + timedelta(seconds=limits.first_step_s))
        if not times and job.state is JobState.RUNNING:
            blind = "No line of the log carries a time, so silence can't be told."
    asked = max(filter(None, [started + timedelta(seconds=job.elapsed_s or 0), logs.last]))
    now = max(asked, *events) if events else asked
    begun = started - CLOCKS_APART if job.start else min([started, *times.values()])
    ended = asked if job.elapsed_s else now
    if job.start and job.elapsed_s:
        ended = job.start + timedelta(
            seconds=job.elapsed_s
        )  # the record knows it best: a log may be written in another zone
    return _Clock(started=started, begun=begun, ended=ended, now=now, times=times, blind=blind)


def _times_by_step(steps: Sequence[Signal], first: datetime) -> dict[tuple[str, int], datetime]:
    """Times from the step times that the lines report, as late as they can be: the first step at the end of its limit.

    So silence is never overrated. {} where the lines report none.
    """
    times: dict[tuple[str, int], datetime] = {}
    at, before = first, steps[0].step or 0
    for signal in steps:
        if signal.step is None or signal.step_time_s is None:
            return {}
        at += timedelta(seconds=max(0, signal.step - before) * signal.step_time_s)
        before = signal.step
        times[signal.file, signal.line] = at
    return times


def _samples(signals: Sequence[Signal], clock: _Clock) -> Iterator[Sample]:
    reports = [s for s in signals if s.kind is SignalKind.PROGRESS and (s.file, s.line) in clock.times]
    reports.sort(key=lambda s: clock.times[s.file, s.line])
    for signal in reports:
        at = clock.times[signal.file, signal.line]
        if signal.step is not None and at >= clock.begun:
            yield Sample(
                at=at,
                step=signal.step,
                loss=signal.loss,
                throughput=signal.throughput,
                step_time_s=signal.step_time_s,
                rank=-1 if signal.rank is None else signal.rank,
                tokens=signal.tokens,
            )


def _phase(signals: Sequence[Signal], clock: _Clock) -> tuple[Phase, datetime]:
    phase, since = Phase.STARTING, clock.started
    for signal in signals:
        after = next_phase(phase, signal)
        if after is not phase:
            phase, since = after, clock.times.get((signal.file, signal.line), since)
    return phase, since
