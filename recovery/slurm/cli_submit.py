"""Submitting a stored batch script with sbatch.

The script comes on sbatch's standard input. sbatch itself becomes the job's user first (runuser), so that Slurm judges
the script's own #SBATCH lines by that user's rights: with root's and --uid, a line such as `#SBATCH --gid=0` would be
obeyed. The job gets its user's login environment (--get-user-env) and what was asked for besides; these variables
go through a file (--export-file), never through the environment of sbatch, where LD_PRELOAD or SBATCH_* would act.
Our own resource limits stay with us (--propagate=NONE): those of a service are not what a training job needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from recovery.slurm.base import SlurmRefused, Submission
from recovery.slurm.cli_writes import minutes
from recovery.slurm.command import Input
from recovery.slurm.json_values import BadAnswer, clean
from recovery.slurm.names import one_line

_SUBMITTED = re.compile(r"([1-9][0-9]{0,9})(;[A-Za-z0-9_.-]+)?\n")


def arguments(submission: Submission, *, tried: str) -> list[str]:
    """The command line of a checked submission."""
    options = {
        "--chdir": submission.work_dir,
        "--job-name": one_line(submission.name, 200),
        "--account": submission.account,
        "--partition": submission.partition,
        "--comment": clean(submission.comment),
        "--exclude": ",".join(submission.excluded_nodes),
    }
    argv = ["sbatch", "--parsable", "--get-user-env", "--export=ALL", "--propagate=NONE"]
    argv += [f"{option}={value}" for option, value in options.items() if value]
    if submission.time_limit_s is not None:
        argv.append(f"--time={minutes(submission.time_limit_s, tried=tried)}")
    return [*argv, "--hold"] if submission.hold else argv


def given(submission: Submission) -> Input:
    """With a file of variables sbatch forgets to tell the job its own name, which `%x` in its log's name stands for."""
    environment = dict(submission.environment)
    if environment and submission.name:
        environment = {"SLURM_JOB_NAME": one_line(submission.name, 200), **environment}
    variables = b"".join(f"{name}={value}\0".encode() for name, value in environment.items())
    return Input(text=submission.script, file=variables or None, file_option="--export-file=")


def job_id(answer: str) -> str:
    """ "4711" or "4711;cluster": what --parsable prints, and nothing else. Raises BadAnswer."""
    found = _SUBMITTED.fullmatch(answer)
    if found is None:
        raise BadAnswer(f"{clean(answer)[:200]!r} is no job id")
    return found[1]


def become(submission: Submission, *, whoami: Callable[[], str], tried: str) -> str:
    """Whom sbatch must become: "" where we are the job's user already. Raises SlurmRefused where we can't."""
    ours = whoami()
    if ours == submission.user:
        return ""
    if ours != "root":
        message = f"we are {ours}: only root can submit for {submission.user}"
        raise SlurmRefused(message, tried=tried, permanent=True)
    return submission.user
