"""Orders of the contract beyond what its suite asks for, ids that come round, logs that are written on, accounting."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import Operation, SlurmRefused, Submission
from recovery.slurm.simulator import FaultKind, LiveStore, SimulatedCluster, SimulatorClient, TroubleKind
from tests.slurm.simulator.virtual import Sim, failing, make_sim, train


def submission(sim: Sim, script: str, **fields: object) -> Submission:
    return Submission(**{"script": script, "user": "ada", "work_dir": str(sim.cluster.state_dir), **fields})  # type: ignore[arg-type]


def test_a_hold_on_a_running_job_takes_effect_when_it_is_put_back(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(20)
    sim.client.hold(job)
    record = sim.client.job(job)
    assert (record.state, record.held, record.state_reason) == (JobState.RUNNING, False, "JobHeldAdmin")
    sim.client.requeue(job, hold=False)
    sim.run(30)
    record = sim.client.job(job)
    assert (record.state, record.held, record.state_reason) == (JobState.PENDING, True, "JobHeldAdmin")


def test_a_shorter_limit_ends_a_running_job(sim: Sim) -> None:
    job = sim.cluster.submit(train(time_limit_s=3600))
    sim.run(100)
    sim.client.set_time_limit(job, 61)
    assert sim.client.job(job).time_limit_s == 120
    assert sim.until(job, JobState.TIMEOUT).ended_at


@pytest.mark.parametrize("call", ["hold", "release", "set_time_limit", "set_admin_comment", "set_excluded_nodes"])
def test_an_ended_job_is_changed_no_more(sim: Sim, call: str) -> None:
    job = sim.cluster.submit(train(total_steps=2))
    sim.until(job, JobState.COMPLETED)
    more = {"set_time_limit": (60,), "set_admin_comment": ("x",), "set_excluded_nodes": ((),)}.get(call, ())
    with pytest.raises(SlurmRefused, match="Job has already finished"):
        getattr(sim.client, call)(job, *more)


def test_a_stored_script_submitted_again_trains_the_same(sim: Sim) -> None:
    first = sim.cluster.submit(failing(FaultKind.TRACEBACK, 15, nodes=2, total_steps=40))
    sim.until(first, JobState.FAILED)
    script = sim.client.batch_script(first)
    second = sim.client.submit(submission(sim, script, excluded_nodes=("gpu-01",), environment={"A": "1"}))
    assert second != first
    record = sim.until(second, JobState.RUNNING)
    assert (record.name, record.nodes) == ("llama", ("gpu-02", "gpu-03"))
    sim.run(8)
    assert "at iteration 10" in sim.log(second)
    assert sim.client.batch_script(second) == script


@pytest.mark.parametrize("script", ["echo hello", '#!/bin/sh\n#SIMULATE {"nodes": 0}', "#!/bin/sh\n#SIMULATE {x}"])
def test_a_script_that_says_nothing_to_be_run_is_refused(sim: Sim, script: str) -> None:
    with pytest.raises(SlurmRefused):
        sim.client.submit(submission(sim, script))
    assert sim.client.jobs() == []


def test_ids_come_round_and_pass_over_those_in_use(tmp_path: Path) -> None:
    sim = make_sim(tmp_path, first_job_id=10, max_job_id=12, min_job_age_s=5)
    long = sim.cluster.submit(train(name="long"))
    short = [sim.cluster.submit(train(name=f"short-{n}", total_steps=3)) for n in range(2)]
    assert [long, *short] == ["10", "11", "12"]
    sim.run(40)
    assert sim.cluster.submit(train(name="again")) == "11"
    assert len(sim.attempts("11")) == 2


def test_a_cluster_whose_ids_are_all_in_use_takes_no_job(tmp_path: Path) -> None:
    sim = make_sim(tmp_path, first_job_id=7, max_job_id=8)
    for _ in range(2):
        sim.cluster.submit(train(name="a"))
    with pytest.raises(SlurmRefused, match="every job id is in use"):
        sim.cluster.submit(train(name="a"))


def test_a_log_in_append_mode_keeps_what_the_attempt_before_wrote(sim: Sim) -> None:
    for append in (True, False):
        job = sim.cluster.submit(train(name=f"append-{append}".lower(), append=append))
        sim.run(15)
        before = sim.log(job)
        sim.client.requeue(job, hold=False)
        sim.until(job, JobState.RUNNING)
        sim.run(5)
        assert sim.log(job).startswith(before) is append


def test_accounting_hears_later(tmp_path: Path) -> None:
    sim = make_sim(tmp_path, accounting_lag_s=10)
    job = sim.cluster.submit(failing(FaultKind.TRACEBACK, 5))
    assert sim.attempts(job) == []
    sim.until(job, JobState.FAILED)
    sim.run(5)
    (attempt,) = sim.attempts(job)
    assert (attempt.state, attempt.ended_at, attempt.exit_code) == (JobState.RUNNING, None, None)
    sim.run(10)
    (attempt,) = sim.attempts(job)
    assert (attempt.state, attempt.exit_code) == (JobState.FAILED, 1)


def test_a_mark_grows_old_only_when_a_job_has_changed(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    mark = sim.client.jobs_since("").mark
    sim.run(0.1)
    assert sim.client.jobs_since(mark).jobs is None
    sim.run(20)
    picture = sim.client.jobs_since(mark)
    assert [record.job_id for record in picture.jobs or []] == [job]
    sim.cluster.be_in_trouble(TroubleKind.EMPTY_LIST)
    assert sim.client.jobs_since(picture.mark).jobs == []


def test_every_write_can_be_shown_and_a_read_can_not(sim: Sim) -> None:
    for operation in Operation:
        assert sim.client.can(operation)
        if operation.is_write:
            assert "4711" in sim.client.preview(operation, "4711", nodes=("gpu-01",), value="60")
        else:
            with pytest.raises(ValueError, match="no command"):
                sim.client.preview(operation, "4711")


def test_a_live_world_is_the_same_as_a_stored_one(sim: Sim, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    store = LiveStore(folder)
    cluster = SimulatedCluster(folder, clock=sim.clock, store=store)
    with sim.cluster.world() as world:
        cluster.create(world.spec)
    live = Sim(clock=sim.clock, cluster=cluster, client=SimulatorClient(folder, clock=sim.clock, store=store))
    jobs = [one.cluster.submit(train(total_steps=30)) for one in (sim, live)]
    for one in (sim, live):
        one.run(20)
    assert jobs[0] == jobs[1]
    assert sim.log(jobs[0]).replace("cluster", "live") == live.log(jobs[1])
    assert not (folder / "world.json").exists()
