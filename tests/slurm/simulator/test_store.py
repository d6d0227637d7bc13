"""The state file, its lock, and what is left when a process is killed at any point."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import SlurmUnreachable
from recovery.slurm.simulator import Fault, FaultKind, SimulatorClient, store
from recovery.slurm.simulator.effects import Effect, carry_out
from tests.slurm.simulator.virtual import START, Sim, make_sim, reported_steps, train

REPOSITORY = Path(__file__).parents[3]
END_S = 180  # seconds of virtual time that the killed processes play

# Every process plays the same world up to END_S in small steps; which one is killed where must not show in the end.
PLAY = """
import sys
from datetime import timedelta
from pathlib import Path
from recovery.slurm.simulator import SimulatedCluster
from tests.slurm.simulator.virtual import START, VirtualClock

clock = VirtualClock()
cluster = SimulatedCluster(Path(sys.argv[1]), clock=clock)
with cluster.world() as world:
    clock.advance(world.state.now - START.timestamp())
print("playing", flush=True)
while clock.now < START + timedelta(seconds=float(sys.argv[2])):
    clock.advance(0.25)
    cluster.advance()
print("done", flush=True)
"""


def busy_sim(folder: Path) -> Sim:
    """Jobs that save often, fail and are requeued by Slurm itself."""
    sim = make_sim(folder, keep_checkpoints=3)
    faults = tuple(Fault(kind=FaultKind.NODE_DOWN, step=step, seconds=20) for step in (15, 40, 55))
    for number in range(3):
        sim.cluster.submit(
            train(name=f"job-{number}", save_every=5, save_s=0.5, step_time_s=0.7 + number / 10, faults=faults)
        )
    return sim


def files_below(folder: Path) -> dict[str, bytes]:
    """What the jobs have written; the folder's own name, which they print, is left out."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.parent != folder]
    return {str(path.relative_to(folder)): path.read_bytes().replace(str(folder).encode(), b"ROOT") for path in found}


def restarts(sim: Sim) -> dict[str, int]:
    return {job.job_id: job.restart_count for job in sim.client.jobs()}


@pytest.fixture
def reference(tmp_path: Path) -> Sim:
    """The same world, played without any trouble."""
    sim = busy_sim(tmp_path / "reference")
    sim.run(END_S)
    assert max(restarts(sim).values()) >= 2  # it has restarts to get wrong
    return sim


