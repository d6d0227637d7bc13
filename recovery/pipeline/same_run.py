"""Rows of a run, or of a job, wherever in its federation they are: each cluster has its own row of either."""

from __future__ import annotations

from django.db.models import Q

from recovery.models import Job
from recovery.slurm.federation import is_of_one


def of_run(job: Job, by: str = "run") -> Q:
    """Those of the job's run, and of the run by the same key on the other clusters; `by`: the lookup of the run."""
    federation, own = job.cluster.federation, Q(**{by: job.run_id})
    return own | Q(**{f"{by}__key": job.run.key, f"{by}__cluster__federation": federation}) if federation else own


def of_job(job: Job, by: str = "job") -> Q:
    """Those of the job, and of the same job on the other clusters: a number of a federation is one job's alone."""
    federation, own = job.cluster.federation, Q(**{by: job.pk})
    if not federation or not job.raw_id or not is_of_one(job.raw_id):
        return own
    same = {f"{by}__job_id": job.job_id, f"{by}__user": job.user, f"{by}__cluster__federation": federation}
    return own | Q(**same)
