"""What a run's chart draws: attempts with their thinned samples, checkpoints, and the five moments of each incident."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from recovery import selectors
from recovery.core.types import TERMINAL_STATES, JobState
from recovery.models import Attempt, Checkpoint, Incident, Job, LogFile, Run, Sample
from recovery.selectors import NotFound

TABLE_ROWS = 40  # of the table beside the chart
FILES = 3  # of those that were looked into in vain
LEAST_WIDTH, WIDTH, MOST_WIDTH = 240, 1000, 4000  # pixels
# shown on each side of an incident: as long as it lasted, within these
LEAST_AROUND, AROUND = timedelta(minutes=5), timedelta(minutes=30)
MOMENTS = (
    ("detected_at", "Detected"),
    ("recommended_at", "Recommended"),
    ("acted_at", "Acted"),
    ("restored_at", "Restored"),
    ("checkpoint_at", "Next checkpoint"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptData:
    attempt: Attempt
    samples: tuple[Sample, ...]  # oldest first

    @property
    def name(self) -> str:
        return f"job {self.attempt.job.job_id}, attempt {self.attempt.number}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    at: datetime
    label: str
    incident_id: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunData:
    run: Run
    job: Job | None
    attempts: tuple[AttemptData, ...]  # oldest first
    checkpoints: tuple[Checkpoint, ...]
    incidents: tuple[Incident, ...]  # oldest first
    start: datetime
    end: datetime
    looked_in: tuple[LogFile, ...] = ()  # by the newest attempt of this time; told where there is nothing to draw

    @property
    def empty(self) -> bool:
        """Nothing has a step: neither progress nor a checkpoint."""
        return not self.samples and not self.checkpoints

    @property
    def newest(self) -> Attempt | None:
        """The newest attempt that began in this time or before."""
        return _begun([data.attempt for data in self.attempts], self.end)

    @property
    def moments(self) -> tuple[Moment, ...]:
        found = [
            Moment(at=at, label=label, incident_id=incident.pk)
            for incident in self.incidents
            for field, label in MOMENTS
            if (at := getattr(incident, field)) is not None and self.start <= at <= self.end
        ]
        return tuple(sorted(found, key=lambda moment: moment.at))

    @property
    def last_step(self) -> int | None:
        known = [a.attempt.last_step for a in self.attempts if a.attempt.last_step is not None]
        return known[-1] if known else None

    @property
    def samples(self) -> list[tuple[AttemptData, Sample]]:
        return [(data, sample) for data in self.attempts for sample in data.samples]


def width_of(text: str) -> int:
    """Pixels of the chart as the browser says; a wrong one counts as the usual."""
    wanted = int(text) if text.isdecimal() and len(text) < 6 else WIDTH
    return max(LEAST_WIDTH, min(MOST_WIDTH, wanted))


def of_run(pk: int, *, width: int, incident_id: int | None, now: datetime) -> RunData:
    """Raises selectors.NotFound."""
    return read(selectors.run(run_id=pk), job=None, width=width, incident_id=incident_id, now=now)


def of_job(pk: int, *, width: int, incident_id: int | None, now: datetime) -> RunData:
    """Raises selectors.NotFound."""
    job = selectors.job_detail(job_pk=pk)
    return read(job.run, job=job, width=width, incident_id=incident_id, now=now)


def read(run: Run, *, job: Job | None, width: int, now: datetime, incident_id: int | None = None) -> RunData:
    """As many samples as there are pixels, whatever the length of the run; four queries and those of the thinning,
    and one more where there is nothing to draw."""
    attempts = list(_attempts(run, job))
    incidents = list(Incident.objects.filter(attempt__in=[a.pk for a in attempts]).order_by("detected_at"))
    around = next((incident for incident in incidents if incident.pk == incident_id), None)
    if incident_id is not None and around is None:
        raise NotFound(f"Incident {incident_id} is not one of this run.")
    start, end = _window(attempts, around, now=now)
    samples = _samples(run, width=width, start=start, end=end)
    checkpoints = tuple(selectors.checkpoints(run_id=run.pk).filter(first_seen_at__gte=start, first_seen_at__lte=end))
    return RunData(
        run=run,
        job=job,
        attempts=tuple(AttemptData(attempt=a, samples=tuple(samples[a.pk])) for a in attempts),
        checkpoints=checkpoints,
        incidents=tuple(incidents),
        start=start,
        end=end,
        looked_in=() if any(samples.values()) or checkpoints else _looked_in(_begun(attempts, end)),
    )


def _begun(attempts: list[Attempt], end: datetime) -> Attempt | None:
    return next((a for a in reversed(attempts) if a.started_at is not None and a.started_at <= end), None)


def _looked_in(attempt: Attempt | None) -> tuple[LogFile, ...]:
    return tuple(LogFile.objects.filter(attempt=attempt).order_by("-line", "pk")[:FILES]) if attempt else ()


def _attempts(run: Run, job: Job | None) -> list[Attempt]:
    rows = selectors.attempts().filter(job__run=run)
    return list((rows.filter(job=job) if job else rows).order_by("submitted_at", "number"))


def _samples(run: Run, *, width: int, start: datetime, end: datetime) -> dict[int, list[Sample]]:
    found: dict[int, list[Sample]] = defaultdict(list)
    for sample in selectors.samples_for(run_id=run.pk, max_points=width, since=start, until=end):
        found[sample.attempt_id].append(sample)
    return found


def _window(attempts: list[Attempt], around: Incident | None, *, now: datetime) -> tuple[datetime, datetime]:
    """From the first submission to the end, or to now while something is still going on."""
    if not attempts:
        return now - AROUND, now
    start = min(a.started_at or a.submitted_at for a in attempts)
    if around is not None:
        last = around.closed_at or around.checkpoint_at or now
        side = max(LEAST_AROUND, min(AROUND, last - around.failed_at))
        return max(start, around.failed_at - side), min(now, last + side)
    ended = [a.ended_at for a in attempts if JobState(a.state) in TERMINAL_STATES and a.ended_at]
    over = len(ended) == len(attempts) and now - max(ended) > AROUND
    return start, max(ended) if over else now
