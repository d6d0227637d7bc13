"""The supervisor with small real programs: what runs, what ends, and what is left behind by a kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recovery.demo.processes import ProcessId, identify, read_pid_file, wait_until, write_pid_file
from recovery.demo.supervisor import AlreadyRunning, NotReady, Program, ProgramEnded, Supervisor

SLEEP = "import time; print('up', flush=True); time.sleep(100)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
WITH_CHILD = (
    f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEP!r}]).pid, flush=True); {SLEEP}"
)
# A supervisor in a process of its own, with two programs, that tells when both are up.
PARENT = """
import sys
from pathlib import Path
from recovery.demo.supervisor import Interrupted, Program, Supervisor
folder, *codes = sys.argv[1:]
try:
    with Supervisor(Path(folder), grace_s=5) as supervisor:
        for number, code in enumerate(codes):
            supervisor.start(Program(name=f"p{number}", command=[sys.executable, "-c", code]))
        logs = [supervisor.log_dir / f"p{number}.log" for number in range(len(codes))]
        supervisor.wait_for(lambda: all("up" in log.read_text() for log in logs), timeout_s=20, what="programs")
        print("ready", flush=True)
        supervisor.run()
except Interrupted:
    print("stopped", flush=True)
"""

Parent = Callable[..., subprocess.Popen[str]]


def python(name: str, code: str, *, stop_last: bool = False) -> Program:
    return Program(name=name, command=[sys.executable, "-c", code], stop_last=stop_last)


def wait_up(supervisor: Supervisor, *names: str) -> None:
    def all_up() -> bool:
        return all("up" in (supervisor.log_dir / f"{name}.log").read_text() for name in names)

    supervisor.wait_for(all_up, timeout_s=20, what="the programs")


def left(folder: Path) -> list[ProcessId]:
    found = [read_pid_file(path) for path in sorted((folder / "run").glob("*.pid"))]
    return [process for process in found if process and process.is_alive()]


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Parent]:
    """Starts a supervisor in a process of its own; what the test leaves of it is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(*codes: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(tmp_path), *codes], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
    for leftover in left(tmp_path):
        os.killpg(leftover.pid, signal.SIGKILL)


def test_what_a_killed_supervisor_left_behind_is_stopped_by_the_next_start(parent: Parent, tmp_path: Path) -> None:
    process = parent(SLEEP, STUBBORN)
    process.kill()
    process.wait()
    orphans = left(tmp_path)
    assert len(orphans) == 2

    with Supervisor(tmp_path, grace_s=0.5) as supervisor:
        assert supervisor.leftovers == ["p0", "p1"]
        assert not any(orphan.is_alive() for orphan in orphans)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_ends_every_program(parent: Parent, tmp_path: Path, number: signal.Signals) -> None:
    process = parent(SLEEP, SLEEP)
    children = left(tmp_path)
    assert len(children) == 2

    process.send_signal(number)
    output, _ = process.communicate(timeout=20)

    assert output == "stopped\n"
    assert not any(child.is_alive() for child in children)
    assert not list((tmp_path / "run").glob("*.pid"))


def test_a_second_ctrl_c_kills_what_does_not_end(parent: Parent, tmp_path: Path) -> None:
    process = parent(STUBBORN)
    process.send_signal(signal.SIGINT)
    assert not wait_until(lambda: not left(tmp_path), timeout_s=0.5)
    process.send_signal(signal.SIGINT)
    assert wait_until(lambda: not left(tmp_path), timeout_s=3)


