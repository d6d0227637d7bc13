"""What verification rests on, as values: what the new attempt's sources tell, the run's history, its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from django.conf import settings
from django.db.models import Q

from recovery.core.lifecycle import ActionState
from recovery.core.series import typical_step_time
from recovery.core.speech import steps
from recovery.core.types import ActionKind, CheckpointState, Sample, SignalKind
from recovery.core.verify import (
    CheckKey,
    CheckState,
    Restore,
    Source,
    Start,
    Told,
    judge_restore,
)
from recovery.models import Action, Attempt, Checkpoint, Incident, Run
from recovery.models import Sample as SampleRow
from recovery.pipeline.facts import log_interval

STARTS = 20  # so many of the newest earlier starts are learned from
CHECKPOINTS = 60  # … and of the newest checkpoints
SAMPLES = 60  # the newest ones tell the pace


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """One look at a restarted run."""

    attempt: Attempt
    expected: int | None  # the step to be restored
    told: tuple[Told, ...]
    restore: Restore
    following: Checkpoint | None  # the next complete checkpoint, where it is there
    now: datetime

    @property
    def restored_at(self) -> datetime:
        """When it told where it continues."""
        attempt = self.attempt
        return attempt.restored_at or attempt.first_step_at or attempt.last_progress_at or self.now

    def is_past(self, deadline: datetime) -> bool:
        """Whether job and log were looked at after `deadline`: what nobody could see (an outage, say) is not late."""
        looks = (self.attempt.job.cluster.seen_at, self.attempt.read_at)
        return all(at is not None and at > deadline for at in looks)


def look_at(incident: Incident, attempt: Attempt, *, now: datetime) -> Sight:
    expected, told = expected_step(incident, attempt), told_by(attempt)
    interval = log_interval(attempt)
    restore = judge_restore(expected_step=expected, told=told, log_interval=interval)
    if unsound := _loaded_unsound(incident, attempt):
        restore = replace(restore, contradictions=(*restore.contradictions, unsound))
    following = next_checkpoint(incident.run, attempt, beyond=restore.step or expected or 0, log_interval=interval)
    return Sight(
        attempt=attempt, expected=expected, told=tuple(told), restore=restore, following=following, now=now
    )  # fmt: skip


def _loaded_unsound(incident: Incident, attempt: Attempt) -> str:
    """What speaks against the trainer's word that it loaded a step: on disk that checkpoint is not whole."""
    if attempt.restored_step is None:
        return ""
    rows = list(Checkpoint.objects.filter(run=incident.run, step=attempt.restored_step).exclude(attempt=attempt))
    unsound = [row for row in rows if row.state in (CheckpointState.TORN, CheckpointState.ANNOUNCED)]
    if not unsound or any(row.state == CheckpointState.COMPLETE for row in rows):
        return ""
    state = "torn" if unsound[0].state == CheckpointState.TORN else "not complete"
    return (
        f"The trainer says that it loaded step {steps(attempt.restored_step)}, but that checkpoint is {state} on disk."
    )


def saves_elsewhere(attempt: Attempt) -> bool:
    """Whether its own log names another folder for its saves than the one that the run's checkpoints lie in."""
    kinds = [SignalKind.SAVE_STARTED, SignalKind.SAVE_DURABLE]
    line = attempt.signals.filter(kind__in=kinds).exclude(path="").order_by("-at", "-pk").first()
    folder = attempt.job.run.checkpoint_dir.rstrip("/")
    return line is not None and folder != "" and not f"{line.path.rstrip('/')}/".startswith(f"{folder}/")


def told_by(attempt: Attempt) -> list[Told]:
    """What the attempt's own sources tell of the restored step, and where."""
    told = []
    for source, kind, step in (
        (Source.LOAD, SignalKind.LOADED, attempt.restored_step),
        (Source.FRESH, SignalKind.FRESH_START, 0 if attempt.fresh_start else None),
    ):
        if step is not None:
            line = attempt.signals.filter(kind=kind).order_by("at", "pk").last()
            told.append(
                Told(source=source, step=step, file=line.file if line else "", line=line.line if line else None)
            )
    if attempt.first_step is not None:
        place = attempt.places.get("first_step", {})
        told.append(
            Told(
                source=Source.FIRST_STEP, step=attempt.first_step, file=place.get("file", ""), line=place.get("line")
            )
        )  # fmt: skip
    tracker = attempt.places.get("tracker", {})
    if tracker.get("step") is not None:
        told.append(Told(source=Source.TRACKER, step=tracker["step"], file=tracker["file"]))
    return told


