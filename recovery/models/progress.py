from __future__ import annotations

from django.db import models

from recovery.core.types import CheckpointState, SignalKind
from recovery.models.job import Attempt, Run
from recovery.models.leased import Leased

METRICS_ROW = "metrics:"  # before the path of a file that is no log: its position is kept in the same table
WORD_PATH = "#step-"  # in the path of a checkpoint that is known by the trainer's word only


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
    # of the file when it was last read: while it is the same there is nothing to read; "" where there may be
    mark = models.CharField(max_length=80, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "path"], name="one_row_per_log_file")]

    def __str__(self) -> str:
        return self.path

    @property
    def is_log(self) -> bool:
        """False of a metrics file, and of what NVRx writes."""
        return not self.path.startswith(METRICS_ROW)

    @property
    def file(self) -> str:
        return self.path.removeprefix(METRICS_ROW)


class Sample(models.Model):
    """One progress observation, one wide row. The key makes ingest idempotent.

    On PostgreSQL the table is divided by day (recovery/pipeline/partitions.py).
    """

    pk = models.CompositePrimaryKey("attempt_id", "rank", "step", "at")
    # its index is the primary key, which begins with it
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="samples", db_index=False)
    rank = models.IntegerField(default=-1)
    step = models.IntegerField()
    at = models.DateTimeField()
    loss = models.FloatField(null=True, blank=True)
    throughput = models.FloatField(null=True, blank=True)
    step_time_s = models.FloatField(null=True, blank=True)
    tokens = models.FloatField(null=True, blank=True)  # trained on since the run began

    class Meta:
        ordering = ["at", "step"]
        indexes = [models.Index(fields=["at"], name="sample_by_time")]  # on PostgreSQL a BRIN index


class Rollup(models.Model):
    """The samples of one attempt and rank in one stretch of time, as one row: means, and the last step."""

    pk = models.CompositePrimaryKey("attempt_id", "rank", "at")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+", db_index=False)
    rank = models.IntegerField()
    at = models.DateTimeField()  # when the stretch begins
    last_at = models.DateTimeField()  # of the last sample in it, which `step` is of
    step = models.IntegerField()
    samples = models.IntegerField()
    loss = models.FloatField(null=True, blank=True)
    throughput = models.FloatField(null=True, blank=True)
    step_time_s = models.FloatField(null=True, blank=True)
    tokens = models.FloatField(null=True, blank=True)  # the most

    class Meta:
        abstract = True


class MinuteRollup(Rollup):
    class Meta:
        indexes = [models.Index(fields=["at"], name="minute_by_time")]  # on PostgreSQL a BRIN index


class TenMinuteRollup(Rollup):
    class Meta:
        indexes = [models.Index(fields=["at"], name="ten_minutes_by_time")]  # on PostgreSQL a BRIN index


class RollupDue(models.Model):
    """Ten minutes of an attempt that got samples since they were last rolled up, or never were."""

    pk = models.CompositePrimaryKey("attempt_id", "at")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+", db_index=False)
    at = models.DateTimeField()  # when the ten minutes begin
    touched = models.IntegerField(default=0)  # raised by each writer: whoever rolls up waits for those under way

    class Meta:
        indexes = [models.Index(fields=["at"], name="rollup_due_by_time")]


class Upkeep(Leased):
    """The one row that says when the tables are next kept: rolled up, divided ahead, and cleared of what is too old."""

    name = models.CharField(max_length=20, unique=True, default="storage")
    at = models.DateTimeField(null=True, blank=True)  # when it last came to its end
    took_s = models.FloatField(null=True, blank=True)
    done = models.JSONField(default=dict, blank=True)  # rows by what was done with them, in the last pass
    error = models.TextField(blank=True)  # of the last pass; "" when it was good

    def __str__(self) -> str:
        return f"upkeep of {self.name}"


class Signal(models.Model):
    """One thing that a log said, other than plain progress."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="signals")
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in SignalKind])
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
    changed_at = models.DateTimeField(null=True, blank=True)  # when a look last found another fingerprint
    completed_at = models.DateTimeField(null=True, blank=True)
    checked_at = models.DateTimeField()

    class Meta:
        ordering = ["step"]
        constraints = [models.UniqueConstraint(fields=["run", "path"], name="one_row_per_checkpoint")]

    @property
    def by_word(self) -> bool:
        """Whether the trainer's own word alone stands for it: its folder could not be read."""
        return WORD_PATH in self.path

    @property
    def folder(self) -> str:
        """Where it lies, as far as that is known."""
        return self.path.partition(WORD_PATH)[0]


class Outlook(models.Model):
    """What lies ahead of a run's checkpoints: is there room for the next, and does rotation leave a good one."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="outlook")
    free_bytes = models.BigIntegerField(null=True, blank=True)  # of the file system, for ordinary users
    quota_bytes = models.BigIntegerField(null=True, blank=True)  # what the user may still write; None: not known
    needs_bytes = models.BigIntegerField(null=True, blank=True)  # of the next save; None: none was measured yet
    keeps = models.IntegerField(null=True, blank=True)  # checkpoints that rotation keeps; None: none was removed yet
    next_step = models.IntegerField(null=True, blank=True)
    next_at = models.DateTimeField(null=True, blank=True)  # when the next save is due
    space_warning = models.CharField(max_length=300, blank=True)  # "": there is room, as far as can be told
    space_remedy = models.CharField(max_length=300, blank=True)
    rotation_warning = models.CharField(max_length=300, blank=True)  # "": a good one stays
    rotation_remedy = models.CharField(max_length=300, blank=True)
    checked_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"outlook of {self.run}"
