from __future__ import annotations

from django.db import models
from django.db.models import Q

from recovery.core.detectors.alarm import AlarmKind
from recovery.models.job import Attempt, Run


class Alarm(models.Model):
    """What a detector says of an attempt for people to know. Nothing is done on it, and it is no incident."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="alarms")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="alarms")
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in AlarmKind])
    since = models.DateTimeField()
    raised_at = models.DateTimeField()
    seen_at = models.DateTimeField()  # the last judgement that found it so
    ended_at = models.DateTimeField(null=True, blank=True)  # None: it holds
    reason = models.CharField(max_length=500)
    remedy = models.CharField(max_length=300, blank=True)
    evidence = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["-raised_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "kind"], condition=Q(ended_at=None), name="one_alarm_of_a_kind_per_attempt"
            )
        ]
        indexes = [models.Index(fields=["run"], condition=Q(ended_at=None), name="alarm_that_holds")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.attempt}"
