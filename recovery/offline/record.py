"""The record of a job as a case's [job] table or a --job file gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from recovery.core.types import CheckpointFact, CheckpointState, JobState, NodeEvent, NodeState
from recovery.slurm.hostlist import BadHostlist, expand

_JOB_FIELDS = {
    "state", "reason", "exit_code", "nodes", "restart_count", "user_cancelled_by", "cancelled_by", "time_limit_s",
    "elapsed_s", "start", "step_exit_codes", "requeued",
}  # fmt: skip
YEARS = range(1990, 2200)
MOST = 10**10  # seconds, some 300 years: whatever a scheduler may say of a job lies below
_PENDING = (JobState.PENDING, JobState.REQUEUED)


class JobRecordError(ValueError):
    """A field of a job's record is wrong; the message names it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OfflineJob:
    """A job's record as a case or a --job file gives it; every field may be missing."""

    state: JobState = JobState.UNKNOWN
    reason: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    step_exit_codes: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    restart_count: int = 0
    cancelled_by: str = ""
    time_limit_s: float | None = None
    elapsed_s: float | None = None  # from the start to the moment of asking
    start: datetime | None = None
    requeued: bool = False  # Slurm has put it back into the queue
    node_events: tuple[NodeEvent, ...] = ()
    checkpoints: tuple[CheckpointFact, ...] = ()

    @classmethod
    def read(
        cls, record: Mapping[str, Any], *, node_events: Sequence[Any] = (), checkpoints: Sequence[Any] = ()
    ) -> OfflineJob:
        """From plain values (TOML, JSON). Raises JobRecordError."""
        if not isinstance(record, Mapping):
            raise JobRecordError("job: must be a table of fields")
        if unknown := sorted(set(record) - _JOB_FIELDS):
            raise JobRecordError(f"job.{unknown[0]}: no such field; known are {', '.join(sorted(_JOB_FIELDS))}")
        state, by = _state(record.get("state"))
        code, signal = _exit(record.get("exit_code"))
        restarts = int(_number(record, "restart_count") or 0)
        requeued = bool(record.get("requeued")) or (state in _PENDING and restarts > 0)
        return cls(
            state=JobState.REQUEUED if state is JobState.PENDING and requeued else state,  # the logs are of its attempt
            reason=_text(record, "reason"),
            exit_code=code,
            exit_signal=signal,
            step_exit_codes=tuple(
                _exit(c)[0] or 0 for c in _list(record.get("step_exit_codes", ()), "job.step_exit_codes")
            ),
            nodes=_nodes(record.get("nodes", ())),
            restart_count=restarts,
            cancelled_by=_text(record, "user_cancelled_by") or _text(record, "cancelled_by") or by,
            time_limit_s=_number(record, "time_limit_s"),
            elapsed_s=_number(record, "elapsed_s"),
            start=_time(record["start"], "job.start") if "start" in record else None,
            requeued=requeued,
            node_events=tuple(
                _node_event(e, f"node_event[{i}]") for i, e in enumerate(_list(node_events, "node_event"))
            ),
            checkpoints=tuple(
                _checkpoint(c, f"checkpoint[{i}]") for i, c in enumerate(_list(checkpoints, "checkpoint"))
            ),
        )


# --- fields -----------------------------------------------------------------------------------------------------------


def _text(record: Mapping[str, Any], field: str) -> str:
    value = record.get(field, "")
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _number(record: Mapping[str, Any], field: str) -> float | None:
    value = record.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise JobRecordError(f"job.{field}: must be a number, not {value!r}")
    if not 0 <= value <= MOST:
        raise JobRecordError(f"job.{field}: must lie between 0 and {MOST:,}, not {value!r}")
    return float(value)


def _state(value: object) -> tuple[JobState, str]:
    """Slurm's or our word for a state; "CANCELLED by 1001" also names who."""
    if value is None or value == "":
        return JobState.UNKNOWN, ""
    if not isinstance(value, str):
        raise JobRecordError(f"job.state: must be a text, not {value!r}")
    word, _, by = value.partition(" by ")
    try:
        return JobState(word.strip().rstrip("+").lower()), by.strip()
    except ValueError:
        raise JobRecordError(f"job.state: {value!r} is none of {', '.join(JobState)}") from None


def _exit(value: object) -> tuple[int | None, int | None]:
    """Exit code and signal from "1:0" or 1."""
    if value is None or value == "":
        return None, None
    code, _, signal = str(value).partition(":")
    if not code.isdigit() or not (signal or "0").isdigit():
        raise JobRecordError(f'job.exit_code: must look like "1:0", not {value!r}')
    return int(code), int(signal or 0) or None


def _nodes(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            return expand(value)
        except BadHostlist as error:
            raise JobRecordError(f"job.nodes: {error}") from None
    if isinstance(value, Sequence) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise JobRecordError("job.nodes: must be a node list such as gpu-[01-04]")


def _time(value: object, field: str) -> datetime:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        at = None
    if not isinstance(at, datetime) or at.year not in YEARS:
        raise JobRecordError(f"{field}: must be a time such as 2026-01-11T09:20:41Z, not {value!r}")
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _list(value: object, field: str) -> Sequence[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise JobRecordError(f"{field}: must be a list, not {value!r}")


def _node_event(value: Any, field: str) -> NodeEvent:
    if not isinstance(value, Mapping) or not {"time", "node", "text"} <= set(value):
        raise JobRecordError(f"{field}: needs time, node and text")
    try:
        state = NodeState(str(value.get("state", NodeState.UNKNOWN)).lower())
    except ValueError:
        raise JobRecordError(f"{field}.state: must be one of {', '.join(NodeState)}") from None
    return NodeEvent(
        at=_time(value["time"], f"{field}.time"), node=str(value["node"]), text=str(value["text"]), state=state
    )


def _checkpoint(value: Any, field: str) -> CheckpointFact:
    if not isinstance(value, Mapping) or not isinstance(value.get("step"), int):
        raise JobRecordError(f"{field}: needs step and state")
    try:
        state = CheckpointState(str(value.get("state")))
    except ValueError:
        raise JobRecordError(f"{field}.state: must be one of {', '.join(CheckpointState)}") from None
    return CheckpointFact(step=value["step"], state=state, path=str(value.get("path", "")))
