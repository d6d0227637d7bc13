"""An external diagnostic service: how it answers, and what it says of each case. Nothing that acts reads them."""

from __future__ import annotations

from django.db import models

from recovery.models.incident import Incident
from recovery.models.leased import Leased


class ProviderLane(Leased):
    """The one queue to the service: under its lease one worker asks one question at a time."""

    kind = models.CharField(max_length=20, unique=True)  # of recovery/providers/, as RECOVERY_PROVIDER names it
    tried_at = models.DateTimeField(null=True, blank=True)
    good_at = models.DateTimeField(null=True, blank=True)  # of the last try without trouble
    trouble = models.CharField(max_length=300, blank=True)  # of the last try; "" where it was good
    remedy = models.CharField(max_length=300, blank=True)
    failures = models.IntegerField(default=0)  # so many tries failed one after the other

    def __str__(self) -> str:
        return self.kind


class SecondOpinion(models.Model):
    """What the service says of one case, beside our verdict. The row is there before the service is asked."""

    incident = models.OneToOneField(Incident, on_delete=models.CASCADE, related_name="second_opinion")
    provider = models.CharField(max_length=20)
    tries = models.IntegerField(default=0)
    asked_at = models.DateTimeField()  # of the last try
    answered_at = models.DateTimeField(null=True, blank=True)
    duration_s = models.FloatField(null=True, blank=True)  # of the call that brought the answer
    failure_class = models.CharField(max_length=60, blank=True)  # in its own words; "" where it names none
    restart = models.CharField(max_length=20, blank=True)  # "yes" or "no"; "" where it does not say
    nodes = models.JSONField(default=list, blank=True)
    confidence = models.FloatField(null=True, blank=True)
    reason = models.CharField(max_length=1000, blank=True)
    trouble = models.CharField(max_length=300, blank=True)  # why there is no answer; "" where there is, or none yet
    remedy = models.CharField(max_length=300, blank=True)
    # our own verdict at that moment, so that agreement is counted against what was said then
    our_class = models.CharField(max_length=30, blank=True)
    our_restart = models.CharField(max_length=20, blank=True)

    class Meta:
        ordering = ["-asked_at"]
        indexes = [models.Index(fields=["asked_at"], name="opinion_by_age")]

    def __str__(self) -> str:
        return f"{self.provider} on {self.incident}"
