"""Part of poll: the run that each new job belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b

from recovery.models import Cluster, Job, Run
from recovery.pipeline.bulk import CHUNK, chunks, write_changes

LONGEST_KEY = 500  # what the table holds


def give_runs(cluster: Cluster, jobs: Sequence[Job], *, now: datetime) -> None:
    """Set `run` of jobs that have none yet; runs that are not there are made."""
    wanted = {run_key(job): job for job in jobs}
    runs = _known(cluster, list(wanted))
    missing = [_new_run(cluster, key, job, now=now) for key, job in wanted.items() if key not in runs]
    # The same run may be made elsewhere at this moment: then its key is found, and its row stays as it is.
    made = Run.objects.bulk_create(
        missing, batch_size=CHUNK, update_conflicts=True, unique_fields=["cluster", "key"], update_fields=["key"]
    )
    runs |= {run.key: run for run in made}
    moved: dict[int, Run] = {}
    for job in jobs:
        job.run = runs[run_key(job)]
        folder = str(job.options.get("checkpoint_dir", ""))
        if folder and job.run.checkpoint_dir != folder:
            job.run.checkpoint_dir = folder
            moved[job.run.pk] = job.run
    write_changes(list(moved.values()), ["checkpoint_dir"])


def run_key(job: Job) -> str:
    """What joins jobs to one run. The user is part of every key: nobody can join somebody else's run."""
    folder = str(job.options.get("checkpoint_dir", ""))
    if job.options.get("run"):
        key = f"{job.user}/run:{job.options['run']}"
    elif folder:
        key = f"{job.user}/{job.name}/{folder}"
    else:  # nothing joins it to any other job
        key = f"{job.user}/{job.name}/job:{job.job_id}@{job.first_submitted_at.isoformat()}"
    if len(key) <= LONGEST_KEY:
        return key
    digest = blake2b(key.encode(errors="replace"), digest_size=16).hexdigest()  # two that begin alike stay two
    return f"{key[: LONGEST_KEY - len(digest) - 1]}~{digest}"


def _known(cluster: Cluster, keys: Sequence[str]) -> dict[str, Run]:
    found: dict[str, Run] = {}
    for some in chunks(keys):
        found.update((run.key, run) for run in Run.objects.filter(cluster=cluster, key__in=some))
    return found


def _new_run(cluster: Cluster, key: str, job: Job, *, now: datetime) -> Run:
    name = str(job.options.get("run", "")) or job.name or f"job {job.job_id}"
    folder = str(job.options.get("checkpoint_dir", ""))
    return Run(cluster=cluster, key=key, name=name[:200], user=job.user, checkpoint_dir=folder, created_at=now)
