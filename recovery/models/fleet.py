"""What is told of many jobs or of a node: failures that belong together, strikes of nodes, and who is suspect."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from recovery.core.types import FailureClass
from recovery.models.cluster import Cluster


class Outbreak(models.Model):
    """Several runs failed together: the parent of their incidents. Written by recovery/pipeline/fleet.py alone."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="outbreaks")
    headline = models.CharField(max_length=300)
    # what its incidents have in common, the most telling first: {"kind", "what", "runs", "sentence"} (core/fleet.py)
    shared = models.JSONField(default=list, blank=True)
    runs = models.IntegerField()  # that failed in it, each once
    began_at = models.DateTimeField()  # of the first failure
    last_failed_at = models.DateTimeField()
    opened_at = models.DateTimeField()  # when it was seen to be one
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_reason = models.CharField(max_length=300, blank=True)
    restart_from = models.DateTimeField()  # the next restart of one of its jobs may begin then: they are staggered

    class Meta:
        ordering = ["-began_at", "-id"]
        indexes = [models.Index(fields=["cluster"], condition=Q(closed_at=None), name="outbreak_open")]

    def __str__(self) -> str:
        return f"outbreak {self.pk}"


class NodeStrike(models.Model):
    """One failure that was seen to have begun on one node. Written with the verdict, and corrected by what follows."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="strikes")
    node = models.CharField(max_length=100)  # by name: the node may be gone
    incident = models.ForeignKey("recovery.Incident", on_delete=models.CASCADE, related_name="strikes")
    at = models.DateTimeField()
    failure_class = models.CharField(max_length=30, choices=[(c.value, c.value) for c in FailureClass])
    proven = models.BooleanField()  # the verdict said to leave the node out; else it was a suspicion
    told_by = models.CharField(max_length=20)  # recovery.core.node_memory.ToldBy
    reason = models.CharField(max_length=500)
    # how the run went on after it: True on other nodes, False on this one; None not seen
    elsewhere = models.BooleanField(null=True, blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["incident", "node"], name="one_strike_per_incident_and_node")]
        indexes = [models.Index(fields=["cluster", "node", "at"], name="strike_by_node")]

    def __str__(self) -> str:
        return f"strike of {self.node}"


class Suspect(models.Model):
    """A node that recommendations avoid until `until`, put there by its strikes or by a person."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="suspects")
    node = models.CharField(max_length=100)
    since = models.DateTimeField()
    until = models.DateTimeField()
    score = models.FloatField(null=True, blank=True)  # of its strikes, when it was last looked at; None: a person's
    reason = models.CharField(max_length=500)
    added_by = models.CharField(max_length=150, blank=True)  # the person; "": its strikes
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=150, blank=True)  # the person; "": it ran out
    ended_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["cluster", "node", "-since"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "node"], condition=Q(ended_at=None), name="one_open_suspicion")
        ]

    def __str__(self) -> str:
        return self.node
