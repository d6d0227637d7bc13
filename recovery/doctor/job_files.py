"""Whether what jobs write can be seen: their comments, logs and checkpoint folders, against the roots."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import PurePath

from django.conf import settings

from recovery import selectors
from recovery.doctor.installation import roots
from recovery.doctor.results import Group, Result, State
from recovery.models import Cluster, Job
from recovery.pipeline.log_files import log_paths
from recovery.selectors import EXECUTING

COMMENT_LINE = """#SBATCH --comment='{"recovery": {"run": "NAME", "checkpoint_dir": "/FOLDER"}}'"""


def examine_files(cluster: Cluster, *, now: datetime) -> Iterator[Result]:
    """From the stored picture: nothing here asks Slurm."""
    yield from roots(now)
    running = list(Job.objects.filter(cluster=cluster, state__in=EXECUTING).select_related("run"))
    yield comments(cluster, now=now)
    logs = [(job, path) for job in running for path in log_paths(job)]
    yield _below("logs of running jobs", logs, settings.LOG_ROOTS, "RECOVERY_LOG_ROOTS", now=now)
    folders = [(job, job.run.checkpoint_dir) for job in running if job.run.checkpoint_dir]
    yield _below(
        "checkpoints of running jobs", folders, settings.CHECKPOINT_ROOTS, "RECOVERY_CHECKPOINT_ROOTS", now=now
    )
    blind = selectors.blind_attempts().filter(job__cluster=cluster)
    first = blind.first()
    if first is not None:
        detail = f"{blind.count()}; job {first.job.job_id}: {first.blind_reason}"
        yield _result("blind attempts", detail, State.ATTENTION, remedy=first.blind_remedy, at=now)


def _result(what: str, detail: str, state: State, *, at: datetime, remedy: str = "") -> Result:
    return Result(group=Group.FILES, what=what, detail=detail, state=state, remedy=remedy, at=at)


def comments(cluster: Cluster, *, now: datetime) -> Result:
    what = "job comments"
    jobs = Job.objects.filter(cluster=cluster)
    carrying = jobs.exclude(comment="").order_by("-first_submitted_at").first()
    if carrying is not None:
        return _result(what, f"visible: job {carrying.job_id} carries one", State.GOOD, at=now)
    if not jobs.exists():
        return _result(what, "no job had been seen when this was looked at", State.NOT_TRIED, at=now)
    detail = "no job that was seen carries one: either nobody wrote one, or they don't reach us"
    return _result(what, detail, State.NOT_TRIED, remedy=f"A job opts in with {COMMENT_LINE}.", at=now)


def _below(what: str, paths: Sequence[tuple[Job, str]], roots: Sequence[str], setting: str, *, now: datetime) -> Result:
    """Whether each path lies below a root, by its name alone: links that lead out of it are refused when read."""
    if not paths:
        return _result(what, "none is named now", State.NOT_TRIED, at=now)
    outside = [(job, path) for job, path in paths if not _lies_below(path, roots)]
    if not outside:
        detail = "the only one lies below a root" if len(paths) == 1 else f"all {len(paths)} lie below a root"
        return _result(what, detail, State.GOOD, at=now)
    job, path = outside[0]
    detail = f"{len(outside)} of {len(paths)} lie outside of the roots; the first is {path[:300]} of job {job.job_id}"
    remedy = f"Add their folder to {setting}, or let the jobs write below {', '.join(roots)}."
    return _result(what, detail, State.ATTENTION, remedy=remedy, at=now)


def _lies_below(path: str, roots: Sequence[str]) -> bool:
    return any(PurePath(os.path.normpath(path)).is_relative_to(root) for root in roots)
