"""Slurm's errors by its own names (slurm_errno.h): which are a clear no, and which leave us without an answer."""

from __future__ import annotations

from recovery.slurm.base import JobNotFound, SlurmError, SlurmRefused, SlurmUnreachable

# A clear no: Slurm was reached and did nothing. Every error that is not in this table is taken for no answer.
_REFUSALS = frozenset(
    {
        *("ESLURM_JOB_PENDING", "ESLURM_JOB_NOT_PENDING", "ESLURM_JOB_FINISHED", "ESLURM_ALREADY_DONE"),
        *("ESLURM_JOB_NOT_RUNNING", "ESLURM_JOB_NOT_PENDING_NOR_RUNNING", "ESLURM_INVALID_JOB_STATE"),
        *("ESLURM_DISABLED", "ESLURM_NOT_SUPPORTED", "ESLURM_BATCH_ONLY", "ESLURM_JOB_SCRIPT_MISSING"),
        *("ESLURM_ACCESS_DENIED", "ESLURM_USER_ID_MISSING", "ESLURM_ACCOUNTING_POLICY"),
        *("ESLURM_NOT_HET_JOB_LEADER", "ESLURM_CANNOT_MODIFY_CRON_JOB", "ESLURM_CANNOT_CANCEL_CRON_JOB"),
        *("ESLURM_INVALID_NODE_NAME", "ESLURM_INVALID_NODE_STATE", "ESLURM_INVALID_NODE_STATE_TRANSITION"),
        *("ESLURM_INVALID_TIME_LIMIT", "ESLURM_NODE_NOT_AVAIL"),
    }
)
_REFUSED_FOR_NOW = frozenset({"ESLURM_TRANSITION_STATE_NO_UPDATE", "ESLURM_NODES_BUSY"})


def error_of(name: str, words: str, *, tried: str) -> SlurmError:
    message = words or name or "an error without words"
    if name == "ESLURM_INVALID_JOB_ID":
        return JobNotFound(message, tried=tried, permanent=True)
    if name in _REFUSALS:
        return SlurmRefused(message, tried=tried, permanent=True)
    if name in _REFUSED_FOR_NOW:
        return SlurmRefused(message, tried=tried)
    return SlurmUnreachable(f"{message} ({name})" if name else message, tried=tried)
