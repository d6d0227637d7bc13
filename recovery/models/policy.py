from __future__ import annotations

from django.db import models
from django.db.models import Q


class PolicyVersion(models.Model):
    """An immutable version of the policy; the newest holds. `rules` is what recovery/core/policy/ reads."""

    number = models.IntegerField(unique=True)
    rules = models.JSONField()
    author = models.CharField(max_length=150)
    reason = models.CharField(max_length=300)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-number"]

    def __str__(self) -> str:
        return f"version {self.number}"


class Promotion(models.Model):
    """The product's proposal to let a rule go by itself, with the figures that it rests on, and what became of it."""

    rule = models.CharField(max_length=100)
    policy = models.ForeignKey(PolicyVersion, on_delete=models.PROTECT, related_name="promotions")  # that held then
    reason = models.CharField(max_length=300)
    figures = models.JSONField(default=dict)
    proposed_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)  # None: it waits for a person
    decided_by = models.CharField(max_length=150, blank=True)
    decision_reason = models.CharField(max_length=300, blank=True)
    made = models.ForeignKey(
        PolicyVersion, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )  # the version that it became; None: rejected, or it no longer applied

    class Meta:
        ordering = ["-proposed_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["rule"], condition=Q(decided_at=None), name="one_open_promotion_per_rule")
        ]

    def __str__(self) -> str:
        return f"promotion of {self.rule}"
