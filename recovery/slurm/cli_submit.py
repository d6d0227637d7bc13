"""Submitting a stored batch script with sbatch.

The script comes on sbatch's standard input. sbatch itself becomes the job's user first (runuser), so that Slurm judges
the script's own #SBATCH lines by that user's rights: with root's and --uid, a line such as `#SBATCH --gid=0` would be
obeyed. The job gets its user's login environment (--get-user-env) and what was asked for besides; these variables
go through a file (--export-file), never through the environment of sbatch, where LD_PRELOAD or SBATCH_* would act.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from recovery.slurm.base import SlurmRefused, Submission
from recovery.slurm.cli_writes import minutes
from recovery.slurm.command import FILE, Input
from recovery.slurm.json_values import BadAnswer, clean
from recovery.slurm.names import check_node_names, check_word, one_line

MAX_SCRIPT = 4 * 1024 * 1024  # slurm.conf(5), SchedulerParameters: max_script_size
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_SUBMITTED = re.compile(r"([1-9][0-9]{0,9})(;[A-Za-z0-9_.-]+)?\n")


def check(submission: Submission, *, tried: str) -> None:
    """Raises SlurmRefused for what can't be submitted, in words."""
    check_word(submission.user, kind="user", tried=tried)
    for kind, word in (("account", submission.account), ("partition", submission.partition)):
        if word:
            check_word(word, kind=kind, tried=tried)
    check_node_names(submission.excluded_nodes, tried=tried)
    script, folder = submission.script, submission.work_dir
    wrong = {
        "the script does not begin with #!": not script.startswith("#!"),
        "the script holds what is no text": clean(script) != script or "\r\n" in script,
        f"the script is longer than {MAX_SCRIPT} bytes": len(script.encode(errors="replace")) > MAX_SCRIPT,
        "the working folder is no absolute path": not folder.startswith("/") or one_line(folder, 4096) != folder,
        "a variable's name or value can't be one": not all(map(_is_variable, submission.environment.items())),
    }
    for message, holds in wrong.items():
        if holds:
            raise SlurmRefused(message, tried=tried, permanent=True)


def _is_variable(variable: tuple[str, str]) -> bool:
    name, value = variable
    return _VARIABLE.fullmatch(name) is not None and clean(value) == value


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
    argv = ["sbatch", "--parsable", "--get-user-env", "--export=ALL"]
    argv += [f"{option}={value}" for option, value in options.items() if value]
    if submission.environment:
        argv.append(f"--export-file={FILE}")
    if submission.time_limit_s is not None:
        argv.append(f"--time={minutes(submission.time_limit_s, tried=tried)}")
    return [*argv, "--hold"] if submission.hold else argv


def given(submission: Submission) -> Input:
    return Input(text=submission.script, file=_file(submission.environment) if submission.environment else None)


def _file(environment: Mapping[str, str]) -> bytes:
    return b"".join(f"{name}={value}\0".encode() for name, value in environment.items())


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
