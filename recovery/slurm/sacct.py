"""Past attempts of a job out of `sacct`, asked for as text.

Text, because `sacct --json` of 22.05 reports every non-zero exit code as 0. Safe, because no column that a user can
write into is asked for, and the delimiter is a character that no column holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from recovery.core.types import JobState
from recovery.slurm import federation, hostlist
from recovery.slurm.base import AttemptRecord
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.names import user_name
from recovery.slurm.states import job_state

DELIMITER = "\x1f"
# DBIndex is the accounting row of one attempt; its steps carry the same.
COLUMNS = ("DBIndex", "JobID", "State", "Submit", "Start", "End", "ExitCode", "NodeList")

_EXIT = re.compile(r"(\d{1,5}):(\d{1,3})")
_CANCELLED_BY = re.compile(r"CANCELLED by (\d{1,10})")
_NO_TIME = frozenset({"", "None", "Unknown"})


def arguments(job_ids: Sequence[str], *, since: datetime) -> list[str]:
    """The arguments for sacct. Times are read and written in UTC (the caller sets TZ)."""
    start = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    options = ["--local", "--duplicates", "--noheader", "--parsable2", f"--delimiter={DELIMITER}"]
    return [*options, f"--format={','.join(COLUMNS)}", f"--starttime={start}", f"--jobs={','.join(job_ids)}"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    index: str
    name: str  # "4711", "4711.batch", "4711.0"
    state: str
    submitted: datetime | None
    started: datetime | None
    ended: datetime | None
    exit_code: int
    signal: int
    nodes: tuple[str, ...]

    @property
    def step(self) -> str:
        return self.name.partition(".")[2]


def attempts_by_job(answer: str, job_ids: Sequence[str]) -> dict[str, list[AttemptRecord]]:
    """The attempts of exactly these jobs, oldest first, numbered from 0; a job without any is left out.

    Raises BadAnswer. Rows of other jobs (the tasks of an array, the components of a heterogeneous job) don't count.
    Numbers are only right where the question reached back to the first submission. Slurm takes a lost node out of the
    attempt's nodes, at times before accounting has written them down: a list seen while the attempt ran is the better
    one.
    """
    attempts: dict[str, list[_Row]] = {job_id: [] for job_id in job_ids}
    steps: dict[str, list[_Row]] = {}
    for row in [_row(line) for line in answer.split("\n") if line]:
        if row.step:
            steps.setdefault(row.index, []).append(row)
        elif row.name in attempts:
            attempts[row.name].append(row)
    return {
        job_id: [
            _attempt(row, steps.get(row.index, ()), number) for number, row in enumerate(sorted(found, key=_submitted))
        ]
        for job_id, found in attempts.items()
        if found
    }


def _row(line: str) -> _Row:
    fields = line.split(DELIMITER)
    if len(fields) != len(COLUMNS):
        raise BadAnswer(f"a row has {len(fields)} fields instead of {len(COLUMNS)}: {line[:200]!r}")
    index, name, state, submit, start, end, exit_text, nodes = fields
    code = _EXIT.fullmatch(exit_text or "0:0")  # 22.05: a batch step that was cancelled as it started has none
    if not index or not name or code is None:
        raise BadAnswer(f"a row has no name, or no exit code: {line[:200]!r}")
    return _Row(
        index=index,
        name=name,
        state=state,
        submitted=_time(submit),
        started=_time(start),
        ended=_time(end),
        exit_code=int(code[1]),
        signal=int(code[2]),
        nodes=_nodes(nodes),
    )


def _submitted(row: _Row) -> datetime:
    if row.submitted is None:
        raise BadAnswer(f"an attempt of job {row.name} has no submit time")
    return row.submitted


def _attempt(row: _Row, steps: Sequence[_Row], number: int) -> AttemptRecord:
    state, ended = _end(row, next((step for step in steps if step.step == "batch"), None))
    if federation.never_ran(re.split(r"[_+]", row.name)[0], state, nodes=row.nodes):
        state = JobState.REVOKED
    ran = state is not JobState.REVOKED  # else another cluster of the federation has it, and its exit code is of there
    cancelled = _CANCELLED_BY.fullmatch(row.state)
    return AttemptRecord(
        job_id=row.name,
        number=number,
        state=state,
        submitted_at=_submitted(row),
        started_at=row.started if ran else None,
        ended_at=ended if state.is_terminal else None,
        exit_code=row.exit_code if state.is_terminal and ran else None,
        exit_signal=(row.signal or None) if state.is_terminal and ran else None,
        nodes=row.nodes,
        cancelled_by=user_name(int(cancelled[1])) if cancelled else "",
        step_exit_codes=tuple(_shell_code(step) for step in steps if step.step.isdigit() and step.ended),
    )


def _end(row: _Row, batch: _Row | None) -> tuple[JobState, datetime | None]:
    own = (attempt_state(batch.state), batch.ended) if batch is not None and batch.ended is not None else None
    return true_end(attempt_state(row.state), row.ended, batch=own, badly=bool(row.exit_code or row.signal))


def true_end(
    state: JobState, ended: datetime | None, *, batch: tuple[JobState, datetime] | None, badly: bool
) -> tuple[JobState, datetime | None]:
    """The state and the end of an attempt. `batch`: those of its batch step; `badly`: its exit code is not 0:0.

    22.05 to 24.11 call an attempt REQUEUED whatever ended it, and date its end at the requeue; its batch step knows
    better. Put back while it ran, an attempt has exit code 0:0 whatever its script made of the signals.
    """
    if state is not JobState.REQUEUED or batch is None:
        return state, ended
    own, own_end = batch
    failed = own.is_terminal and own is not JobState.CANCELLED and badly
    completed = own is JobState.COMPLETED and ended is not None and own_end < ended
    return batch if failed or completed else (state, ended)


def attempt_state(text: str) -> JobState:
    """ "CANCELLED by 1000" as well; of an attempt REQUEUED is an end, unlike of a job."""
    word = text.partition(" ")[0]
    return JobState.REQUEUED if word == "REQUEUED" else job_state([word])


def _shell_code(step: _Row) -> int:
    """One number per step, as a shell would say it: 128 and the signal for a step that a signal ended."""
    return 128 + step.signal if step.signal else step.exit_code


def _time(text: str) -> datetime | None:
    if text in _NO_TIME:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise BadAnswer(f"{text[:50]!r} is no time") from error


def _nodes(text: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(text)
    except hostlist.BadHostlist as error:
        raise BadAnswer(str(error)) from error
