"""Recovery Desk: recovers AI training jobs on Slurm."""

from recovery.celery import app as celery_app

__all__ = ["celery_app"]
