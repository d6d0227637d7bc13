"""How Slurm's commands are started: here, or on a submit host by a prefix such as `ssh -o BatchMode=yes login1`.

Nothing of our own environment reaches a command; what it needs is named here. Times in text are UTC and in Slurm's
standard format.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from recovery.slurm import command
from recovery.slurm.base import JobNotFound, SlurmRefused, SlurmUnreachable
from recovery.slurm.command import Answer, Input
from recovery.slurm.json_values import clean
from recovery.slurm.names import user_name

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin:/usr/local/sbin:/usr/sbin:/sbin"
CONNECTION_LOST = 255  # ssh(1), exit status: an error of ssh itself

# Reads one variable from the first line of its input, so that it shows in no list of processes.
_READ_HIDDEN = 'IFS= read -r value && export "$1=$value" && shift && exec "$@"'

_UNKNOWN_JOB = "Invalid job id specified"
# Slurm's own words (slurm_errno.c) for a clear no: it was reached and did nothing. Everything else that ends with an
# error is taken for no answer.
_REFUSALS = (
    "Job is pending execution",
    "Job is no longer pending execution",
    "Job has already finished",
    "Job/step already completing or completed",
    "Requested operation is presently disabled",
    "Access/permission denied",
    "Invalid user id",
    "Invalid node name specified",
    "Invalid node state specified",
    "Invalid node state transition",
    "Job not heterogeneous job leader",
    "Only batch jobs are accepted or processed",
    "Slurm accounting storage is disabled",
    "Job script not specified",
    "Requested time limit is invalid",
    "Invalid account or account/partition combination specified",
    "Invalid partition name specified",
    "Invalid qos specification",
    "Requested node configuration is not available",
    "Node count specification invalid",
    "Job violates accounting/QOS policy",
    "User's group not permitted to use this partition",
    "This does not look like a batch script",  # sbatch's own words, before it asks anybody
    "only permitted by root user",
    "sbatch --help",
    "runuser: user ",  # … does not exist
)
_PARTLY_DONE = ": No error"  # one line per task of an array, and at least one of them worked
_REFUSED_FOR_NOW = (
    "Job can not be altered now, try again later",
    "Slurm temporarily unable to accept job, sleeping and retrying",
)


class Commands:
    """The commands of one cluster. Holds nothing but its configuration: any number may exist.

    `slurm_conf` is the cluster's slurm.conf ("": Slurm's own default place), `bin_dir` the folder of its commands (""
    looks in the usual places), both as they are where the commands run. `prefix` is a command that hands the words
    behind it to a shell elsewhere, as ssh does.
    """

    def __init__(self, *, slurm_conf: str, bin_dir: str, prefix: str, timeout_s: float) -> None:
        self._conf = {"SLURM_CONF": slurm_conf} if slurm_conf else {}
        self._bin_dir = bin_dir
        self._prefix = shlex.split(prefix)
        self._timeout_s = timeout_s
        path = f"{bin_dir}:{SEARCH_PATH}" if bin_dir else SEARCH_PATH
        self._env = {"PATH": path, "LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard", **self._conf}

    @property
    def elsewhere(self) -> bool:
        """Whether they run on another machine than we do."""
        return bool(self._prefix)

    def whoami(self) -> str:
        """The name of the user that the commands run as."""
        return self._run_elsewhere(["id", "-un"], Input()).output.strip() if self._prefix else user_name(os.geteuid())

    def run(self, *argv: str, hidden: tuple[str, str] | None = None) -> Answer:
        """The answer of a command that ended well; SlurmError otherwise.

        `hidden` is one more environment variable and its value, which no other user of the machine can see.
        """
        self._check_conf(argv)
        if not self._prefix:
            env = self._env | dict([hidden] if hidden else [])
            return _checked(command.run(self._found(argv), env=env, timeout_s=self._timeout_s))
        words = self._found(argv)
        if hidden is None:
            return self._run_elsewhere(["env", "-i", *_assigned(self._env), *words], Input())
        wrapped = ["sh", "-c", _READ_HIDDEN, "sh", hidden[0], *words]
        return self._run_elsewhere(["env", "-i", *_assigned(self._env), *wrapped], Input(text=f"{hidden[1]}\n"))

    def run_bare(self, *argv: str, as_user: str, given: Input) -> Answer:
        """Run a command whose environment goes into the job: it holds the place of slurm.conf and nothing else.

        `as_user` is whom to become first ("": stay who we are; root only).
        """
        self._check_conf(argv)
        become = ["runuser", "-u", as_user, "--"] if as_user else []
        words = self._found(argv)
        if self._prefix:
            return self._run_elsewhere(["env", "-i", *_assigned(self._conf), *become, *words], given)
        whole = [*self._located(become), *self._located(words)]  # nobody looks for them without a PATH
        return _checked(command.run(whole, env=self._conf, timeout_s=self._timeout_s, given=given))

    def _run_elsewhere(self, words: Sequence[str], given: Input) -> Answer:
        argv = [*self._prefix, *map(shlex.quote, words)]
        env = {"PATH": SEARCH_PATH, "LC_ALL": "C"}
        answer = command.run(argv, env=env, timeout_s=self._timeout_s, given=given)
        if answer.code == CONNECTION_LOST:
            raise SlurmUnreachable(f"the connection failed: {_words(answer)}", tried=answer.tried)
        return _checked(answer)

    def _found(self, argv: Sequence[str]) -> list[str]:
        return [str(Path(self._bin_dir) / argv[0]) if self._bin_dir else argv[0], *argv[1:]]

    def _located(self, words: list[str]) -> list[str]:
        return [*(shutil.which(word, path=self._env["PATH"]) or word for word in words[:1]), *words[1:]]

    def _check_conf(self, argv: Sequence[str]) -> None:
        """Without the file the commands would look for it for a minute."""
        path = self._conf.get("SLURM_CONF")
        if path and not self._prefix and not _is_file(path):
            message = f"there is no readable file {path}: correct the cluster's slurm_conf option"
            raise SlurmUnreachable(message, tried=shlex.join(argv), permanent=True)


def _assigned(env: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError:  # a folder on the way that we may not enter
        return False


def _checked(answer: Answer) -> Answer:
    if answer.code != 0:
        raise error_of(answer)
    return answer


def error_of(answer: Answer) -> SlurmRefused | SlurmUnreachable:
    """What an answer that tells of an error means to a caller."""
    words, message = clean(answer.errors.strip() or answer.output.strip()), _words(answer)
    if _PARTLY_DONE in words:
        return SlurmUnreachable(f"done for a part of the array only: {message}", tried=answer.tried)
    if _UNKNOWN_JOB in words:
        return JobNotFound(message, tried=answer.tried, permanent=True)
    if any(refusal in words for refusal in _REFUSED_FOR_NOW):
        return SlurmRefused(message, tried=answer.tried)
    if any(refusal in words for refusal in _REFUSALS):
        return SlurmRefused(message, tried=answer.tried, permanent=True)
    return SlurmUnreachable(message, tried=answer.tried)


def _words(answer: Answer) -> str:
    words = clean(answer.errors.strip() or answer.output.strip())
    return " ".join(words.split())[:500] or f"it ended with exit code {answer.code} and no word"
