"""The points at which a process may die, and the process that dies there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connection

from recovery.slurm.base import Operation, SlurmClient

WRITES = ("INSERT", "UPDATE", "DELETE")
WRITE_CALLS = {operation.value for operation in Operation if operation.is_write}


class Points:
    """Counts what a process passes, and kills it at one of them: SIGKILL, nothing is tidied up."""

    def __init__(self, *, die_at: int | None = None) -> None:
        self.labels: list[str] = []
        self._die_at = die_at

    def here(self, label: str) -> None:
        if len(self.labels) == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.labels.append(label)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Before and after every statement that writes, and after every commit."""
        commit = connection.commit

        def after_commit() -> None:
            commit()
            self.here("after a commit")

        with ExitStack() as stack:
            stack.enter_context(connection.execute_wrapper(self._statement))
            connection.commit = after_commit  # type: ignore[method-assign]
            stack.callback(lambda: setattr(connection, "commit", commit))
            yield

    def _statement(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        words = sql.split(None, 3)
        if words[0] not in WRITES:
            return execute(sql, params, many, context)
        what = f"{words[0]} {words[2] if words[0] != 'UPDATE' else words[1]}".replace('"', "")
        self.here(f"before {what}")
        result = execute(sql, params, many, context)
        self.here(f"after {what}")
        return result


class MortalClient:
    """A SlurmClient around whose writes its process may die: before the call, and after it, unrecorded."""

    def __init__(self, client: SlurmClient, points: Points) -> None:
        self._client = client
        self._points = points

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name in WRITE_CALLS:
            return lambda *args, **options: self._around(name, call, *args, **options)
        return call

    def _around(self, name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self._points.here(f"before the call {name}")
        answer = call(*args, **options)
        self._points.here(f"after the call {name}")
        return answer
