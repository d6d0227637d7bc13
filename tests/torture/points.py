"""The points at which a process may die, and the process that dies there."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from django.db import connection

from recovery.pipeline import calls
from recovery.slurm.base import Operation, SlurmClient
from recovery.sources.trackers import write_tracker

WRITES = ("INSERT", "UPDATE", "DELETE")
WRITE_CALLS = {operation.value for operation in Operation if operation.is_write}


class Points:
    """Counts what a process passes, and kills it at one of them: SIGKILL, nothing is tidied up.

    `die_at` is the number of a point, `die_on` its label. What the outside world accepted is noted in `journal`, which
    outlives the process.

    `stages` tells of each point how often what outlives a kill has changed before it: by a commit, a statement outside
    of a transaction, or a call. Killed at two points of one stage a process leaves the same behind.
    """

    def __init__(self, journal: Path, *, die_at: int | None = None, die_on: str = "") -> None:
        self.labels: list[str] = []
        self.stages: list[int] = []
        self._stage = 0
        self._journal = journal
        self._die_at = die_at
        self._die_on = die_on
        self._unrecorded = ""  # the call whose answer is not committed yet

    def here(self, label: str) -> None:
        if len(self.labels) == self._die_at or label == self._die_on:
            os.kill(os.getpid(), signal.SIGKILL)
        self.labels.append(label)
        self.stages.append(self._stage)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, before and after which its process may die; accepted, it stands in the journal."""

        def watched(*args: Any, **options: Any) -> Any:
            self.here(f"before the call {name}")
            answer = call(*args, **options)
            with self._journal.open("a", encoding="utf-8") as journal:
                journal.write(json.dumps([name, repr((args, options))]) + "\n")
            self._unrecorded = name
            self._stage += 1
            self.here(f"after the call {name}")
            return answer

        return watched

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Before and after every statement that writes, after every commit, and around a trainer's tracker file."""
        commit = connection.commit

        def after_commit() -> None:
            commit()
            name, self._unrecorded = self._unrecorded, ""
            self._stage += 1
            self.here(f"after the commit of the call {name}" if name else "after a commit")

        with ExitStack() as stack:
            stack.enter_context(connection.execute_wrapper(self._statement))
            connection.commit = after_commit  # type: ignore[method-assign]
            stack.callback(lambda: setattr(connection, "commit", commit))
            stack.enter_context(patch.object(calls, "write_tracker", self.around("write_tracker", write_tracker)))
            yield

    def _statement(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        words = sql.split(None, 3)
        if words[0] not in WRITES:
            return execute(sql, params, many, context)
        what = f"{words[0]} {words[2] if words[0] != 'UPDATE' else words[1]}".replace('"', "")
        self.here(f"before {what}")
        result = execute(sql, params, many, context)
        self._stage += not connection.in_atomic_block
        self.here(f"after {what}")
        return result


class MortalClient:
    """A SlurmClient around whose writes its process may die: before the call, and after it, unrecorded."""

    def __init__(self, client: SlurmClient, points: Points) -> None:
        self._client = client
        self._points = points

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        return self._points.around(name, call) if name in WRITE_CALLS else call


def accepted(journal: Path) -> list[str]:
    """The names of all calls that the outside world accepted, in order, over all processes of a trial."""
    if not journal.exists():
        return []
    return [json.loads(line)[0] for line in journal.read_text(encoding="utf-8").splitlines()]
