"""The process that pyslurm runs in (native_child.py): started when it is needed, given up when it does not answer.

The library behind pyslurm may end the process, crash it or wait for ever. Here each of these is an answer that never
came, and the next question gets a new process.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from recovery.slurm.base import SlurmRefused, SlurmUnreachable
from recovery.slurm.command import MAX_OUTPUT
from recovery.slurm.json_values import clean
from recovery.slurm.native_errors import error_of

CHILD = Path(__file__).with_name("native_child.py")
INSTALL = (
    "install the pyslurm of the cluster's release (docs/pyslurm.md), or name the Python that has it: option python"
)
MAX_WORDS = 500
MAX_REQUEST = 64 * 1024  # what an empty pipe takes at once (pipe(7)): writing never waits
_CHUNK = 256 * 1024


class _SlurmSaysNo(Exception):
    """An error that Slurm itself gave, by its own name ("ESLURM_JOB_PENDING"; "" for one that it has no name for)."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(words)
        self.name = name
        self.words = words


class _Process:
    """One running child. It ends with this object, and when our process ends: its input is closed then."""

    def __init__(self, python: str, env: Mapping[str, str]) -> None:
        self.number = 0
        self.ready = False
        self._rest = bytearray()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        try:
            self._popen = subprocess.Popen(
                [python, str(CHILD)],
                env=dict(env),
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError:
            self._errors.close()
            raise
        self.end = weakref.finalize(self, _end, self._popen, self._errors)

    def ask(self, line: bytes) -> None:
        assert self._popen.stdin is not None  # noqa: S101 (a pipe, see __init__)
        with suppress(BrokenPipeError):  # it is gone: reading will tell
            self._popen.stdin.write(line)
            self._popen.stdin.flush()

    def read_line(self, deadline: float, max_output: int) -> bytes:
        """The next line. TimeoutError, EOFError where it has ended, OverflowError where the line is too long."""
        assert self._popen.stdout is not None  # noqa: S101 (a pipe, see __init__)
        searched = 0
        with selectors.DefaultSelector() as selector:
            selector.register(self._popen.stdout, selectors.EVENT_READ)
            while (end := self._rest.find(b"\n", searched)) < 0:
                searched = len(self._rest)
                if searched > max_output:
                    raise OverflowError
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                chunk = os.read(self._popen.stdout.fileno(), _CHUNK)
                if not chunk:
                    raise EOFError
                self._rest.extend(chunk)
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    def how_it_ended(self) -> str:
        """In words, with the last of what it wrote; for one that has closed its output."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(1)
        code = self._popen.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended with {code}"
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4096))
        words = clean(self._errors.read().decode(errors="replace"))
        return f"{how}: {' '.join(words.split())[-MAX_WORDS:] or 'it wrote nothing'}"


def _end(popen: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(popen.pid, signal.SIGKILL)
    popen.wait()
    for pipe in (popen.stdin, popen.stdout, errors):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


class NativeProcess:
    """Asks one question at a time, whatever the number of threads; each has `timeout_s`, a process's start included."""

    def __init__(self, *, python: str, env: Mapping[str, str], timeout_s: float, max_output: int = MAX_OUTPUT) -> None:
        self._python = python
        self._env = dict(env)
        self._timeout_s = timeout_s
        self._max_output = max_output
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def ask(self, call: str, arguments: Mapping[str, Any], *, tried: str) -> Any:
        """What the call gives. SlurmError otherwise, SlurmUnreachable where there is no whole answer."""
        deadline = time.monotonic() + self._timeout_s
        if not self._lock.acquire(timeout=self._timeout_s):
            raise SlurmUnreachable(f"other questions took longer than {self._timeout_s:g} s", tried=tried)
        try:
            return self._asked(call, arguments, tried=tried, deadline=deadline)
        except _SlurmSaysNo as no:
            raise error_of(no.name, no.words, tried=tried) from None
        except BaseException:
            self._give_up()  # it may be in the middle of an answer
            raise
        finally:
            self._lock.release()

    def _asked(self, call: str, arguments: Mapping[str, Any], *, tried: str, deadline: float) -> Any:
        process = self._running(tried)
        if not process.ready:
            first = self._line(process, tried=tried, deadline=deadline)
            if "failed" in first:
                message = f"{self._python} can't load pyslurm ({clean(str(first['failed']))[:MAX_WORDS]}): {INSTALL}"
                raise SlurmUnreachable(message, tried=tried, permanent=True)
            if "ready" not in first:
                raise SlurmUnreachable("pyslurm's process does not say that it is ready", tried=tried)
            process.ready = True
        process.number += 1
        request = json.dumps({"number": process.number, "call": call, **arguments}).encode() + b"\n"
        if len(request) > MAX_REQUEST:
            raise SlurmRefused(f"the request is longer than {MAX_REQUEST} bytes", tried=tried, permanent=True)
        process.ask(request)
        answer = self._line(process, tried=tried, deadline=deadline)
        if answer.get("number") != process.number or not ("answer" in answer or isinstance(answer.get("error"), dict)):
            raise SlurmUnreachable("pyslurm's process answered something else than was asked", tried=tried)
        if "error" in answer:
            error = answer["error"]
            raise _SlurmSaysNo(str(error.get("name", "")), clean(str(error.get("words", "")))[:MAX_WORDS])
        return answer["answer"]

    def _running(self, tried: str) -> _Process:
        if self._process is None:
            try:
                self._process = _Process(self._python, self._env)
            except OSError as error:
                message = f"{self._python} can't be started ({error.strerror}): {INSTALL}"
                raise SlurmUnreachable(message, tried=tried, permanent=True) from error
        return self._process

    def _line(self, process: _Process, *, tried: str, deadline: float) -> dict[str, Any]:
        try:
            answer = json.loads(process.read_line(deadline, self._max_output))
        except TimeoutError:
            raise SlurmUnreachable(f"no answer within {self._timeout_s:g} s", tried=tried) from None
        except OverflowError:
            raise SlurmUnreachable(f"its answer is longer than {self._max_output} bytes", tried=tried) from None
        except EOFError:
            raise SlurmUnreachable(f"pyslurm's process {process.how_it_ended()}", tried=tried) from None
        except (ValueError, RecursionError) as error:
            raise SlurmUnreachable(f"pyslurm's process answered no JSON ({error})", tried=tried) from error
        if not isinstance(answer, dict):
            raise SlurmUnreachable("pyslurm's process answered no JSON object", tried=tried)
        return answer

    def _give_up(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None