def test_a_program_that_ends_by_itself_ends_the_rest_and_shows_its_last_lines(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(python("steady", SLEEP))
        wait_up(supervisor, "steady")
        supervisor.start(python("broken", "print('no such host'); raise SystemExit(3)"))
        with pytest.raises(ProgramEnded, match=r"broken ended \(exit code 3\)(?s:.*)no such host"):
            supervisor.run()
        steady = identify(supervisor.pids()["steady"])
    assert steady
    assert not steady.is_alive()


def test_a_killed_program_is_said_to_be_killed(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(python("victim", SLEEP))
        wait_up(supervisor, "victim")
        os.kill(supervisor.pids()["victim"], signal.SIGKILL)
        with pytest.raises(ProgramEnded, match="killed by SIGKILL"):
            supervisor.run()


def test_children_of_a_program_end_with_it(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(python("family", WITH_CHILD))
        wait_up(supervisor, "family")
        child = identify(int((supervisor.log_dir / "family.log").read_text().split()[0]))
        assert child
    assert wait_until(lambda: not child.is_alive(), timeout_s=5)


def test_children_of_a_program_that_was_killed_end_too(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(python("family", WITH_CHILD))
        wait_up(supervisor, "family")
        child = identify(int((supervisor.log_dir / "family.log").read_text().split()[0]))
        assert child
        os.kill(supervisor.pids()["family"], signal.SIGKILL)
        with pytest.raises(ProgramEnded):
            supervisor.run()
        assert wait_until(lambda: not child.is_alive(), timeout_s=5)


def test_a_broker_outlives_those_that_need_it(tmp_path: Path) -> None:
    ends_with_time = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(print(time.monotonic())));" + SLEEP
    )
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(python("broker", ends_with_time, stop_last=True))
        supervisor.start(python("worker", f"{ends_with_time}"))
        wait_up(supervisor, "broker", "worker")
    ended = {name: float((tmp_path / "log" / f"{name}.log").read_text().split()[1]) for name in ("broker", "worker")}
    assert ended["worker"] < ended["broker"]


def test_only_one_supervisor_works_in_a_folder(parent: Parent, tmp_path: Path) -> None:
    process = parent(SLEEP)
    with pytest.raises(AlreadyRunning, match=f"as process {process.pid}"), Supervisor(tmp_path):
        pass
    assert len(left(tmp_path)) == 1


def test_a_number_that_another_process_got_meanwhile_is_left_alone(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        (tmp_path / "run").mkdir()
        write_pid_file(tmp_path / "run" / "worker.pid", ProcessId(stranger.pid, "1"))
        with Supervisor(tmp_path) as supervisor:
            assert supervisor.leftovers == []
        assert stranger.poll() is None
        assert not (tmp_path / "run" / "worker.pid").exists()
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("text", ["", "no number\n", "12\n", "\xff"])
def test_a_broken_pid_file_names_nobody(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.pid"
    path.write_bytes(text.encode("latin-1"))
    assert read_pid_file(path) is None


def test_what_does_not_come_in_time_is_said_with_the_place_of_the_logs(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(python("steady", SLEEP))
        with pytest.raises(NotReady, match=rf"for the web server.*{tmp_path}/log"):
            supervisor.wait_for(lambda: False, timeout_s=0.3, what="the web server")


def test_lines_are_handed_on_as_they_are_written_and_kept_in_the_log(tmp_path: Path) -> None:
    lines: list[tuple[str, str]] = []
    with Supervisor(tmp_path, follow=lambda name, line: lines.append((name, line))) as supervisor:
        supervisor.start(python("talker", "print('one'); print('half', end='', flush=True);" + SLEEP))
        supervisor.wait_for(lambda: len(lines) == 2, timeout_s=20, what="lines")
    assert lines == [("talker", "one"), ("talker", "halfup")]
    assert (tmp_path / "log" / "talker.log").read_text() == "one\nhalfup\n"


def test_the_log_of_the_start_before_is_kept(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with Supervisor(tmp_path) as supervisor:
            supervisor.start(python("talker", f"print({text!r});" + SLEEP))
            wait_up(supervisor, "talker")
    assert (tmp_path / "log" / "talker.log").read_text() == "second\nup\n"
    assert (tmp_path / "log" / "talker.old.log").read_text() == "first\nup\n"
