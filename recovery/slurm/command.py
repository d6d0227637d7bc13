"""Running one of Slurm's commands: an argument list, a fixed environment, a time limit and a limit on its output.

No shell is involved anywhere, and nothing of our own environment reaches the command: variables such as SQUEUE_STATES,
SLURM_TIME_FORMAT or TZ would change what it prints.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO

from recovery.slurm.base import SlurmUnreachable

MAX_OUTPUT = 256 * 1024 * 1024  # squeue --json needs about 8 kB a job in recent releases: thirty thousand jobs
MAX_ERRORS = 64 * 1024
_CHUNK = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a command left behind. Bytes that are no UTF-8 are replaced: a job's name may hold any."""

    argv: tuple[str, ...]
    code: int
    output: str
    errors: str

    @property
    def tried(self) -> str:
        return shlex.join(self.argv)


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """What a command is given besides its arguments: its standard input, and a file behind an open descriptor.

    The descriptor's number is told by one more argument: `file_option` and the number.
    """

    text: str = ""
    file: bytes | None = None
    file_option: str = ""


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    timeout_s: float,
    given: Input | None = None,
    max_output: int = MAX_OUTPUT,
) -> Answer:
    """Run it to its end. SlurmUnreachable where it can't be started, takes too long or says too much.

    `argv[0]` may be a bare name, looked up in the PATH of `env`.
    """
    tried = shlex.join(argv)
    with ExitStack() as files:
        try:
            process = _start(argv, env=env, given=given or Input(), files=files)
        except OSError as error:
            raise SlurmUnreachable(f"can't be started ({error.strerror})", tried=tried, permanent=True) from error
        with process:
            try:
                output, errors = _read(process, tried=tried, timeout_s=timeout_s, max_output=max_output)
            finally:
                _end(process)
    return Answer(
        argv=tuple(argv),
        code=process.returncode,
        output=output.decode(errors="replace"),
        errors=errors.decode(errors="replace"),
    )


def _start(argv: Sequence[str], *, env: Mapping[str, str], given: Input, files: ExitStack) -> subprocess.Popen[bytes]:
    """In a process group of its own, so that whatever it started can be ended with it."""
    numbers = [files.enter_context(_holding(given.file)).fileno()] if given.file is not None else []
    return subprocess.Popen(
        [*argv, *(f"{given.file_option}{number}" for number in numbers)],
        env=dict(env),
        umask=0o022,  # a job that is submitted takes it over, and ours may be stricter
        stdin=files.enter_context(_holding(given.text.encode())) if given.text else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=numbers,
        start_new_session=True,
    )


def _holding(content: bytes) -> IO[bytes]:
    """A file without a name: unlike a pipe, however much it holds, nobody waits for its reader."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.seek(0)
    return file


def _read(process: subprocess.Popen[bytes], *, tried: str, timeout_s: float, max_output: int) -> tuple[bytes, bytes]:
    """Both streams to their ends, in step, so that neither fills up and blocks the command; then its end."""
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 (pipes both, see run)
    deadline = time.monotonic() + timeout_s
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, output)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise SlurmUnreachable(f"no answer within {timeout_s:g} s", tried=tried)
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    selector.unregister(key.fileobj)
                key.data.extend(chunk)
            if len(output) > max_output:
                raise SlurmUnreachable(f"its answer is longer than {max_output} bytes", tried=tried)
            del errors[MAX_ERRORS:]
    try:
        process.wait(max(0.01, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise SlurmUnreachable(f"it did not end within {timeout_s:g} s", tried=tried) from None
    return bytes(output), bytes(errors)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and whatever it started. Its group exists as long as it has not been waited for."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
