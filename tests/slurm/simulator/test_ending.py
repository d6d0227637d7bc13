"""How attempts end, and what accounting keeps of them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.slurm.base import SlurmRefused
from recovery.slurm.simulator import FaultKind
from tests.slurm.simulator.virtual import START, Sim, failing, make_sim, train


def test_a_job_that_reaches_its_last_step_completes(sim: Sim) -> None:
    job = sim.cluster.submit(train(total_steps=15))
    record = sim.until(job, JobState.COMPLETED)
    assert (record.exit_code, record.exit_signal, record.state_reason) == (0, None, "")
    assert sim.steps(job)[-1] == 15
    assert sim.checkpoints("llama") == ["iter_0000010", "iter_0000015"]
    assert "[after training is done] datetime:" in sim.log(job)


def test_nodes_are_free_only_after_completing(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.EXIT, 5))
    sim.until(job, JobState.COMPLETING, step_s=0.1)
    assert sim.client.nodes()[0].raw_state == "ALLOCATED"
    assert sim.until(job, JobState.FAILED).nodes == ("gpu-01",)
    assert sim.client.nodes()[0].raw_state == "IDLE"


def test_scancel_ends_a_running_job_and_accounting_knows_who(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(10)
    sim.cluster.cancel(job, by="ada")
    record = sim.until(job, JobState.CANCELLED)
    assert (record.exit_code, record.exit_signal) == (0, 15)
    assert sim.attempts(job)[0].cancelled_by == "ada"
    assert "CANCELLED AT 2026-02-03T04:00:10 ***" in sim.log(job)


def test_scancel_of_a_pending_job_leaves_no_start_and_no_log(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.cluster.cancel(job, by="ada")
    record = sim.client.job(job)
    assert (record.state, record.started_at) == (JobState.CANCELLED, None)
    sim.run(10)
    assert not sim.cluster.log_path(job).exists()


def test_scancel_of_an_ended_job_changes_nothing(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.EXIT, 5))
    sim.until(job, JobState.FAILED)
    sim.cluster.cancel(job, by="root")
    assert sim.client.job(job).state is JobState.FAILED
    assert sim.attempts(job)[0].cancelled_by == ""


def test_scancel_ends_a_job_that_waits_after_a_requeue(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(10)
    sim.client.requeue(job, hold=False)
    sim.cluster.cancel(job, by="ada")
    sim.run(60)
    assert sim.client.job(job).state is JobState.CANCELLED
    assert {node.raw_state for node in sim.client.nodes()} == {"IDLE"}


def test_the_time_limit_ends_a_job_at_the_next_look(sim: Sim) -> None:
    job = sim.cluster.submit(train(time_limit_s=60))
    sim.run(61)
    assert sim.client.job(job).state is JobState.RUNNING  # Slurm looks every 30 s only
    record = sim.until(job, JobState.TIMEOUT, within_s=35)
    assert record.state_reason == "TimeLimit"
    assert "DUE TO TIME LIMIT ***" in sim.log(job)


def test_the_time_limit_counts_anew_for_each_attempt(sim: Sim) -> None:
    job = sim.cluster.submit(train(time_limit_s=100, total_steps=10_000))
    sim.run(80)
    sim.client.requeue(job, hold=False)
    sim.run(80)
    assert sim.client.job(job).state is JobState.RUNNING


def test_accounting_keeps_the_own_end_of_every_attempt(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.EXIT, 5, exit_code=7))
    failed = sim.until(job, JobState.FAILED)
    sim.run(30)
    sim.client.requeue(job, hold=False)
    sim.until(job, JobState.RUNNING)
    sim.run(10)
    sim.client.requeue(job, hold=False)
    sim.until(job, JobState.RUNNING)
    first, second, third = sim.attempts(job)
    assert (first.state, first.exit_code, first.step_exit_codes) == (JobState.FAILED, 7, (7,))
    assert first.ended_at == failed.ended_at
    assert (second.state, second.exit_code) == (JobState.REQUEUED, 0)
    assert (third.state, third.number, third.exit_code) == (JobState.RUNNING, 2, None)
    assert first.submitted_at < second.submitted_at < third.submitted_at


def test_accounting_outlives_the_controllers_memory(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.EXIT, 5))
    sim.until(job, JobState.FAILED)
    sim.run(400)
    assert sim.client.jobs() == []
    assert [a.state for a in sim.attempts(job)] == [JobState.FAILED]
    assert sim.client.attempts([job], since=START + timedelta(seconds=300)) == {}


def test_without_accounting_attempts_are_refused(tmp_path: Path) -> None:
    sim = make_sim(tmp_path, accounting=False)
    assert not sim.client.health().accounting
    with pytest.raises(SlurmRefused, match="accounting"):
        sim.attempts("4101")


def test_a_reused_id_is_another_job(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.EXIT, 5))
    sim.until(job, JobState.FAILED)
    with pytest.raises(SlurmRefused, match="Duplicate job id"):
        sim.cluster.submit(train(name="second"), job_id=job)
    sim.run(400)
    assert sim.cluster.submit(train(name="second", user="lin"), job_id=job) == job
    record = sim.client.job(job)
    assert (record.name, record.user, record.restart_count) == ("second", "lin", 0)
    assert [a.state for a in sim.attempts(job)] == [JobState.FAILED, JobState.PENDING]


def test_records_that_have_served_their_time_go_with_log_and_checkpoints(tmp_path: Path) -> None:
    sim = make_sim(tmp_path, keep_records_s=600)
    job = sim.cluster.submit(train(total_steps=10))
    sim.until(job, JobState.COMPLETED)
    log = sim.cluster.log_path(job)
    folder = sim.cluster.checkpoint_dir("llama")
    sim.run(400)
    assert log.exists()
    assert folder.exists()
    sim.run(600)
    assert sim.attempts(job) == []
    assert not log.exists()
    assert not folder.exists()


def test_checkpoints_stay_while_another_job_of_the_run_needs_them(tmp_path: Path) -> None:
    sim = make_sim(tmp_path, keep_records_s=600)
    first = sim.cluster.submit(train(total_steps=10))
    sim.until(first, JobState.COMPLETED)
    sim.cluster.submit(train(total_steps=100_000))
    sim.run(1500)
    assert sim.checkpoints("llama")
