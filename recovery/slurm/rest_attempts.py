"""Past attempts out of slurmdbd's jobs, as slurmrestd v0.0.42 and newer give them (22.05 loses their exit codes)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from recovery.core.types import JobState
from recovery.slurm import json_values as values
from recovery.slurm.base import AttemptRecord
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.sacct import true_end
from recovery.slurm.states import job_state

NEVER = 2**32 - 2  # Slurm's NO_VAL, which newer releases give for a start that never was


def job_id_of(entry: Mapping[str, Any]) -> str:
    """ "4711", "4711_3" or "4711+1", as `squeue` names it."""
    raw = values.number(entry, "job_id")
    if not raw:
        raise BadAnswer("an attempt has no usable job_id")
    array, het = _mapping(entry, "array"), _mapping(entry, "het")
    array_id, task = values.number(array, "job_id"), values.number(array, "task_id")
    if array_id and task is not None:
        return f"{array_id}_{task}"
    het_id = values.number(het, "job_id")
    return f"{het_id}+{values.number(het, 'job_offset') or 0}" if het_id else str(raw)


def parse_attempts(entries: Iterable[Mapping[str, Any]], wanted: Iterable[str]) -> dict[str, list[AttemptRecord]]:
    """The attempts of these jobs, oldest first and numbered from 0. Raises BadAnswer."""
    ids = frozenset(wanted)
    found: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        job_id = job_id_of(entry)
        if job_id in ids:
            found.setdefault(job_id, []).append(entry)
    return {job_id: _numbered(job_id, rows) for job_id, rows in found.items()}


def _numbered(job_id: str, rows: list[Mapping[str, Any]]) -> list[AttemptRecord]:
    """By Slurm's own count of restarts, so that an attempt that accounting has lost leaves a gap."""
    ordered = sorted(rows, key=_submitted)
    counts = [values.number(entry, "restart_cnt") for entry in ordered]
    told = [count for count in counts if count is not None]
    rises = len(told) == len(counts) and all(before < after for before, after in pairwise(told))
    numbers = told if rises else range(len(ordered))
    return [attempt_of(entry, job_id=job_id, number=number) for entry, number in zip(ordered, numbers, strict=True)]


def _submitted(entry: Mapping[str, Any]) -> datetime:
    found = _time(_mapping(entry, "time"), "submission")
    if found is None:
        raise BadAnswer(f"an attempt of job {entry.get('job_id')} has no submit time")
    return found


def attempt_of(entry: Mapping[str, Any], *, job_id: str, number: int) -> AttemptRecord:
    """Raises BadAnswer."""
    times = _mapping(entry, "time")
    state, ended = _end(entry)
    ran = state is not JobState.REVOKED  # else another cluster of the federation has it
    code, signal = _exit(entry) if state.is_terminal and ran else (None, None)
    return AttemptRecord(
        job_id=job_id,
        number=number,
        state=state,
        submitted_at=_submitted(entry),
        started_at=_time(times, "start") if ran else None,
        ended_at=ended if state.is_terminal else None,
        exit_code=code,
        exit_signal=signal,
        nodes=values.nodes(entry, "nodes"),
        cancelled_by=_cancelled_by(entry) if state is JobState.CANCELLED else "",
        step_exit_codes=tuple(_step_codes(entry)),
    )


def _end(entry: Mapping[str, Any]) -> tuple[JobState, datetime | None]:
    """Its end by the record and by its batch step, as `sacct` has them."""
    code, signal = _exit(entry)
    batch = next((step for step in _steps(entry) if _step_name(step) == "batch"), {})
    ended = _time(_mapping(batch, "time"), "end")
    own = (_state(values.words(batch, "state")), ended) if ended is not None else None
    state = _state(values.words(_mapping(entry, "state"), "current"))
    return true_end(state, _time(_mapping(entry, "time"), "end"), batch=own, badly=bool(code or signal))


def _state(words: list[str]) -> JobState:
    """Of an attempt REQUEUED is an end, unlike of a job."""
    return JobState.REQUEUED if "REQUEUED" in words else job_state(words)


def _cancelled_by(entry: Mapping[str, Any]) -> str:
    """slurmrestd writes nothing for root: uid 0 is its word for nobody here (26.05; sacct says "CANCELLED by 0")."""
    return values.text(entry, "kill_request_user") or "root"


def _exit(entry: Mapping[str, Any]) -> tuple[int | None, int | None]:
    exit_code = _mapping(entry, "exit_code")
    signal = _mapping(exit_code, "signal")
    number = values.number(signal, "id") if "id" in signal else values.number(signal, "signal_id")
    code = values.number(exit_code, "return_code")
    return None if code is None else code & 0xFF, ((number or 0) & 0x7F) or None


def _step_codes(entry: Mapping[str, Any]) -> Iterable[int]:
    """One number per numbered step that has ended, as a shell would say it: 128 and the signal."""
    for step in _steps(entry):
        if _step_name(step).isdigit() and _time(_mapping(step, "time"), "end"):
            code, signal = _exit(step)
            yield 128 + signal if signal else code or 0


def _steps(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    steps = entry.get("steps")
    found = steps if isinstance(steps, list) else []
    if not all(isinstance(step, dict) for step in found):
        raise BadAnswer("a step is not an object")
    return found


def _step_name(step: Mapping[str, Any]) -> str:
    """ "0" or "batch" of "4711.0" and "4711.batch"."""
    return str(_mapping(step, "step").get("id") or "").partition(".")[2]


def _time(entry: Mapping[str, Any], key: str) -> datetime | None:
    return None if values.number(entry, key) == NEVER else values.time(entry, key)


def _mapping(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = entry.get(key)
    return value if isinstance(value, dict) else {}
