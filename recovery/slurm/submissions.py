"""What can be submitted at all: checked alike by every back end, before anything of it reaches Slurm."""

from __future__ import annotations

import re

from recovery.slurm.base import SlurmRefused, Submission
from recovery.slurm.json_values import clean
from recovery.slurm.names import check_node_names, check_word, one_line

MAX_SCRIPT = 4 * 1024 * 1024  # slurm.conf(5), SchedulerParameters: max_script_size
MAX_TIME_LIMIT_S = (365 * 24 * 60 - 1) * 60.0  # a year is slurmctld's word for unlimited
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")


def check_submission(submission: Submission, *, tried: str) -> None:
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
        "the time limit is none": not _is_limit(submission.time_limit_s),
        "the comment holds what is no text": clean(submission.comment) != submission.comment,
        "a variable's name or value can't be one": not all(map(_is_variable, submission.environment.items())),
    }
    for message, holds in wrong.items():
        if holds:
            raise SlurmRefused(message, tried=tried, permanent=True)


def _is_variable(variable: tuple[str, str]) -> bool:
    name, value = variable
    return _VARIABLE.fullmatch(name) is not None and clean(value) == value


def _is_limit(seconds: float | None) -> bool:
    return seconds is None or 0 < seconds <= MAX_TIME_LIMIT_S
