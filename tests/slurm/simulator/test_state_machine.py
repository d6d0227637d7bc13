"""Whatever people, machines and time do to the cluster, in whatever order, some things always hold."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import JobRecord, SlurmRefused
from recovery.slurm.simulator import Fault, FaultKind
from tests.slurm.simulator.test_store import LINE
from tests.slurm.simulator.virtual import Sim, make_sim, reported_steps, train

NODES = tuple(f"gpu-0{n}" for n in range(1, 5))
nodes = st.sampled_from(NODES)
faults = st.lists(
    st.builds(
        Fault,
        kind=st.sampled_from([kind for kind in FaultKind if kind is not FaultKind.GARBAGE]),
        step=st.integers(0, 30),
        attempt=st.none() | st.integers(0, 2),
        node=st.just("") | nodes,
        repeat=st.booleans(),
        seconds=st.sampled_from([0.0, 5.0, 40.0]),
    ),
    max_size=3,
)
OTHER_LINES = (  # what a dying job says besides
    "gpu-", "[gpu-", "[rank", "2026-", "[after training is done]", "slurmstepd: error: Detected"
)  # fmt: skip


class AnyHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="sim-"))
        self.sim: Sim = make_sim(self.folder, min_job_age_s=60, node_timeout_s=3)
        self.restarts: dict[str, int] = {}
        self.picture: tuple[str, list[JobRecord]] = ("", [])
        self.nodes_of: dict[tuple[str, int], tuple[str, ...]] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def some_job(self, data: Any) -> str:
        known = [job.job_id for job in self.sim.client.jobs()]
        chosen: str = data.draw(st.sampled_from(known or ["4101"]))
        return chosen

    @rule(count=st.integers(1, 4), gpus=st.sampled_from([1, 4, 8]), bad=faults, requeueable=st.booleans())
    def submit(self, count: int, gpus: int, bad: list[Fault], requeueable: bool) -> None:
        number = len(self.restarts)
        spec = train(
            name=f"job-{number}", nodes=count, gpus_per_node=gpus, faults=tuple(bad), requeueable=requeueable,
            save_every=5, save_s=0.7, total_steps=60, time_limit_s=100 if number % 3 == 0 else None,
        )  # fmt: skip
        self.restarts[self.sim.cluster.submit(spec)] = 0

    @rule(seconds=st.floats(0.01, 40))
    def time_passes(self, seconds: float) -> None:
        self.sim.run(seconds)

    @rule(seconds=st.floats(0.01, 40))
    def the_clock_goes_back(self, seconds: float) -> None:
        self.sim.run(-seconds)

    @precondition(lambda self: self.restarts)
    @rule(data=st.data(), hold=st.booleans())
    def requeue(self, data: Any, hold: bool) -> None:
        self._try(lambda: self.sim.client.requeue(self.some_job(data), hold=hold))

    @precondition(lambda self: self.restarts)
    @rule(data=st.data())
    def release(self, data: Any) -> None:
        self._try(lambda: self.sim.client.release(self.some_job(data)))

    @precondition(lambda self: self.restarts)
    @rule(data=st.data(), names=st.lists(nodes, max_size=3))
    def exclude(self, data: Any, names: list[str]) -> None:
        self._try(lambda: self.sim.client.set_excluded_nodes(self.some_job(data), tuple(names)))

    @precondition(lambda self: self.restarts)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        self._try(lambda: self.sim.cluster.cancel(self.some_job(data), by="ada"))

    @precondition(lambda self: self.restarts)
    @rule(data=st.data())
    def hold(self, data: Any) -> None:
        self._try(lambda: self.sim.client.hold(self.some_job(data)))

    @precondition(lambda self: self.restarts)
    @rule(data=st.data(), seconds=st.sampled_from([1, 60, 600]))
    def set_time_limit(self, data: Any, seconds: float) -> None:
        self._try(lambda: self.sim.client.set_time_limit(self.some_job(data), seconds))

    @precondition(lambda self: self.restarts)
    @rule(data=st.data(), text=st.text(max_size=5))
    def set_admin_comment(self, data: Any, text: str) -> None:
        self._try(lambda: self.sim.client.set_admin_comment(self.some_job(data), text))

    @rule(name=nodes, drain=st.booleans())
    def the_product_drains_or_resumes(self, name: str, drain: bool) -> None:
        client = self.sim.client
        self._try(lambda: client.drain_node(name, "ours") if drain else client.resume_node(name))

    @rule(name=nodes, how=st.sampled_from(["fail_node", "crash_node", "drain_node", "restore_node"]))
    def something_happens_to_a_node(self, name: str, how: str) -> None:
        getattr(self.sim.cluster, how)(name)

    def _try(self, act: Callable[[], None]) -> None:
        with suppress(SlurmRefused):
            act()

    @invariant()
    def a_node_never_runs_more_than_it_has(self) -> None:
        with self.sim.cluster.world() as world:
            for node in world.state.nodes.values():
                on_it = [
                    job
                    for job in world.state.jobs.values()
                    if node.name in job.nodes and (job.training is not None or job.completing_until is not None)
                ]
                assert node.used == sum(job.spec.gpus_per_node for job in on_it) <= node.gpus
                if node.down:
                    assert all(job.training is None for job in on_it)

    @invariant()
    def a_mark_that_still_holds_means_the_same_jobs(self) -> None:
        mark, jobs = self.picture
        picture = self.sim.client.jobs_since(mark)
        now = self.sim.client.jobs()
        assert (now == jobs) if picture.jobs is None else (picture.jobs == now)
        self.picture = picture.mark, now

    @invariant()
    def records_agree_with_each_other(self) -> None:
        for job in self.sim.client.jobs():
            before = self.restarts[job.job_id]
            assert job.restart_count >= before
            self.restarts[job.job_id] = job.restart_count
            self._check_nodes(job)
            if job.state.is_terminal:
                assert job.ended_at is not None
                assert job.exit_code is not None
            assert not (job.held and job.state is JobState.RUNNING)
            past = self.sim.attempts(job.job_id)
            assert [attempt.number for attempt in past] == list(range(job.restart_count + 1))
            assert all(attempt.state.is_terminal for attempt in past[:-1])

    def _check_nodes(self, job: JobRecord) -> None:
        if job.state is not JobState.RUNNING:
            return
        assert len(job.nodes) == len(set(job.nodes)) == job.node_count
        assert not set(job.nodes) & set(job.excluded_nodes)
        key = (job.job_id, job.restart_count)
        assert self.nodes_of.setdefault(key, job.nodes) == job.nodes  # an attempt never moves

    @invariant()
    def every_log_line_is_whole(self) -> None:
        for path in self.folder.glob("logs/*.out"):
            text = path.read_text()
            assert text.endswith("\n")
            for line in text.split("\n")[:-1]:
                assert LINE.fullmatch(line) or line.startswith(OTHER_LINES), repr(line)
            steps = reported_steps(text)
            assert steps == list(range(steps[0], steps[0] + len(steps))) if steps else True

    @invariant()
    def the_tracker_names_a_checkpoint_that_was_finished(self) -> None:
        for tracker in self.folder.glob("ckpt/*/latest_checkpointed_iteration.txt"):
            assert (tracker.parent / f"iter_{int(tracker.read_text()):07d}" / "mp_rank_01").is_dir()

    @invariant()
    def nodes_say_what_they_are(self) -> None:
        for node in self.sim.client.nodes():
            assert ("DRAIN" in node.raw_state) == (node.state in (NodeState.DRAINING, NodeState.DRAINED)) or (
                node.state is NodeState.DOWN
            )


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
