from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q

from recovery.core.types import TERMINAL_STATES, JobState, Phase
from recovery.models.cluster import Cluster
from recovery.models.leased import Leased

if TYPE_CHECKING:
    from recovery.models.alarm import Alarm

STATE_CHOICES = [(s.value, s.value) for s in JobState]


class Run(models.Model):
    """One logical training run over many jobs.

    Joined by the job comment's `run`, else by user + name + checkpoint directory.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="runs")
    key = models.CharField(max_length=500)
    name = models.CharField(max_length=200)
    user = models.CharField(max_length=100)
    checkpoint_dir = models.CharField(max_length=1000, blank=True)
    created_at = models.DateTimeField()
    # of the checkpoint folder when it was last looked into: while it is the same nothing was added and nothing removed;
    # "" where something in it was still being written
    folder_mark = models.CharField(max_length=80, blank=True)
    folder_read_at = models.DateTimeField(null=True, blank=True)
    # somebody took over: nothing is done for this run by policy until it is given back
    hands_off_at = models.DateTimeField(null=True, blank=True)
    hands_off_by = models.CharField(max_length=150, blank=True)
    hands_off_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [models.UniqueConstraint(fields=["cluster", "key"], name="one_run_per_key")]

    def __str__(self) -> str:
        return self.name

    @property
    def holding_alarms(self) -> models.QuerySet[Alarm]:
        """What people should know of it now."""
        return self.alarms.filter(ended_at=None).order_by("raised_at", "pk")


class Job(models.Model):
    """One Slurm submission. An id alone is never an identity: Slurm reuses ids."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="jobs")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="jobs")
    job_id = models.CharField(max_length=40)
    raw_id = models.CharField(max_length=20, blank=True)  # an array task's own number, which %j and SLURM_JOB_ID give
    first_submitted_at = models.DateTimeField()

    name = models.CharField(max_length=300, blank=True)
    user = models.CharField(max_length=100, blank=True)
    account = models.CharField(max_length=100, blank=True)
    partition = models.CharField(max_length=100, blank=True)
    comment = models.TextField(blank=True)  # as the job carries it, never rewritten
    options = models.JSONField(default=dict, blank=True)  # what the comment asks of us (recovery/core/comment.py)
    comment_error = models.CharField(
        max_length=300, blank=True
    )  # shown to the owner; a broken comment counts as absent
    work_dir = models.CharField(max_length=1000, blank=True)
    stdout = models.CharField(max_length=1000, blank=True)
    stderr = models.CharField(max_length=1000, blank=True)
    requeueable = models.BooleanField(default=True)
    node_count = models.IntegerField(default=0)
    gpus = models.IntegerField(default=0)
    time_limit_s = models.FloatField(null=True, blank=True)

    # the scheduler's last word, and when we had it
    state = models.CharField(max_length=20, choices=STATE_CHOICES)
    state_reason = models.CharField(max_length=100, blank=True)
    held = models.BooleanField(default=False)
    eligible_at = models.DateTimeField(null=True, blank=True)
    excluded_nodes = models.JSONField(default=list, blank=True)
    required_nodes = models.JSONField(default=list, blank=True)
    features = models.CharField(max_length=300, blank=True)  # the constraint as it was written: "h100&ib"
    reservation = models.CharField(max_length=200, blank=True)
    qos = models.CharField(max_length=100, blank=True)
    # of the federation: where it was submitted, "" where that is this cluster; then this one only runs it
    origin = models.CharField(max_length=100, blank=True, default="")
    unique_id = models.CharField(max_length=40, blank=True)  # Slurm's own (SLUID) of the newest attempt, if any
    restart_count = models.IntegerField(default=0)
    submitted_at = models.DateTimeField()  # overwritten by Slurm at each requeue
    seen_at = models.DateTimeField()
    # set when the controller stopped knowing a job that had not ended: its state is unknown since then
    vanished_at = models.DateTimeField(null=True, blank=True)
    unknown_reason = models.CharField(max_length=300, blank=True)  # why its state is unknown; "" once that is known
    listed = models.BooleanField(default=True)  # in the scheduler's last picture
    record_key = models.CharField(max_length=32, blank=True)  # digest of the record that the above was taken from

    class Meta:
        ordering = ["-first_submitted_at"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "job_id", "first_submitted_at"], name="one_job_per_submission")
        ]
        indexes = [
            models.Index(fields=["cluster", "state"], name="job_by_state"),
            models.Index(fields=["cluster"], condition=Q(listed=True), name="job_listed"),
        ]

    def __str__(self) -> str:
        return f"{self.name or 'job'} ({self.job_id})"

    @property
    def is_forgotten(self) -> bool:
        """Whether the controller no longer knows it: nothing can be done with it any more."""
        return self.vanished_at is not None or not self.listed

    @property
    def ended_and_forgotten(self) -> bool:
        """Whether it was seen to end, and the controller has dropped it since (MinJobAge)."""
        return self.state in TERMINAL_STATES and not self.listed


