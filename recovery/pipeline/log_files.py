"""Part of ingest: which log files an attempt writes, as far as Slurm, the job's comment and the folders tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db.models import Q

from recovery.core.log_patterns import LogFacts, LogPattern
from recovery.core.log_patterns import log_pattern as named_log
from recovery.core.logs.own_pattern import OwnPattern
from recovery.core.policy import log_pattern
from recovery.models import Attempt, Job, LogFile
from recovery.pipeline.same_run import of_job, of_run
from recovery.selectors import current_policy
from recovery.sources.find_logs import MOST_ENTRIES, FoundLog, FoundLogs, find_logs

LONGEST_PATH = 1000  # what the table holds; a longer one is cut, and not found
MOST_FILES = 512  # of one attempt
MOST_FOLLOWED = 2000  # of one attempt in its whole life, and folders: who makes new files for ever fills no table
MOST_FOLDERS = 100  # whose marks are kept; where a pattern looks into more, it is looked up at each look
TOO_MANY = f"More than {MOST_FOLLOWED} log files came up in this attempt: newer ones are not read."
CLOCKS_S = 60  # so far apart the clocks of nodes, file server and scheduler may be
NO_FILE = "The job writes no log file that Slurm knows of."
NAME_ONE = 'Submit it with an output file, or name one in the comment: {"recovery": {"log": "/path/%x-%j.out"}}.'


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFiles:
    """The files to read now.

    trouble, remedy: two sentences where there is something that can't be read, else "".
    missing: the first pattern, where none of them names a file yet, else "".
    marks: of folders; while none of them changes, the patterns name the same files. Empty where no pattern is open.
    left_out: a sentence where not all files of a pattern are read, else "". The others are, so nobody is blind for it.
    """

    files: tuple[FoundLog, ...] = ()
    trouble: str = ""
    remedy: str = ""
    missing: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)
    left_out: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(log.path for log in self.files)


def log_files(attempt: Attempt) -> LogFiles:
    """The files that `attempt` writes: what the comment's `log` names, else the job's own output."""
    if patterns := _patterns(attempt.job, attempt.nodes):
        return _named(patterns, attempt.started_at)
    files = tuple(FoundLog(path=path) for path in _outputs(attempt.job))
    return LogFiles(files=files) if files else LogFiles(trouble=NO_FILE, remedy=NAME_ONE)


def _named(patterns: Sequence[LogPattern], started_at: datetime | None) -> LogFiles:
    since = started_at.timestamp() - CLOCKS_S if started_at is not None else 0
    every = [find_logs(pattern, roots=settings.LOG_ROOTS, since=since) for pattern in patterns]
    files = {log.path: log for found in every for log in found.files if len(log.path) <= LONGEST_PATH}
    refused = next((found.refused for found in every if found.refused is not None), None)
    return LogFiles(
        files=tuple(files.values())[:MOST_FILES],
        left_out=_left_out(patterns, every, len(files)),
        trouble="" if refused is None else refused.sentence,
        remedy="" if refused is None else refused.remedy,
        missing="" if files else patterns[0].text[:LONGEST_PATH],
        marks=_marks(every),
    )


def _marks(every: Sequence[FoundLogs]) -> dict[str, str]:
    """Of the folders that were listed. Of too many the first alone, with the mark that no folder has."""
    marks = {folder: mark for found in every for folder, mark in found.marks.items() if len(folder) <= LONGEST_PATH}
    return marks if len(marks) <= MOST_FOLDERS else {next(iter(marks)): ""}


def _left_out(patterns: Sequence[LogPattern], every: Sequence[FoundLogs], count: int) -> str:
    for pattern, found in zip(patterns, every, strict=True):
        if found.cut:
            return f"Not all files of {pattern.text} are read: more than {MOST_ENTRIES} names lie where it looks."
        if found.left_out:
            more = f"{found.left_out} more than the {len(found.files)} that are"
            return f"Not all files of {pattern.text} are read: there are {more}; the highest rank is among those."
    return f"Only {MOST_FILES} of {count} log files are read." if count > MOST_FILES else ""


def new_row(attempt: Attempt, path: str, before: Mapping[str, LogFile]) -> LogFile:
    """A new attempt reads on where those `before` it stopped."""
    row = LogFile(attempt=attempt, path=path[:LONGEST_PATH])
    if last := before.get(row.path):
        row.inode, row.offset, row.line, row.head = last.inode, last.offset, last.line, last.head
    return row


def rows_before(attempt: Attempt, paths: Collection[str]) -> dict[str, LogFile]:
    """How far these files were read for whoever wrote into them before, by path; one query.

    That is an earlier attempt of the job, or an earlier job of the run: with `--open-mode=append` it is one file. In a
    federation it may have been on another cluster.
    """
    if not paths or (attempt.number == 0 and attempt.read_at is not None):
        return {}
    earlier = of_job(attempt.job, "attempt__job") & Q(attempt__number__lt=attempt.number)
    if attempt.started_at is not None:
        earlier |= of_run(attempt.job, "attempt__job__run") & Q(attempt__ended_at__lte=attempt.started_at)
    names = [path[:LONGEST_PATH] for path in paths]
    rows = LogFile.objects.filter(earlier, path__in=names)
    return {row.path: row for row in rows.exclude(attempt=attempt).order_by("attempt__started_at", "attempt__number")}


def log_paths(job: Job) -> list[str]:
    """What the job's logs are called, patterns as they were written where only the folders tell their files."""
    patterns = _patterns(job, ())
    return [pattern.text[:LONGEST_PATH] for pattern in patterns] if patterns else _outputs(job)


def _patterns(job: Job, nodes: Sequence[str]) -> list[LogPattern]:
    named = job.options.get("log", [])
    facts = LogFacts(job_id=job.job_id, raw_id=job.raw_id, name=job.name, user=job.user, nodes=tuple(nodes))
    return [named_log(str(pattern), facts) for pattern in ([named] if isinstance(named, str) else named)]


def _outputs(job: Job) -> list[str]:
    return list(dict.fromkeys(path for path in (job.stdout, job.stderr) if path and path != "/dev/null"))


def site_pattern() -> OwnPattern | None:
    """How the policy in force says that the site's own trainers print progress; None where it doesn't. One query."""
    policy = current_policy()
    return log_pattern(policy.rules) if policy is not None else None
