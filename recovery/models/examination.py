from __future__ import annotations

from django.db import models

from recovery.models.cluster import Cluster
from recovery.models.leased import Leased


class Examination(Leased):
    """What the doctor last found on one cluster, as the worker that looked sees it."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="examination")
    at = models.DateTimeField(null=True, blank=True)  # None: asked for, not done yet
    results = models.JSONField(default=list, blank=True)  # recovery/doctor/results.py: Result, each as an object

    def __str__(self) -> str:
        return f"examination of {self.cluster}"