class Attempt(Leased):
    """One execution of a job. Everything that a detector remembers belongs to one attempt and dies with it."""

    related = ("job__cluster", "job__run")

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.IntegerField()  # Slurm's restart count
    state = models.CharField(max_length=20, choices=STATE_CHOICES)
    state_reason = models.CharField(max_length=100, blank=True)
    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    exit_signal = models.IntegerField(null=True, blank=True)
    step_exit_codes = models.JSONField(default=list, blank=True)
    cancelled_by = models.CharField(max_length=100, blank=True)
    nodes = models.JSONField(default=list, blank=True)
    gpus = models.IntegerField(null=True, blank=True)  # of its allocation; None: not seen, the job's own count holds
    seen_at = models.DateTimeField()  # of the scheduler's answer that the above rests on
    # It had ended when it was first seen, and that after a gap: nobody watched it, so no policy acts on it alone.
    ended_unwatched = models.BooleanField(default=False)

    # what the sources said
    phase = models.CharField(max_length=20, choices=[(p.value, p.value) for p in Phase], default=Phase.QUEUED.value)
    phase_since = models.DateTimeField(null=True, blank=True)
    blind_reason = models.CharField(max_length=300, blank=True)  # not empty: can't be observed
    blind_remedy = models.CharField(max_length=300, blank=True)
    last_progress_at = models.DateTimeField(null=True, blank=True)
    first_step = models.IntegerField(null=True, blank=True)
    last_step = models.IntegerField(null=True, blank=True)
    first_step_at = models.DateTimeField(null=True, blank=True)
    # where the first step was read, {"file", "line"}, and what the tracker file named before this attempt saved,
    # {"step", "file", "at"}, and how far logs, metrics files and pushes each have come: {"first_step": …, "tracker": …,
    # "reached": {"log": step, …}}
    places = models.JSONField(default=dict, blank=True)
    restored_step = models.IntegerField(null=True, blank=True)  # by the trainer's load line; 0 with fresh_start
    restored_at = models.DateTimeField(null=True, blank=True)
    fresh_start = models.BooleanField(default=False)  # the trainer said that it starts without a checkpoint
    parser_memory = models.JSONField(default=dict, blank=True)  # what the log parser carries from one look to the next
    read_at = models.DateTimeField(null=True, blank=True)  # when its log was last read
    # the longest silence that its run came back from, earlier attempts included; it fades (core/detectors/hang.py)
    longest_wait_s = models.FloatField(default=0)
    alarms_at = models.DateTimeField(null=True, blank=True)  # when it was last judged for alarms
    # the last judgement found nothing, and holds until then (recovery.core.quiet), as long as what it rests on is
    # the same (its digest) and reports come at the usual pace; None: the next look judges
    quiet_until = models.DateTimeField(null=True, blank=True)
    quiet_of = models.CharField(max_length=32, blank=True)
    pace = models.JSONField(default=dict, blank=True)
    closed_at = models.DateTimeField(
        null=True, blank=True
    )  # it ended, was read to the end and judged; nothing is due any more

    class Meta:
        ordering = ["job", "number"]
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="one_row_per_attempt")]
        indexes = [
            models.Index(fields=["next_look_at"], condition=Q(closed_at=None), name="attempt_due"),
            models.Index(fields=["job"], condition=Q(state="unknown", closed_at=None), name="attempt_unknown"),
        ]

    def __str__(self) -> str:
        return f"{self.job} attempt {self.number}"

    @property
    def forgotten_at(self) -> datetime | None:
        """When about Slurm drops the job that ended with it (MinJobAge), so that it can't be requeued any more.

        None where it has not ended or was dropped already, and where MinJobAge is not known.
        """
        job, kept_s = self.job, self.job.cluster.min_job_age_s
        if self.ended_at is None or kept_s is None or job.state not in TERMINAL_STATES or job.is_forgotten:
            return None
        return self.ended_at + timedelta(seconds=kept_s) if self.number == job.restart_count else None

    @classmethod
    def due(cls, now: datetime) -> models.QuerySet[Attempt]:
        """Those on clusters that are looked at: of others nothing new is known."""
        return super().due(now).filter(closed_at=None, job__cluster__enabled=True)
