"""Submitting a stored batch script with sbatch.

The script comes on sbatch's standard input. sbatch itself becomes the job's user first (runuser), so that Slurm judges
the script's own #SBATCH lines by that user's rights: with root's and --uid, a line such as `#SBATCH --gid=0` would be
obeyed. The job gets its user's login environment (--get-user-env) and what was asked for besides; these variables
go through a file (--export-file), never through the environment of sbatch, where LD_PRELOAD or SBATCH_* would act.
Our own resource limits stay with us (--propagate=NONE): those of a service are not what a training job needs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

from recovery.slurm.base import SlurmError, SlurmRefused, Submission
from recovery.slurm.cli_writes import minutes
from recovery.slurm.command import Input
from recovery.slurm.json_values import BadAnswer, clean
from recovery.slurm.names import one_line

# What sbatch tells a job's steps of the options on its #SBATCH lines: it sets these in its own environment, which is
# thrown away where variables come from a file. From 24.05 on slurmctld tells most of them, and never the hint.
_TOLD = {
    "--acctg-freq": "SLURM_ACCTG_FREQ", "--container": "SLURM_CONTAINER", "--container-id": "SLURM_CONTAINER_ID",
    "--cpu-freq": "SLURM_CPU_FREQ_REQ", "--dependency": "SLURM_JOB_DEPENDENCY", "-d": "SLURM_JOB_DEPENDENCY",
    "--hint": "SLURM_HINT", "--open-mode": "SLURM_OPEN_MODE", "--profile": "SLURM_PROFILE",
}  # fmt: skip
_NEXT_COMPONENT = ("hetjob", "packjob")
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
    """With a file of variables sbatch forgets what else it would tell the job, so that is in the file, too: its name,
    which `%x` in its log's name stands for, and what its steps take from its options."""
    if not submission.environment:
        return Input(text=submission.script, file=None, file_option="--export-file=")
    name = {"SLURM_JOB_NAME": one_line(submission.name, 200)} if submission.name else {}
    environment = {**name, **told_to_steps(submission.script), **submission.environment}
    variables = b"".join(f"{name}={value}\0".encode() for name, value in environment.items())
    return Input(text=submission.script, file=variables, file_option="--export-file=")


def explained(error: SlurmError) -> SlurmError:
    """Slurm 23.11 has no --export-file, which 23.02 and 24.05 have: sbatch ends at that word, and submits nothing."""
    if "unrecognized option '--export-file" not in error.message:
        return error
    message = "sbatch of Slurm 23.11 takes no variables (it has no --export-file): set them in the script"
    return SlurmRefused(message, tried=error.tried, permanent=True)


def told_to_steps(script: str) -> dict[str, str]:
    """Variables that sbatch makes of a script's own options: of the first component where it has several."""
    told: dict[str, str] = {}
    for words in _option_lines(script):
        for word, after in zip(words, [*words[1:], ""], strict=True):
            option, equals, value = word.partition("=")
            if variable := _TOLD.get(option):
                told[variable] = value if equals else after
    if mode := told.get("SLURM_OPEN_MODE"):
        told["SLURM_OPEN_MODE"] = mode[:1].lower()  # a, t
    return told


def _option_lines(script: str) -> Iterator[list[str]]:
    """The words of the #SBATCH lines above the first command."""
    for line in script.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            return
        if not line.startswith("#SBATCH"):
            continue
        try:
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError:  # a quote without its end: sbatch says what it makes of it
            continue
        if words and words[0] in _NEXT_COMPONENT:
            return
        yield words


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
