"""The world is a pure function of its inputs: seed, jobs, operations and their times."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.types import JobState
from recovery.slurm.simulator import ClusterSpec, Fault, FaultKind, JobSpec, Stream, Workload, make_nodes
from recovery.slurm.simulator.codec import decode, encode
from recovery.slurm.simulator.effects import Effect, EffectKind
from recovery.slurm.simulator.state import State
from recovery.slurm.simulator.workload import QUIET_STEPS
from recovery.slurm.simulator.world import World, new_state
from tests.slurm.simulator.virtual import START, reported_steps, train

ROOT = PurePosixPath("/sim")
BEGIN = START.timestamp()
BUSY = Workload(
    streams=tuple(
        Stream(
            template=train(name=f"stream-{n}", nodes=1 + n % 2, total_steps=90, step_time_s=0.8 + 0.2 * n),
            faults=(FaultKind.ECC, FaultKind.HANG, FaultKind.NODE_DOWN, FaultKind.SLOW, FaultKind.TEAR),
            mean_steps_to_fault=40,
        )
        for n in range(3)
    ),
    after_end_s=20,
    after_failure_s=60,
    patience_s=60,
)


def make_world(seed: int = 1, *, workload: Workload | None = BUSY, known_for_s: float = 100) -> World:
    spec = ClusterSpec(seed=seed, nodes=make_nodes(4), workload=workload, keep_records_s=200, min_job_age_s=known_for_s)
    return World(new_state(spec, now=BEGIN), root=ROOT)


class Disk:
    """What the logs would hold if the effects were carried out."""

    def __init__(self) -> None:
        self.logs: dict[str, str] = {}

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if effect.kind is EffectKind.LOG:
                assert effect.offset in (0, len(self.logs.get(effect.path, "").encode()))
                self.logs[effect.path] = self.logs.get(effect.path, "")[: effect.offset] + effect.text
            elif effect.kind is EffectKind.REMOVE:
                self.logs.pop(effect.path, None)


def stored_and_read_again(world: World) -> World:
    text = json.dumps(encode(world.state))
    return World(decode(State, json.loads(text)), root=ROOT)


def play(world: World, disk: Disk, *moments: float) -> World:
    """Advance in steps, as processes do it: each reads the stored state, advances and stores it."""
    for moment in moments:
        world.advance(BEGIN + moment)
        disk.carry_out(world.take_effects())
        world = stored_and_read_again(world)
    return world


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 5), cuts=st.lists(st.floats(0, 400), max_size=30))
def test_one_long_advance_equals_many_short_ones(seed: int, cuts: list[float]) -> None:
    at_once, in_steps = Disk(), Disk()
    one = play(make_world(seed), at_once, 400)
    many = play(make_world(seed), in_steps, *sorted(cuts), 400)
    assert encode(one.state) == encode(many.state)
    assert at_once.logs == in_steps.logs


def test_the_same_seed_gives_the_same_world_and_another_seed_another() -> None:
    disks = [Disk(), Disk(), Disk()]
    for disk, seed in zip(disks, (1, 1, 2), strict=True):
        play(make_world(seed), disk, 100, 200, 300)
    assert disks[0].logs == disks[1].logs != disks[2].logs


def test_operations_happen_at_the_worlds_own_time() -> None:
    world = make_world(workload=None)
    world.advance(BEGIN + 10)
    world.advance(BEGIN + 5)  # a clock that goes back
    job = world.submit(train())
    assert world.state.now == BEGIN + 10 == job.submitted_at


def test_an_hour_of_a_busy_cluster_keeps_every_log_in_order() -> None:
    world, disk = make_world(), Disk()
    for minute in range(60):
        world = play(world, disk, minute * 60)
        for log in disk.logs.values():
            steps = reported_steps(log)
            assert steps == list(range(steps[0], steps[-1] + 1)) if steps else True
    assert sum(world.state.generations) > 20


def test_what_is_remembered_of_an_hour_is_bounded() -> None:
    world, disk = make_world(), Disk()
    sizes = []
    for minute in range(0, 120, 10):
        world = play(world, disk, minute * 60)
        sizes.append(len(json.dumps(encode(world.state))))
    assert max(sizes[6:]) < 1.5 * max(sizes[:6])
    assert len(disk.logs) < 40


def test_a_job_that_stands_still_is_cancelled_by_its_user_in_the_end() -> None:
    fault = Fault(kind=FaultKind.HANG, step=10)
    stream = Stream(template=train(name="stuck", user="lin", faults=(fault,)))
    world = make_world(workload=Workload(streams=(stream,), patience_s=120, after_end_s=30))
    world.advance(BEGIN + 145)
    (job,) = world.state.jobs.values()
    assert (job.state, job.cancelled_by) == (JobState.CANCELLED, "lin")
    world.advance(BEGIN + 190)
    assert [job.spec.run_key for job in world.state.jobs.values()] == ["stuck", "stuck-2"]


def test_the_next_job_of_a_stream_leaves_time_to_decide_about_a_failed_one() -> None:
    fault = Fault(kind=FaultKind.TRACEBACK, step=10)
    stream = Stream(template=train(name="bug", faults=(fault,)))
    world = make_world(workload=Workload(streams=(stream,), after_failure_s=300), known_for_s=500)
    world.advance(BEGIN + 300)
    assert sum(world.state.generations) == 1
    world.advance(BEGIN + 340)
    assert sum(world.state.generations) == 2


def test_a_revived_job_is_not_replaced() -> None:
    fault = Fault(kind=FaultKind.TRACEBACK, step=10)
    stream = Stream(template=train(name="bug", faults=(fault,), total_steps=10_000))
    world = make_world(workload=Workload(streams=(stream,), after_failure_s=300))
    world.advance(BEGIN + 90)
    (job,) = world.state.jobs.values()
    world.requeue(job.job_id, hold=False)
    world.advance(BEGIN + 1000)
    assert sum(world.state.generations) == 1


def test_later_jobs_of_a_stream_have_drawn_faults_within_reach() -> None:
    stream = Stream(
        template=JobSpec(name="run", total_steps=2000, step_time_s=0.01, save_every=0, nodes=4),
        faults=(FaultKind.NODE_DOWN, FaultKind.SLOW),
        mean_steps_to_fault=300,
    )
    world = make_world(workload=Workload(streams=(stream,), after_end_s=1))
    world.state.generations[0] = 7
    world.advance(BEGIN + 1)
    (job,) = world.state.jobs.values()
    assert job.spec.faults
    for fault in job.spec.faults:
        assert fault.kind in stream.faults
        assert QUIET_STEPS <= fault.step < 2000
        assert (fault.seconds > 0) == (fault.kind is FaultKind.NODE_DOWN)
