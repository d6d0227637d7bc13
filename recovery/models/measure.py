"""What comes from elsewhere than the scheduler, logs and checkpoints: pushed rows, readings of GPUs, kernel lines."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from recovery.models.cluster import Cluster
from recovery.models.job import Attempt, Job
from recovery.models.leased import Leased


class PushToken(models.Model):
    """A token that can push what a job says of itself, and nothing else; stored hashed, with a visible prefix.

    Good for one job (`job`), for the jobs of one Slurm user (`user`), or for every job of its cluster.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="push_tokens")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, null=True, blank=True, related_name="push_tokens")
    user = models.CharField(max_length=100, blank=True)
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, unique=True)
    digest = models.CharField(max_length=64)  # SHA-256 of the secret part
    made_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)  # to the minute

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def reach(self) -> str:
        """What it is good for, as people read it."""
        if self.job is not None:
            return f"job {self.job.job_id} of {self.cluster}"
        return f"jobs of {self.user} on {self.cluster}" if self.user else f"every job of {self.cluster}"


class PushBatch(models.Model):
    """One batch that was pushed: an inbox until ingest has read it, then the memory that it came.

    `rows` holds recovery/core/pushed.py's PushedRow as objects, and none once they are read.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="pushed")
    batch_id = models.CharField(max_length=64)
    received_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True, blank=True)
    rows = models.JSONField(default=list, blank=True)
    count = models.IntegerField(default=0)  # rows that it brought

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["attempt", "batch_id"], name="one_row_per_batch")]
        indexes = [
            models.Index(fields=["attempt", "id"], condition=Q(read_at=None), name="push_unread"),
            models.Index(fields=["received_at"], name="push_by_age"),
        ]

    def __str__(self) -> str:
        return f"batch {self.batch_id} of {self.attempt}"


class PushSender(models.Model):
    """That an attempt pushes: when it was last heard, also with nothing to tell, and when it last told a step."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="push_sender")
    heard_at = models.DateTimeField()
    progressed_at = models.DateTimeField(null=True, blank=True)
    dropped = models.BigIntegerField(default=0)  # rows that the client says it had no room for

    def __str__(self) -> str:
        return f"sender of {self.attempt}"


class SourceHealth(Leased):
    """One source of a cluster beside the scheduler: when it was asked, whether it answers, and how far it was read."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="source_health")
    source = models.CharField(max_length=20)  # of recovery/core/source_options.py
    tried_at = models.DateTimeField(null=True, blank=True)
    good_at = models.DateTimeField(null=True, blank=True)  # of the last try without trouble
    detail = models.CharField(max_length=300, blank=True)  # what the last good try brought
    trouble = models.CharField(max_length=300, blank=True)  # of the last try; "" where it was good
    remedy = models.CharField(max_length=300, blank=True)
    position = models.JSONField(default=dict, blank=True)  # how far it was read, as the source itself says

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "source"], name="one_row_per_source")]

    def __str__(self) -> str:
        return f"{self.source} of {self.cluster}"


class KernelLog(models.Model):
    """One file with kernel lines, and how far it was read. `node` is "" where each line names its own."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="kernel_logs")
    path = models.CharField(max_length=1000)
    node = models.CharField(max_length=100, blank=True)
    inode = models.BigIntegerField(default=0)
    offset = models.BigIntegerField(default=0)
    line = models.BigIntegerField(default=0)
    head = models.CharField(max_length=64, blank=True)
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "path"], name="one_row_per_kernel_log")]

    def __str__(self) -> str:
        return self.path


class Reading(models.Model):
    """One measured value of an attempt on one of its nodes at one moment: the mean over the node's GPUs or links."""

    pk = models.CompositePrimaryKey("attempt_id", "name", "node", "at")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="readings")
    name = models.CharField(max_length=20)  # of recovery/core/gpu.py
    node = models.CharField(max_length=100)
    at = models.DateTimeField()
    value = models.FloatField()

    class Meta:
        ordering = ["at"]
        indexes = [models.Index(fields=["at"], name="reading_by_age")]

    def __str__(self) -> str:
        return f"{self.name} of {self.node} at {self.at}"
