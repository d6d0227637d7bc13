"""What real releases of Slurm answered (tests/slurm/record.py), read by the parsers."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path

import pytest

from recovery.core.types import JobState, NodeState
from recovery.slurm import cli_json, sacct
from recovery.slurm.base import HELD_BY_REQUEUE, AttemptRecord, JobRecord
from recovery.slurm.json_values import BadAnswer

RECORDED = Path(__file__).parent / "recorded"
RELEASES = sorted(folder.name for folder in RECORDED.iterdir() if folder.name[0].isdigit())


@dataclasses.dataclass(frozen=True)
class Recording:
    release: str

    def read(self, name: str) -> str:
        return (RECORDED / self.release / name).read_bytes().decode(errors="replace")

    def job(self, kind: str, suffix: str = "") -> JobRecord:
        """The job that the recording calls so; `suffix` names an array task or a component."""
        wanted = self.job_id(kind) + suffix
        return next(job for job in cli_json.parse_jobs(self.read("squeue.json")) if job.job_id == wanted)

    def job_id(self, kind: str) -> str:
        return dict(line.split() for line in self.read("jobs.txt").splitlines())[kind]

    def attempts(self, kind: str, suffix: str = "") -> list[AttemptRecord]:
        job_id = self.job_id(kind) + suffix
        return sacct.attempts_by_job(self.read(f"sacct_{kind}.txt"), [job_id]).get(job_id, [])


@pytest.fixture(params=RELEASES)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


def test_the_two_shapes_of_slurms_json_are_both_recorded() -> None:
    assert RELEASES == ["22.05", "23.02", "23.11", "24.05", "24.11", "26.05"]


def test_a_running_job_is_read_whole(recording: Recording) -> None:
    job = recording.job("running")
    assert (job.state, job.state_reason, job.user, job.partition) == (JobState.RUNNING, "", "root", "main")
    assert (job.nodes, job.node_count, job.batch_host) == (("n1", "n2"), 2, "n1")
    assert (job.excluded_nodes, job.required_nodes) == (("n4",), ())
    assert (job.restart_count, job.requeueable, job.held) == (0, True, False)
    assert (job.exit_code, job.exit_signal, job.ended_at) == (None, None, None)
    assert job.started_at is not None
    assert timedelta(0) <= job.started_at - job.submitted_at < timedelta(seconds=10)
    assert job.submitted_at.tzinfo is not None
    assert job.comment == '{"recovery": {"run": "llama", "checkpoint_dir": "/ckpt/llama"}}'


def test_a_name_that_imitates_slurms_own_output_stays_a_name(recording: Recording) -> None:
    job = recording.job("running")
    assert job.name == 'evil\nJobId=1 \x1f|"name'
    assert job.stdout == f'/home/ada/evil\nJobId=1 \x1f|"name-{job.job_id}.log'


def test_a_name_that_is_no_utf8_blinds_nobody(recording: Recording) -> None:
    assert recording.job("bytes").name == "\ufffd\ufffd"


def test_an_unlimited_job_has_no_time_limit(recording: Recording) -> None:
    assert recording.job("running").time_limit_s is None
    assert recording.job("failed").time_limit_s == 30 * 60


def test_a_failed_job_keeps_its_exit_code_and_its_two_files(recording: Recording) -> None:
    job = recording.job("failed")
    assert (job.state, job.state_reason, job.exit_code, job.exit_signal) == (
        JobState.FAILED,
        "NonZeroExitCode",
        4,
        None,
    )
    assert (job.stdout, job.stderr) == (f"/home/ada/slurm-{job.job_id}.out", f"/home/ada/err-{job.job_id}.log")
    assert job.ended_at is not None


def test_a_job_that_a_signal_ended_has_the_signal(recording: Recording) -> None:
    job = recording.job("signalled")
    assert (job.state, job.exit_code, job.exit_signal, job.requeueable) == (JobState.FAILED, 0, 11, False)


def test_the_waiting_tasks_of_an_array_share_one_record_and_a_started_one_has_its_own(recording: Recording) -> None:
    waiting, task = recording.job("array"), recording.job("array", "_1")
    assert (waiting.state, waiting.stdout) == (JobState.PENDING, "")
    assert (task.state, task.stdout) == (JobState.RUNNING, f"/home/ada/out/{recording.job_id('array')}_1.log")


def test_the_only_task_that_waits_has_its_own_name_and_file(recording: Recording) -> None:
    job = recording.job("alone", "_7")
    assert (job.state, job.held) == (JobState.PENDING, True)
    assert job.stdout == f"/home/ada/slurm-{job.job_id}.out"


def test_components_of_a_heterogeneous_job_are_jobs(recording: Recording) -> None:
    assert recording.job("het", "+0").node_count == recording.job("het", "+1").node_count == 1


def test_a_hold_by_its_user_and_a_hold_by_a_held_requeue_are_told_apart(recording: Recording) -> None:
    by_user, by_requeue = recording.job("held"), recording.job("held_requeue")
    assert (by_user.held, by_user.state_reason) == (True, "JobHeldUser")
    assert (by_requeue.held, by_requeue.state_reason) == (True, HELD_BY_REQUEUE)
    assert (by_requeue.restart_count, by_requeue.excluded_nodes) == (1, ("n1", "n2"))


def test_a_job_that_waits_again_has_neither_start_nor_end_nor_nodes(recording: Recording) -> None:
    job = recording.job("held_requeue")
    assert job.state is JobState.PENDING
    assert (job.started_at, job.ended_at, job.nodes, job.exit_code) == (None, None, (), None)


def test_gpus_are_counted_over_all_nodes(recording: Recording) -> None:
    assert recording.job("gpus").gpus == 4
    assert recording.job("running").gpus == 0


def test_nodes_carry_state_partition_and_who_set_them_down(recording: Recording) -> None:
    nodes = {node.name: node for node in cli_json.parse_nodes(recording.read("sinfo.json"))}
    assert list(nodes) == ["n1", "n2", "n3", "n4"]
    assert nodes["n1"].state is NodeState.UP
    assert (nodes["n3"].state, nodes["n3"].reason, nodes["n3"].reason_by) == (NodeState.DOWN, "power supply", "root")
    assert (nodes["n4"].state, nodes["n4"].raw_state) == (NodeState.DRAINED, "IDLE+DRAIN")
    assert nodes["n4"].reason == 'bad "gpu"\nn1 is fine'
    assert nodes["n4"].reason_at is not None
    assert {node.partitions for node in nodes.values()} == {("main",)}


def test_a_controller_that_is_down_is_no_empty_cluster(recording: Recording) -> None:
    with pytest.raises(BadAnswer):
        cli_json.parse_jobs(recording.read("squeue_controller_down.json"))


def test_an_attempt_has_the_exit_codes_of_its_steps(recording: Recording) -> None:
    (attempt,) = recording.attempts("failed")
    assert (attempt.state, attempt.exit_code, attempt.exit_signal) == (JobState.FAILED, 4, None)
    assert attempt.step_exit_codes == (0, 3, 128 + 9)


def test_an_attempt_that_failed_before_it_was_requeued_has_failed(recording: Recording) -> None:
    first, second = recording.attempts("failed_requeued")
    assert (first.number, second.number) == (0, 1)
    assert (first.state, first.exit_code) == (JobState.FAILED, 7)
    assert first.ended_at is not None
    assert first.ended_at < second.submitted_at  # 22.05 itself dates the end at the requeue


def test_an_attempt_that_was_put_back_while_it_ran_was_requeued(recording: Recording) -> None:
    first, second = recording.attempts("held_requeue")
    assert (first.state, first.cancelled_by) == (JobState.REQUEUED, "")
    assert (second.state, second.started_at, second.exit_code) == (JobState.PENDING, None, None)


def test_who_cancelled_is_known(recording: Recording) -> None:
    (attempt,) = recording.attempts("cancelled")
    assert (attempt.state, attempt.cancelled_by) == (JobState.CANCELLED, "root")


def test_rows_of_other_tasks_and_components_are_not_attempts_of_this_one(recording: Recording) -> None:
    assert recording.attempts("array") == []
    assert len(recording.attempts("array", "_1")) == 1
    assert {attempt.job_id for attempt in recording.attempts("het", "+0")} == {recording.job_id("het") + "+0"}


@pytest.mark.parametrize("kept", [0, 1, 100, -2, -40])
def test_a_cut_answer_is_no_answer(recording: Recording, kept: int) -> None:
    with pytest.raises(BadAnswer):
        cli_json.parse_jobs(recording.read("squeue.json")[:kept])
    with pytest.raises(BadAnswer):
        cli_json.parse_nodes(recording.read("sinfo.json")[:kept])
