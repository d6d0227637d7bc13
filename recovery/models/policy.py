from __future__ import annotations

from django.db import models


class PolicyVersion(models.Model):
    """An immutable version of the policy; the newest holds. `rules` is what recovery/core/policy.py reads."""

    number = models.IntegerField(unique=True)
    rules = models.JSONField()
    author = models.CharField(max_length=150)
    reason = models.CharField(max_length=300)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-number"]

    def __str__(self) -> str:
        return f"version {self.number}"
