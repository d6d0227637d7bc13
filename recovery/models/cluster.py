from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models

from recovery.core.types import NodeState
from recovery.models.leased import Leased


class Cluster(Leased):
    """One Slurm controller, with the back end used to reach it, and the state of the picture that we have of it."""

    name = models.SlugField(unique=True)
    backend = models.CharField(max_length=20, choices=[("cli", "Slurm commands"), ("simulator", "Simulator")])
    # cli: {"slurm_conf": PATH, "bin_dir": PATH}; simulator: {"state_dir": PATH}
    options = models.JSONField(default=dict, blank=True)
    enabled = models.BooleanField(default=True)
    poll_interval_s = models.FloatField(default=10)

    release = models.CharField(max_length=40, blank=True)
    accounting = models.BooleanField(default=False)
    requeue_delay_s = models.FloatField(default=121)  # Slurm's own default: cred_expire 120 s, plus 1
    seen_at = models.DateTimeField(null=True, blank=True)  # of the last good picture
    tried_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)  # of the last try; "" when it was good

    # automation stopped by a person: nothing is decided by policy until it is armed again
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_by = models.CharField(max_length=150, blank=True)
    paused_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def is_stale(self, now: datetime) -> bool:
        """True where the last good answer is too old to act on, or the last try failed."""
        if self.seen_at is None or self.error:
            return True
        return (now - self.seen_at).total_seconds() > settings.STALE_AFTER_S


class Node(models.Model):
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=100)
    state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in NodeState])
    raw_state = models.CharField(max_length=100, blank=True)
    partitions = models.JSONField(default=list, blank=True)
    reason = models.CharField(max_length=300, blank=True)
    reason_by = models.CharField(max_length=100, blank=True)
    reason_at = models.DateTimeField(null=True, blank=True)
    changed_at = models.DateTimeField()  # when we first saw it in this state

    class Meta:
        ordering = ["cluster", "name"]
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="one_row_per_node")]

    def __str__(self) -> str:
        return self.name
