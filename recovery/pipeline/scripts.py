"""The batch scripts of jobs: kept while Slurm has them, and submitted again with changes.

What a user gave on sbatch's command line does not stand in the script, so what we know of the job is written into a
copy as #SBATCH lines behind the script's own, where the last one holds; and with them our key, as a comment. By this
key a job that we submitted is found again where the answer was lost: reading a script takes no right that fetching it
did not take, and the user's own comment stays as it was.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from recovery.models import Attempt, BatchScript, Job
from recovery.pipeline.subject import MARK
from recovery.slurm.base import (
    JobNotFound,
    JobRecord,
    Operation,
    SlurmClient,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
    Submission,
)

CLOCKS_APART = timedelta(minutes=2)  # so far the controller's clock may be behind ours
MOST_READ = 500  # scripts that are read in one look to find one job of ours among others of the same user
_PLAIN = re.compile(r"[A-Za-z0-9_.,:=&|()\[\]*@+/%-]{1,300}")  # what can stand on an #SBATCH line as one word
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def keep_script(job: Job, *, client: SlurmClient, now: datetime) -> None:
    """Fetch the job's script once, while the controller still knows it. A failure that may pass is tried again."""
    if job.vanished_at is not None or BatchScript.objects.filter(job=job).exists():
        return
    can, text, error = client.can(Operation.BATCH_SCRIPT), "", ""
    if not can:
        error = f"{can.reason} {can.remedy}".strip()
    else:
        try:
            text = client.batch_script(job.job_id)
        except SlurmError as trouble:
            if not trouble.permanent:
                return
            error = "Slurm no longer knows the job." if isinstance(trouble, JobNotFound) else str(trouble)
    BatchScript.objects.get_or_create(job=job, defaults={"text": text, "error": error[:300], "fetched_at": now})


def why_not_resubmitted(job: Job, *, client: SlurmClient) -> str:
    """Why this job can't be submitted again, in words; "" where it can."""
    if "+" in job.job_id:
        return "It is a component of a heterogeneous job, which has no script of its own."
    if job.origin:
        return (
            f"It was submitted on cluster {job.origin} of the federation: whether another cluster has it by now "
            "can't be seen from here."
        )
    can = client.can(Operation.SUBMIT)
    if not can:
        return f"{can.reason} {can.remedy}".strip()
    kept = BatchScript.objects.filter(job=job).first()
    if kept is None or not kept.text:
        why = kept.error if kept is not None else "It was not fetched in time."
        return f"Its batch script is not known. {why}"
    return ""


def submission_of(job: Job, parameters: Mapping[str, Any], exclude_nodes: Sequence[str]) -> Submission:
    """The job once more, held, with the changes of `parameters` (time_limit_s, environment), run by the same user."""
    text = BatchScript.objects.get(job=job).text
    limit = parameters.get("time_limit_s", job.time_limit_s)
    return Submission(
        script=with_lines(text, added_lines(job, parameters["key"])), user=job.user, work_dir=job.work_dir,
        name=job.name, account=job.account, partition=job.partition, comment=job.comment,
        admin_comment=f"{MARK}{parameters['key']}", excluded_nodes=tuple(sorted({*job.excluded_nodes, *exclude_nodes})),
        time_limit_s=limit, hold=True, environment=dict(parameters.get("environment", {})),
    )  # fmt: skip


def added_lines(job: Job, key: str) -> list[str]:
    """What is known of the job and may not stand in its script. An array task is submitted as that task alone."""
    index = job.job_id.partition("_")[2]
    known = {
        "array": index, "nodes": str(job.node_count or ""), "qos": job.qos, "reservation": job.reservation,
        "constraint": job.features, "nodelist": ",".join(job.required_nodes),
    }  # fmt: skip
    options = [f"#SBATCH --{name}={value}" for name, value in known.items() if _PLAIN.fullmatch(value)]
    return [f"# {MARK}{key}: job {job.job_id} submitted again", *options]


def with_lines(script: str, lines: Sequence[str]) -> str:
    """The script with lines behind its last #SBATCH line (else behind its first line): sbatch takes the last word.

    sbatch reads such lines up to the first one that is neither empty nor a comment.
    """
    own = script.split("\n")
    place = 1
    for number, line in enumerate(own):
        if line.startswith("#SBATCH"):
            place = number + 1
        elif line.strip() and not line.startswith("#"):
            break
    return "\n".join([*own[:place], *lines, *own[place:]])


def find_submitted(attempt: Attempt, key: str, *, since: datetime, client: SlurmClient) -> list[JobRecord]:
    """The records of the job that was submitted under `key`: one, or those of an array; none where it is certain.

    Raises SlurmError, also where there are more jobs to look into than that.
    """
    job = attempt.job
    found = [
        record
        for record in client.jobs()
        if record.user == job.user and record.submitted_at >= since - CLOCKS_APART and record.job_id != job.job_id
    ]
    marked = [record for record in found if f"{MARK}{key}" in record.admin_comment]
    if marked:
        return marked
    scripts: dict[str, list[JobRecord]] = defaultdict(list)  # tasks of an array share one; ours was submitted held
    for record in sorted(found, key=lambda r: (r.name != job.name, not r.held, r.submitted_at)):
        scripts[record.job_id.partition("_")[0]].append(record)
    for number, records in enumerate(scripts.values()):
        if number == MOST_READ:
            tried = f"find the job that was submitted as {MARK}{key}"
            raise SlurmUnreachable(f"{job.user} has submitted more than {MOST_READ} others since", tried=tried)
        if _carries(records[0], key, named=job.name, client=client):
            return records
    return []


def _carries(record: JobRecord, key: str, *, named: str, client: SlurmClient) -> bool:
    try:
        return f"# {MARK}{key}:" in client.batch_script(record.job_id)
    except JobNotFound:
        return False
    except SlurmRefused as refused:
        if refused.permanent and record.name != named:
            return False  # an interactive job has no script
        raise


def check_environment(given: Any) -> str:
    """What is wrong with variables for a resubmission, as a sentence; "" where nothing is."""
    if not isinstance(given, dict) or len(given) > 50:
        return "must be an object of at most 50 variables."
    for name, value in given.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            return f"{str(name)[:50]!r} is no name of a variable."
        if not isinstance(value, str) or len(value) > 4096 or not value.isprintable():
            return f"the value of {name} must be one line of text."
    return ""
