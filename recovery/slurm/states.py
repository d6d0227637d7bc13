"""Slurm's words for the states of jobs and nodes, in ours. Every back end translates here, so that all say the same.

The words are those of slurm_protocol_defs.c (job_state_string, node_state_string and the flags of both), in capitals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import HELD_BY_REQUEUE, NodeRecord, SlurmRefused

# One word of Slurm's each. Flags come before base states: a job that is COMPLETING is so whatever it was before.
_FLAGS: tuple[tuple[str, JobState], ...] = (
    ("REVOKED", JobState.REVOKED),  # before COMPLETING, and before the base state that it goes with
    ("COMPLETING", JobState.COMPLETING),
    ("STAGE_OUT", JobState.COMPLETING),
    ("REQUEUED", JobState.PENDING),
    ("REQUEUE_FED", JobState.PENDING),
    ("REQUEUE_HOLD", JobState.PENDING),
    ("SPECIAL_EXIT", JobState.PENDING),  # requeued and held
    ("RESV_DEL_HOLD", JobState.PENDING),
    ("STOPPED", JobState.SUSPENDED),
    ("CONFIGURING", JobState.RUNNING),  # it has its nodes, they boot
    ("RESIZING", JobState.RUNNING),
    ("SIGNALING", JobState.RUNNING),
)
_BASE: dict[str, JobState] = {
    state.name: state for state in JobState if state not in (JobState.UNKNOWN, JobState.REQUEUED, JobState.COMPLETING)
}

# sacct's short words (sacct(1), JOB STATE CODES) for every way in which an execution can have ended.
ENDS = ("BF", "CA", "CD", "DL", "F", "NF", "OOM", "PR", "RQ", "RV", "TO")

REQUEUED_IN_HELD_STATE = "job requeued in held state"  # slurmctld's job_mgr.c

_UNUSABLE = frozenset({"DOWN", "ERROR", "NOT_RESPONDING", "INVALID_REG", "INVAL", "REBOOT_ISSUED"})
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})


def job_state(words: Sequence[str]) -> JobState:
    """Our word for Slurm's states and flags; UNKNOWN for one that we don't know, never a guess."""
    for flag, state in _FLAGS:
        if flag in words:
            return state
    return next((_BASE[word] for word in words if word in _BASE), JobState.UNKNOWN)


def node_state(words: Iterable[str]) -> NodeState:
    """What a decision needs of Slurm's base states and flags."""
    found = frozenset(words)
    if found & _UNUSABLE:
        return NodeState.DOWN
    if found & {"DRAIN", "FAIL"}:  # FAIL: an admin expects it to fail soon, it gets no new jobs
        return NodeState.DRAINING if has_jobs(found) else NodeState.DRAINED
    return NodeState.UP if has_jobs(found) or "IDLE" in found else NodeState.UNKNOWN


def has_jobs(words: Iterable[str]) -> bool:
    """Whether some job has the node, or a part of it, or is about to leave it."""
    return not _BUSY.isdisjoint(words)


def state_reason(reason: str, description: str = "") -> str:
    """Why a job waits or ended, in Slurm's word: "" for none.

    A description that slurmctld gives besides takes the place of the word, as it does in squeue and scontrol, and is
    written as scontrol writes it ("launch_failed_requeued_held"); of "ReqNodeNotAvail, UnavailableNodes:n3" the word
    is left. The description that a held requeue leaves stays when somebody holds the job as well: there only the
    word tells whose hold it is, and ours has a word of its own.
    """
    if description == REQUEUED_IN_HELD_STATE:
        return HELD_BY_REQUEUE if reason == "JobHeldUser" else reason
    said = (description or reason).partition(",")[0].strip()
    return "" if said in ("None", "(null)") else said.replace(" ", "_")


def check_not_drained(nodes: Iterable[NodeRecord], name: str) -> None:
    """Raises SlurmRefused where somebody has drained the node already: Slurm would put our reason over theirs."""
    for node in nodes:
        if node.name == name and node.state in (NodeState.DRAINING, NodeState.DRAINED):
            message = f"it is drained already: {node.reason or 'without a reason'}"
            raise SlurmRefused(message, tried=f"drain node {name}", permanent=True)
