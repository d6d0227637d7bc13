"""What may stand in an argument, a URL or a call for Slurm: checked here, before any back end uses it."""

from __future__ import annotations

import pwd
import re
from collections.abc import Iterable
from functools import lru_cache

from recovery.slurm.base import JobNotFound, SlurmRefused
from recovery.slurm.hostlist import is_node_name

# A plain job, an array task, a component of a heterogeneous job. "all", a list or an option would mean other jobs.
_JOB_ID = re.compile(r"[1-9][0-9]{0,9}(_[0-9]{1,9}|\+[0-9]{1,4})?")
# Users, accounts, partitions, reservations: one word that no option, list or path can be made of.
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,127}\$?")
# All that ends a line somewhere or is no character: controls, the separators of Unicode, halves of characters.
_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def is_job_id(text: str) -> bool:
    """Whether it names one job: "4711", "4711_3" or "4711+1"."""
    return _JOB_ID.fullmatch(text) is not None


def check_job_id(job_id: str) -> None:
    """Raises JobNotFound where it is none."""
    if not is_job_id(job_id):
        raise JobNotFound(f"{job_id[:50]!r} is not a job id", tried="look at the id", permanent=True)


def whole(job_id: str, *, tried: str) -> str:
    """The id by which Slurm requeues or cancels all of a job: of a heterogeneous one its own, not a component's.

    Raises SlurmRefused for another component than the first, which stands for the whole.
    """
    check_job_id(job_id)
    leader, _, offset = job_id.partition("+")
    if offset not in ("", "0"):
        what = f"{job_id} is one component of a heterogeneous job, which Slurm only requeues as a whole"
        raise SlurmRefused(f"{what}, and which is not cancelled in part: {leader}+0", tried=tried, permanent=True)
    return leader


def check_node_name(name: str, *, tried: str) -> None:
    """Raises SlurmRefused where it is not a single plain name."""
    check_node_names((name,), tried=tried)


def check_node_names(names: Iterable[str], *, tried: str) -> None:
    for name in names:
        if not is_node_name(name) or name.upper() == "ALL":  # Slurm's word for every node
            raise SlurmRefused(f"{name[:100]!r} is not a node name", tried=tried, permanent=True)


def check_word(word: str, *, kind: str, tried: str) -> None:
    """Raises SlurmRefused where it can't be the name of a `kind` ("user", "account", "partition", "reservation")."""
    if not _WORD.fullmatch(word):
        raise SlurmRefused(f"{word[:100]!r} is no {kind} name", tried=tried, permanent=True)


def one_line(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters: what would end a line or is no character becomes a space."""
    line = _NO_TEXT.sub(" ", text).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


@lru_cache(maxsize=1024)
def user_name(uid: int) -> str:
    """The account's name on this machine, else the number as text."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)
