"""Arrays, as Slurm 22.05 keeps them: one record while tasks wait, one for each task that was touched."""

from __future__ import annotations

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import JobNotFound, JobRecord
from recovery.slurm.simulator import FaultKind
from tests.slurm.simulator.virtual import Sim, failing, train


def records(sim: Sim) -> dict[str, JobRecord]:
    return {job.job_id: job for job in sim.client.jobs()}


def test_waiting_tasks_are_one_record(sim: Sim) -> None:
    array = sim.cluster.submit(train(array=(0, 1, 2, 3, 4, 5)))
    assert list(records(sim)) == [array]
    assert records(sim)[array].state is JobState.PENDING


def test_tasks_that_start_are_jobs_of_their_own_and_the_last_one_keeps_the_number(sim: Sim) -> None:
    array = sim.cluster.submit(train(array=(0, 1, 2, 3, 4, 5), stdout="%A_%a-%j.out"))
    sim.run(5)
    found = records(sim)
    assert sorted(found) == [array, *(f"{array}_{task}" for task in range(4))]
    assert [found[f"{array}_{task}"].stdout.split("/")[-1] for task in range(2)] == [
        "4101_0-4102.out",
        "4101_1-4103.out",
    ]
    assert found[array].state_reason == "Resources"
    for task in range(4):
        sim.cluster.cancel(f"{array}_{task}", by="ada")
    sim.run(5)
    found = records(sim)
    assert array not in found
    assert found[f"{array}_5"].stdout.endswith("/4101_5-4101.out")


def test_no_more_tasks_run_than_the_array_allows(sim: Sim) -> None:
    array = sim.cluster.submit(train(array=(0, 1, 2), array_limit=2, total_steps=20))
    sim.run(10)
    assert records(sim)[array].state_reason == "JobArrayTaskLimit"
    sim.until(f"{array}_0", JobState.COMPLETED)
    sim.run(10)
    assert records(sim)[f"{array}_2"].state is JobState.RUNNING


def test_a_held_task_is_split_off_and_a_cancelled_one_leaves_no_record(sim: Sim) -> None:
    sim.cluster.submit(train(name="first", nodes=4))
    sim.run(5)
    array = sim.cluster.submit(train(array=(0, 1, 2, 3)))
    sim.client.hold(f"{array}_2")
    assert records(sim)[f"{array}_2"].held
    assert not records(sim)[array].held
    sim.client.cancel(f"{array}_3")
    with pytest.raises(JobNotFound):
        sim.client.job(f"{array}_3")
    sim.client.cancel(array)
    assert {records(sim)[name].state for name in (array, f"{array}_2")} == {JobState.CANCELLED}


def test_a_task_is_requeued_alone_and_trains_its_own_run(sim: Sim) -> None:
    array = sim.cluster.submit(failing(FaultKind.TRACEBACK, 15, task=1, array=(0, 1), append=True))
    sim.run(5)
    failed = sim.until(f"{array}_1", JobState.FAILED)
    sim.client.requeue(failed.job_id, hold=False)
    again = sim.until(f"{array}_1", JobState.RUNNING)
    assert (again.restart_count, sim.client.job(f"{array}_0").restart_count) == (1, 0)
    sim.run(10)
    assert "at iteration 10" in sim.log(f"{array}_1")
    assert [a.state for a in sim.attempts(f"{array}_1")] == [JobState.FAILED, JobState.RUNNING]
    assert (sim.checkpoints("llama"), sim.checkpoints("llama-1")[:1]) == ([], ["iter_0000010"])
