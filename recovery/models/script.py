from __future__ import annotations

from django.db import models

from recovery.models.job import Job


class BatchScript(models.Model):
    """The script that a job was submitted with, kept while Slurm still has it: a resubmission starts from it.

    A table of its own, so that nobody reads megabytes of script with a job.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="batch_script")
    text = models.TextField(blank=True)  # "" where it could not be had
    error = models.CharField(max_length=300, blank=True)  # why not; "" where it was
    fetched_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"script of {self.job}"