def play_until_killed(folder: Path, after_s: float) -> bool:
    """Run one process on the world; True where it was killed before it was done."""
    command = [sys.executable, "-c", PLAY, str(folder), str(END_S)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "playing\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        return process.stdout.read() == ""


def test_processes_killed_at_random_leave_the_world_as_if_nothing_had_happened(reference: Sim, tmp_path: Path) -> None:
    sim = busy_sim(tmp_path / "killed")
    chance = random.Random(4711)
    kills = sum(play_until_killed(sim.cluster.state_dir, chance.uniform(0.001, 0.04)) for _ in range(16))
    assert kills >= 8
    sim.run(END_S)
    assert restarts(sim) == restarts(reference)
    assert files_below(sim.cluster.state_dir) == files_below(reference.cluster.state_dir)


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it and go on."""


@pytest.mark.parametrize("half", [False, True], ids=["between effects", "in an effect"])
def test_being_killed_before_in_or_after_any_effect_changes_nothing(
    reference: Sim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: bool
) -> None:
    sim = busy_sim(tmp_path / f"killed-{half}")
    survived = 0
    while sim.clock.now.timestamp() < START.timestamp() + END_S:
        sim.clock.advance(6)
        for killed_after in range(100):
            with monkeypatch.context() as patch:
                patch.setattr(store, "carry_out", _killing(killed_after, half=half))
                try:
                    sim.cluster.advance()
                except Killed:
                    survived += 1
                    continue
            break
    sim.run(0)
    assert survived > 150
    assert restarts(sim) == restarts(reference)
    assert files_below(sim.cluster.state_dir) == files_below(reference.cluster.state_dir)


def _killing(after: int, *, half: bool) -> Any:
    def carry_out_in_part(effects: list[Effect], root: Path) -> None:
        if after >= len(effects):
            carry_out(effects, root)
            return
        carry_out(effects[:after], root)
        torn = effects[after]
        if half and torn.text:
            carry_out([Effect(kind=torn.kind, path=torn.path, offset=torn.offset, text=torn.text[:37])], root)
        raise Killed

    return carry_out_in_part


def test_being_killed_before_the_replacement_loses_the_whole_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = busy_sim(tmp_path)
    sim.run(10)
    before = files_below(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", _raise_killed)
        sim.clock.advance(5)
        with pytest.raises(Killed):
            sim.client.requeue("4101", hold=True)
    assert files_below(tmp_path) == before
    assert restarts(sim) == {"4101": 0, "4102": 0, "4103": 0}


def test_being_killed_after_the_replacement_keeps_the_whole_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = busy_sim(tmp_path)
    sim.run(10)
    with monkeypatch.context() as patch:
        patch.setattr(store, "carry_out", _raise_killed)
        with pytest.raises(Killed):
            sim.client.requeue("4101", hold=True)
    assert restarts(sim)["4101"] == 1
    assert sim.log("4101").count("DUE TO JOB REQUEUE") == 2  # the step's line and the job's, once each


def _raise_killed(*_: object) -> None:
    raise Killed


def _cancel_and_stumble(sim: Sim) -> None:
    with sim.cluster.world() as world:
        world.cancel("4101", by="ada")
        raise ZeroDivisionError


def test_an_exception_of_the_caller_changes_nothing(tmp_path: Path) -> None:
    sim = busy_sim(tmp_path)
    sim.run(10)
    with pytest.raises(ZeroDivisionError):
        _cancel_and_stumble(sim)
    assert sim.client.job("4101").state is JobState.RUNNING


WORK = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from recovery.core.types import JobState
from recovery.slurm.simulator import SimulatedCluster, SimulatorClient
from tests.slurm.simulator.virtual import train

folder, name = Path(sys.argv[1]), sys.argv[2]
start = datetime.now(UTC)

def clock():  # twenty times as fast as the wall's
    return start + 20 * (datetime.now(UTC) - start)

cluster, client = SimulatedCluster(folder, clock=clock), SimulatorClient(folder, clock=clock)
requeued = 0
for number in range(8):
    cluster.submit(train(name=f"{name}-{number}", gpus_per_node=1, total_steps=100_000, save_every=20, save_s=0.5))
while requeued < 8:
    for job in client.jobs():
        if job.name.startswith(name) and job.state is JobState.RUNNING and not job.restart_count:
            client.requeue(job.job_id, hold=False)
            requeued += 1
"""


def test_two_processes_may_work_on_one_world(tmp_path: Path) -> None:
    sim = make_sim(tmp_path, requeue_delay_s=1)
    commands = [[sys.executable, "-c", WORK, str(tmp_path), name] for name in ("left", "right")]
    processes = [subprocess.Popen(command, cwd=REPOSITORY) for command in commands]
    assert [process.wait(timeout=100) for process in processes] == [0, 0]
    with sim.cluster.world() as world:
        jobs = list(world.state.jobs.values())
    assert len(jobs) == len({job.job_id for job in jobs}) == 16
    assert len({job.spec.name for job in jobs}) == 16
    assert [job.restart_count for job in jobs] == [1] * 16
    for path in (tmp_path / "logs").iterdir():
        assert_whole(path.read_text())


LINE = re.compile(
    r" \[2\d{3}-\S+ \S+\] iteration .* \||  ?\[\S+ \S+\] successfully saved .*\]|WARNING: .*"
    r"|\[\S+ \S+\] saving checkpoint .* format|\[rank\d+\]: .*|torch .*| {4}will not load .* random"
    r"| loading checkpoint from \S+ at iteration \d+"
    r"|  successfully loaded checkpoint .*\d|\[before .*\] datetime: .* |slurmstepd: error: .* \*\*\*|srun: .*"
)


def assert_whole(log: str) -> None:
    """Every line is whole, and no step is reported twice or left out."""
    assert log == "" or log.endswith("\n")
    for line in log.split("\n")[:-1]:
        assert LINE.fullmatch(line), repr(line)
    steps = reported_steps(log)
    assert steps == list(range(steps[0], steps[0] + len(steps))) if steps else True


def test_threads_of_one_process_keep_out_of_each_others_way(tmp_path: Path) -> None:
    sim = make_sim(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        jobs = list(pool.map(lambda n: sim.cluster.submit(train(name=f"job-{n}")), range(24)))
    assert len(set(jobs)) == 24 == len(sim.client.jobs())


def test_whoever_waits_too_long_for_the_lock_has_observed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = make_sim(tmp_path)
    monkeypatch.setattr(store, "LOCK_WAIT_S", 0.05)
    with sim.cluster.world(), pytest.raises(SlurmUnreachable, match="another process holds"):
        sim.client.jobs()
    assert sim.client.jobs() == []


def test_a_world_is_made_once(tmp_path: Path) -> None:
    sim = busy_sim(tmp_path)
    sim.run(10)
    again = make_sim(tmp_path, seed=99)
    assert len(again.client.jobs()) == 3
    with again.cluster.world() as world:
        assert world.spec.seed == 1


def test_the_state_directory_may_be_moved(tmp_path: Path) -> None:
    sim = make_sim(tmp_path / "here")
    job = sim.cluster.submit(train())
    sim.run(20)
    sim.cluster.state_dir.rename(tmp_path / "there")
    moved = make_sim(tmp_path / "there")
    moved.run(40)
    assert moved.client.job(job).stdout == str(tmp_path / f"there/logs/llama-{job}.out")
    assert moved.steps(job)[-1] > 30


def test_clients_that_keep_a_world_see_what_others_have_stored(tmp_path: Path) -> None:
    sim = make_sim(tmp_path)
    other = SimulatorClient(tmp_path, clock=sim.clock)
    job = sim.cluster.submit(train())
    for _ in range(3):
        assert [record.job_id for record in other.jobs()] == [job]
        other.set_admin_comment(job, f"at {sim.clock.now}")
        assert sim.client.job(job).admin_comment == other.job(job).admin_comment == f"at {sim.clock.now}"
        sim.run(3)
    sim.cluster.cancel(job, by="ada")
    assert other.job(job).state.is_terminal or other.job(job).state is JobState.COMPLETING


def test_a_look_at_a_world_in_which_nothing_happens_is_not_stored(tmp_path: Path) -> None:
    sim = make_sim(tmp_path)
    sim.client.jobs()
    before = (tmp_path / "world.json").stat().st_mtime_ns
    sim.clock.advance(2)
    assert sim.client.nodes()
    assert (tmp_path / "world.json").stat().st_mtime_ns == before
    sim.clock.advance(20)
    sim.client.nodes()
    assert (tmp_path / "world.json").stat().st_mtime_ns != before
