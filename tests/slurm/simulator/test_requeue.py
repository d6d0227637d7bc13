"""What requeue, requeuehold, release and exclusion mean, as measured on Slurm 22.05."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import HELD_BY_REQUEUE, JobNotFound, Operation, SlurmRefused
from recovery.slurm.simulator import FaultKind
from tests.slurm.simulator.virtual import Sim, failing, make_sim, train


def test_a_requeued_job_completes_waits_and_runs_again(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=2))
    sim.run(20)
    sim.client.requeue(job, hold=False)
    record = sim.client.job(job)
    assert (record.state, record.restart_count) == (JobState.COMPLETING, 1)
    sim.run(1.5)
    record = sim.client.job(job)
    assert (record.state, record.state_reason, record.nodes) == (JobState.PENDING, "BeginTime", ())
    sim.run(3)
    assert sim.client.job(job).state is JobState.PENDING
    assert sim.until(job, JobState.RUNNING, within_s=3).restart_count == 1


def test_the_requeue_delay_is_what_health_says(tmp_path: Path) -> None:
    sim = make_sim(tmp_path, requeue_delay_s=121)
    assert sim.client.health().requeue_delay_s == 121
    job = sim.cluster.submit(train())
    sim.run(20)
    sim.client.requeue(job, hold=False)
    sim.run(120)
    assert sim.client.job(job).state is JobState.PENDING
    assert sim.until(job, JobState.RUNNING, within_s=3)


def test_requeue_overwrites_the_submit_time_and_keeps_id_comment_and_exclusions(sim: Sim) -> None:
    job = sim.cluster.submit(train(comment='{"note": 1}', excluded_nodes=("gpu-04",)))
    sim.run(20)
    before = sim.client.job(job)
    sim.client.requeue(job, hold=False)
    after = sim.client.job(job)
    assert (after.submitted_at - before.submitted_at).total_seconds() == 20
    assert (after.job_id, after.comment, after.excluded_nodes) == (job, '{"note": 1}', ("gpu-04",))


def test_the_log_is_emptied_when_the_next_attempt_starts_not_before(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(20)
    sim.client.requeue(job, hold=False)
    assert "DUE TO JOB REQUEUE" in sim.log(job)
    assert sim.steps(job)[0] == 1
    sim.until(job, JobState.RUNNING)
    assert "DUE TO JOB REQUEUE" not in sim.log(job)
    assert "restart 1" in sim.log(job).splitlines()[0]


def test_an_ended_job_keeps_its_reason_until_the_scheduler_looks(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.EXIT, 5, exit_code=3))
    sim.until(job, JobState.FAILED)
    sim.client.requeue(job, hold=False)
    record = sim.client.job(job)
    assert (record.state, record.state_reason, record.exit_code) == (JobState.PENDING, "NonZeroExitCode", None)
    sim.run(1)
    assert sim.client.job(job).state_reason == "BeginTime"
    assert sim.until(job, JobState.RUNNING).exit_code is None


@pytest.mark.parametrize("hold", [False, True])
def test_requeue_of_a_pending_job_is_refused(sim: Sim, hold: bool) -> None:
    job = sim.cluster.submit(train())
    with pytest.raises(SlurmRefused, match="Job is pending execution"):
        sim.client.requeue(job, hold=hold)
    sim.run(10)
    sim.client.requeue(job, hold=False)
    with pytest.raises(SlurmRefused, match="Job is pending execution"):
        sim.client.requeue(job, hold=hold)  # still completing, already pending again
    assert sim.client.job(job).restart_count == 1


def test_a_job_that_may_not_be_requeued_is_refused(sim: Sim) -> None:
    job = sim.cluster.submit(train(requeueable=False))
    sim.run(10)
    with pytest.raises(SlurmRefused, match="disabled"):
        sim.client.requeue(job, hold=False)
    assert sim.client.job(job).state is JobState.RUNNING


def test_requeuehold_keeps_the_job_until_it_is_released(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(20)
    sim.client.requeue(job, hold=True)
    sim.run(60)
    record = sim.client.job(job)
    assert (record.state, record.held, record.state_reason) == (JobState.PENDING, True, HELD_BY_REQUEUE)
    sim.client.release(job)
    assert sim.until(job, JobState.RUNNING, within_s=2).restart_count == 1


def test_release_keeps_what_is_left_of_the_requeue_delay(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(20)
    sim.client.requeue(job, hold=True)
    sim.client.release(job)
    sim.run(4)
    record = sim.client.job(job)
    assert (record.state, record.held, record.state_reason) == (JobState.PENDING, False, "BeginTime")


def test_hold_exclude_release_brings_the_job_to_other_nodes(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=2))
    sim.run(20)
    sim.client.requeue(job, hold=True)
    sim.client.set_excluded_nodes(job, ("gpu-02",))
    assert sim.client.job(job).excluded_nodes == ("gpu-02",)
    sim.client.release(job)
    assert sim.until(job, JobState.RUNNING).nodes == ("gpu-01", "gpu-03")


def test_exclusions_are_replaced_not_added(sim: Sim) -> None:
    job = sim.cluster.submit(train(excluded_nodes=("gpu-01",)))
    sim.client.set_excluded_nodes(job, ("gpu-03", "gpu-02"))
    assert sim.client.job(job).excluded_nodes == ("gpu-02", "gpu-03")
    sim.client.set_excluded_nodes(job, ())
    assert sim.client.job(job).excluded_nodes == ()


def test_exclusion_is_refused_for_a_running_job_and_for_an_unknown_node(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    with pytest.raises(SlurmRefused, match="Invalid node name"):
        sim.client.set_excluded_nodes(job, ("gpu-99",))
    sim.run(5)
    with pytest.raises(SlurmRefused, match="no longer pending"):
        sim.client.set_excluded_nodes(job, ("gpu-01",))


def test_excluding_too_many_nodes_leaves_the_job_waiting(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=3))
    sim.client.set_excluded_nodes(job, ("gpu-01", "gpu-02"))
    sim.run(10)
    assert sim.client.job(job).state_reason.startswith("ReqNodeNotAvail")


def test_a_job_is_gone_after_its_minimum_age_and_can_no_longer_be_requeued(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.EXIT, 5))
    sim.until(job, JobState.FAILED)
    sim.run(295)
    assert sim.client.job(job).state is JobState.FAILED
    sim.run(10)
    assert sim.client.jobs() == []
    with pytest.raises(JobNotFound, match="Invalid job id"):
        sim.client.requeue(job, hold=False)


def test_a_requeued_job_is_not_forgotten(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.EXIT, 5))
    sim.until(job, JobState.FAILED)
    sim.client.requeue(job, hold=True)
    sim.run(1000)
    assert sim.client.job(job).state is JobState.PENDING


def test_the_preview_is_the_command_for_a_real_cluster(sim: Sim) -> None:
    assert sim.client.preview(Operation.REQUEUE, "7") == "scontrol requeue 7"
    assert sim.client.preview(Operation.REQUEUE_HOLD, "7") == "scontrol requeuehold 7"
    assert sim.client.preview(Operation.RELEASE, "7") == "scontrol release 7"
    shown = sim.client.preview(Operation.SET_EXCLUDED_NODES, "7", nodes=("gpu-01", "gpu-02"))
    assert shown == "scontrol update JobId=7 ExcNodeList=gpu-01,gpu-02"
