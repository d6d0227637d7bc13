"""Part of ingest: which log files an attempt writes, as far as Slurm, the job's comment and the folders tell."""

from __future__ import annotations

from dataclasses import dataclass

from recovery.core.comment import expand_log_pattern
from recovery.models import Attempt, Job

LONGEST_PATH = 1000  # what the table holds; a longer one is cut, and not found
NO_FILE = "The job writes no log file that Slurm knows of."
NAME_ONE = 'Submit it with an output file, or name one in the comment: {"recovery": {"log": "/path/%x-%j.out"}}.'


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFiles:
    """The files to read now. `trouble` and `remedy` are sentences where there is none, else ""."""

    paths: tuple[str, ...] = ()
    trouble: str = ""
    remedy: str = ""


def log_files(attempt: Attempt) -> LogFiles:
    """The files that `attempt` writes."""
    paths = log_paths(attempt.job)
    return LogFiles(paths=tuple(paths)) if paths else LogFiles(trouble=NO_FILE, remedy=NAME_ONE)


def log_paths(job: Job) -> list[str]:
    """The comment's `log`, else the job's own output."""
    pattern = str(job.options.get("log", ""))
    if pattern:
        return [expand_log_pattern(pattern, job_id=job.job_id, name=job.name, user=job.user)[:LONGEST_PATH]]
    return list(dict.fromkeys(path for path in (job.stdout, job.stderr) if path and path != "/dev/null"))
