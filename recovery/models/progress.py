from __future__ import annotations

from django.db import models

from recovery.core.types import CheckpointState, SignalKind
from recovery.models.job import Attempt, Run

# Stored like the other kinds, but added after the table: listing them takes a migration of the choices.
UNLISTED = frozenset({SignalKind.EVAL_STARTED, SignalKind.EVAL_FINISHED})


class LogFile(models.Model):
    """One log file that an attempt writes, and how far it was read.

    The offset moves in the transaction that stores what was read.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="logs")
    path = models.CharField(max_length=1000)
    inode = models.BigIntegerField(default=0)
    offset = models.BigIntegerField(default=0)  # start of the next unread line
    line = models.BigIntegerField(default=0)  # lines read so far in this file
    head = models.CharField(
        max_length=64, blank=True
    )  # digest of the file's first bytes: tells a file that was truncated and grew again
    grew_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "path"], name="one_row_per_log_file")]

    def __str__(self) -> str:
        return self.path


class Sample(models.Model):
    """One progress observation, one wide row. The key makes ingest idempotent."""

    pk = models.CompositePrimaryKey("attempt_id", "rank", "step", "at")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="samples")
    rank = models.IntegerField(default=-1)
    step = models.IntegerField()
    at = models.DateTimeField()
    loss = models.FloatField(null=True, blank=True)
    throughput = models.FloatField(null=True, blank=True)
    step_time_s = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ["at", "step"]


class Signal(models.Model):
    """One thing that a log said, other than plain progress."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="signals")
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in SignalKind if k not in UNLISTED])
    rule = models.CharField(max_length=80)
    at = models.DateTimeField()  # the line's own time, else when it was read
    step = models.IntegerField(null=True, blank=True)
    rank = models.IntegerField(null=True, blank=True)
    node = models.CharField(max_length=100, blank=True)
    file = models.CharField(max_length=1000)
    line = models.BigIntegerField()
    offset = models.BigIntegerField()
    path = models.CharField(max_length=1000, blank=True)
    text = models.CharField(max_length=500)

    class Meta:
        ordering = ["at", "id"]
        constraints = [models.UniqueConstraint(fields=["attempt", "file", "offset", "rule"], name="one_row_per_signal")]


class Checkpoint(models.Model):
    """A step of a run that could be restored. Only a complete one counts."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checkpoints")
    attempt = models.ForeignKey(Attempt, on_delete=models.SET_NULL, null=True, blank=True, related_name="checkpoints")
    step = models.IntegerField()
    path = models.CharField(max_length=1000)
    state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in CheckpointState])
    detail = models.CharField(max_length=300, blank=True)
    size_bytes = models.BigIntegerField(null=True, blank=True)
    # digest of names, sizes and times at the last look: complete only after two equal looks
    fingerprint = models.CharField(max_length=64, blank=True)
    first_seen_at = models.DateTimeField()
    completed_at = models.DateTimeField(null=True, blank=True)
    checked_at = models.DateTimeField()

    class Meta:
        ordering = ["step"]
        constraints = [models.UniqueConstraint(fields=["run", "path"], name="one_row_per_checkpoint")]