def expected_step(incident: Incident, attempt: Attempt) -> int | None:
    """The step that the new attempt should restore: of the newest checkpoint complete before it started.

    Once the attempt has told where it continues, what was expected then stands: it may save that step anew.
    """
    if _was_judged(incident, attempt):
        return incident.expected_step
    chosen = _chosen(incident)
    rows = Checkpoint.objects.filter(run=incident.run).exclude(completed_at=None)
    rows = rows.filter(state__in=[CheckpointState.COMPLETE, CheckpointState.MISSING])
    rows = rows.exclude(state=CheckpointState.MISSING, checked_at__lt=attempt.started_at)  # gone before it started
    rows = rows.exclude(attempt=attempt).filter(first_seen_at__lt=attempt.started_at)
    if chosen is not None:  # what was there then is passed over, however complete
        rows = rows.filter(completed_at__gt=chosen.observed_at)
    before = rows.order_by("-step").first()
    if before is None and chosen is not None:
        return int(chosen.parameters["step"])
    return before.step if before else incident.expected_step


def _chosen(incident: Incident) -> Action | None:
    """The action that pointed the trainer at a checkpoint that a person chose; None where none did, or not any more."""
    done = incident.actions.filter(kind=ActionKind.RESTORE_OLDER, state=ActionState.CONVERGED).order_by("pk").last()
    return done if done is not None and "undoes" not in done.parameters else None


def _was_judged(incident: Incident, attempt: Attempt) -> bool:
    check = stored_check(incident, CheckKey.RESTORED)
    told = (CheckState.AS_EXPECTED, CheckState.NOT_AS_EXPECTED)
    return check.get("attempt_id") == attempt.pk and check.get("state") in told


def stored_check(incident: Incident, key: CheckKey) -> dict[str, object]:
    return next((check for check in incident.verification if check["key"] == key), {})


def next_checkpoint(run: Run, attempt: Attempt, *, beyond: int, log_interval: int | None) -> Checkpoint | None:
    """The first complete checkpoint with a step greater than `beyond` that is the attempt's own work.

    Its own is what its log says it saved. Where no log tells the writer: what was first seen since it started, at a
    step that it has trained to (it may save before it reports, by a log interval at most).
    """
    rows = Checkpoint.objects.filter(run=run, state=CheckpointState.COMPLETE, step__gt=beyond)
    own = Q(attempt=attempt)
    if attempt.last_step is not None:
        trained = attempt.last_step + (log_interval or 0)
        own |= Q(attempt=None, first_seen_at__gt=attempt.started_at, step__lte=trained)
    return rows.filter(own, completed_at__gt=attempt.started_at).order_by("step").first()


def earlier_starts(attempt: Attempt) -> list[Start]:
    """How long earlier attempts of the run took from their start to their load line and first step; no queue in it."""
    rows = Attempt.objects.filter(job__run_id=attempt.job.run_id, started_at__lt=attempt.started_at)
    newest = rows.order_by("-started_at").values_list("started_at", "restored_at", "first_step_at")[:STARTS]
    return [
        _start(_after(started, restored), _after(started, first))
        for started, restored, first in newest
        if started is not None
    ]


def earlier_waits(attempt: Attempt) -> list[float]:
    """How long earlier attempts of the run waited in the queue."""
    rows = Attempt.objects.filter(job__run_id=attempt.job.run_id).exclude(pk=attempt.pk).exclude(started_at=None)
    newest = rows.order_by("-started_at").values_list("submitted_at", "started_at")[:STARTS]
    return [max(0.0, (started - submitted).total_seconds()) for submitted, started in newest if started is not None]


def _start(to_restore_s: float | None, to_first_step_s: float | None) -> Start:
    """A line without a time of its own has that of its reading: no load comes after the first step."""
    if to_restore_s is not None and to_first_step_s is not None:
        to_restore_s = min(to_restore_s, to_first_step_s)
    return Start(to_restore_s=to_restore_s, to_first_step_s=to_first_step_s)


def _after(started: datetime, then: datetime | None) -> float | None:
    """Seconds; None where it was not seen, or its clock says that it was before."""
    return None if then is None or then < started else (then - started).total_seconds()


def checkpoint_intervals(run: Run) -> list[float]:
    """Seconds between two checkpoints of one attempt: pairs with a restart between them tell nothing."""
    rows = Checkpoint.objects.filter(run=run).exclude(completed_at=None).order_by("-step")[:CHECKPOINTS]
    times = sorted(row.completed_at for row in rows if row.completed_at)
    starts = Attempt.objects.filter(job__run=run).exclude(started_at=None).values_list("started_at", flat=True)
    begun = sorted(at for at in starts if at is not None)
    return [
        (after - before).total_seconds()
        for before, after in pairwise(times)
        if after > before and not any(before < at <= after for at in begun)
    ]


def step_time(attempt: Attempt) -> float | None:
    """Seconds per step by the attempt's newest samples; None where there are too few."""
    rows = list(SampleRow.objects.filter(attempt=attempt).order_by("-step", "-at")[:SAMPLES])
    rows.sort(key=lambda row: (row.at, row.step))
    return typical_step_time(
        [Sample(at=row.at, step=row.step, step_time_s=row.step_time_s, rank=row.rank) for row in rows]
    )


def first_step_unknown_s() -> float:
    """What holds for start-up and load, and for the first step, of a run without any history."""
    return float(settings.HANG_FIRST_STEP_S)
