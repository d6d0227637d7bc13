"""What running jobs write: logs in Megatron's words, and checkpoint folders in its layout."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.slurm.simulator import FaultKind, JobSpec
from tests.slurm.simulator.virtual import Sim, failing, make_sim, train

ITERATION = re.compile(
    r" \[2026-02-03 04:\d\d:\d\d\.\d{6}\] iteration        1/     200 \| consumed samples:         1024 \|"
    r" elapsed time per iteration \(ms\): \d+\.\d \| throughput per GPU \(TFLOP/s/GPU\): \d+\.\d \|"
    r" learning rate: 1\.500000E-06 \| global batch size:  1024 \| lm loss: \d\.\d{6}E\+00 \| loss scale: 1\.0 \|"
    r" grad norm: \d\.\d{3} \| number of skipped iterations:   0 \| number of nan iterations:   0 \|"
)


def test_the_progress_line_is_megatrons(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(10)
    line = next(line for line in sim.log(job).split("\n") if "] iteration" in line)
    assert ITERATION.fullmatch(line), line


def test_an_attempt_without_checkpoint_says_that_it_starts_from_random(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(5)
    folder = sim.cluster.checkpoint_dir("llama")
    assert f"WARNING: could not find the metadata file {folder}/latest_checkpointed_iteration.txt\n" in sim.log(job)
    assert "\n    will not load any checkpoints and will start from random\n" in sim.log(job)


def test_each_rank_names_its_host(sim: Sim) -> None:
    job = sim.cluster.submit(train(nodes=2, gpus_per_node=2))
    sim.run(2)
    hosts = re.findall(r"^\[rank(\d)\]: host (\S+) pid \d+$", sim.log(job), re.MULTILINE)
    assert hosts == [("0", "gpu-01"), ("1", "gpu-01"), ("2", "gpu-02"), ("3", "gpu-02")]


def test_a_save_is_announced_written_and_confirmed(sim: Sim) -> None:
    job = sim.cluster.submit(train(shards=4))
    sim.until_true(job, lambda _: sim.steps(job)[-1:] == [10], step_s=0.2)
    folder = sim.cluster.checkpoint_dir("llama")
    start = rf"\[2026-\S+ \S+\] saving checkpoint at iteration      10 to {folder} in torch format"
    assert re.fullmatch(start, sim.log(job).splitlines()[-1])
    under_way = sorted(path.parent.name for path in folder.glob("iter_0000010/*/*.pt"))
    assert under_way == ["mp_rank_00", "mp_rank_01", "mp_rank_02"]
    assert not (folder / "latest_checkpointed_iteration.txt").exists()
    sim.run(1.6)
    done = rf"  \[2026-\S+ \S+\] successfully saved checkpoint from iteration      10 to {folder} \[ t 1/4, .*\]"
    assert re.search(done, sim.log(job))
    assert (folder / "latest_checkpointed_iteration.txt").read_text() == "10"
    shards = sorted(folder.glob("iter_0000010/mp_rank_0?/model_optim_rng.pt"))
    assert len(shards) == 4
    assert all(zipfile.is_zipfile(shard) for shard in shards)


def test_a_restart_resumes_from_the_newest_complete_checkpoint(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.until_true(job, lambda _: 27 in sim.steps(job))
    sim.client.requeue(job, hold=False)
    sim.until_true(job, lambda record: record.state is JobState.RUNNING and bool(sim.steps(job)))
    folder = sim.cluster.checkpoint_dir("llama")
    log = sim.log(job)
    assert f"\n loading checkpoint from {folder} at iteration 20\n" in log
    assert f"\n  successfully loaded checkpoint from {folder} [ t 1/2, p 1/1 ] at iteration 20\n" in log
    assert sim.steps(job)[0] == 21


def test_a_job_killed_while_saving_resumes_from_the_checkpoint_before(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.until_true(job, lambda _: "saving checkpoint at iteration      20" in sim.log(job), step_s=0.2)
    sim.client.requeue(job, hold=False)
    sim.until_true(job, lambda record: record.state is JobState.RUNNING and bool(sim.steps(job)))
    assert "at iteration 10\n" in sim.log(job)
    assert sim.checkpoints("llama") == ["iter_0000010", "iter_0000020"]  # the second is torn, and stays
    sim.until_true(job, lambda _: "successfully saved checkpoint from iteration      20" in sim.log(job))
    assert all(path.stat().st_size > 200 for path in sim.cluster.checkpoint_dir("llama").glob("iter_0000020/*/*.pt"))


def test_only_the_newest_checkpoints_are_kept(sim: Sim) -> None:
    job = sim.cluster.submit(train(total_steps=100))
    sim.until(job, JobState.COMPLETED)
    assert sim.checkpoints("llama") == [f"iter_{step:07d}" for step in (50, 60, 70, 80, 90, 100)]


def test_a_checkpoint_from_before_is_where_a_run_starts(sim: Sim) -> None:
    sim.cluster.put_checkpoint("llama", 12_400)
    job = sim.cluster.submit(train(total_steps=20_000, save_every=100))
    sim.run(10)
    assert sim.steps(job)[0] == 12_401
    assert "iteration    12401/   20000 | consumed samples:     12698624 |" in sim.log(job)


def test_a_lost_checkpoint_is_not_loaded(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.until_true(job, lambda _: 25 in sim.steps(job))
    sim.client.requeue(job, hold=True)
    sim.cluster.lose_checkpoint("llama", 20)
    assert sim.checkpoints("llama") == ["iter_0000010"]
    sim.client.release(job)
    sim.until_true(job, lambda record: record.state is JobState.RUNNING and bool(sim.steps(job)))
    assert "WARNING: checkpoint at iteration 20" in sim.log(job)
    assert sim.steps(job)[0] == 11


def test_two_jobs_of_one_run_share_its_checkpoints(sim: Sim) -> None:
    first = sim.cluster.submit(train(run="chain", total_steps=30))
    sim.until(first, JobState.COMPLETED)
    second = sim.cluster.submit(train(name="next", run="chain", total_steps=60))
    sim.run(10)
    assert sim.steps(second)[0] == 31


def test_a_job_whose_work_is_done_ends_at_once(sim: Sim) -> None:
    sim.cluster.put_checkpoint("llama", 200)
    job = sim.cluster.submit(train(total_steps=200))
    sim.until(job, JobState.COMPLETED, within_s=10)
    assert sim.steps(job) == []


def test_a_longer_log_interval_reports_fewer_steps(sim: Sim) -> None:
    job = sim.cluster.submit(train(log_interval=5, total_steps=22))
    sim.until(job, JobState.COMPLETED)
    assert sim.steps(job) == [5, 10, 15, 20]


def test_a_job_may_never_save(sim: Sim) -> None:
    job = sim.cluster.submit(train(save_every=0, total_steps=30))
    sim.until(job, JobState.COMPLETED)
    assert sim.checkpoints("llama") == []


def test_the_comment_names_run_checkpoints_and_log(sim: Sim) -> None:
    job = sim.cluster.submit(train(run="llama-70b", mode="auto", max_restarts=2))
    options = json.loads(sim.client.job(job).comment)["recovery"]
    assert options == {
        "run": "llama-70b",
        "checkpoint_dir": str(sim.cluster.state_dir / "ckpt" / "llama-70b"),
        "log": str(sim.cluster.state_dir / "logs" / "%x-%j.out"),
        "mode": "auto",
        "max_restarts": 2,
    }


def test_a_comment_of_its_own_is_left_alone(sim: Sim) -> None:
    job = sim.cluster.submit(train(comment='{"recovery": '))
    assert sim.client.job(job).comment == '{"recovery": '


def test_output_patterns_are_filled_in(sim: Sim) -> None:
    job = sim.cluster.submit(train(stdout="out/%u/%x-%8j-%%.log", user="lin"))
    record = sim.client.job(job)
    assert record.stderr == ""  # goes where stdout goes
    assert record.stdout == str(sim.cluster.state_dir / f"out/lin/llama-0000{job}-%.log")
    sim.run(5)
    assert Path(record.stdout).exists()


def test_nothing_is_written_outside_the_state_directory(tmp_path: Path) -> None:
    sim = make_sim(tmp_path / "cluster")
    names = (str(tmp_path / "elsewhere.log"), "../elsewhere.log", "/dev/null")
    jobs = [sim.cluster.submit(train(name=f"job-{n}", stdout=name)) for n, name in enumerate(names)]
    sim.run(20)
    assert sim.client.job(jobs[0]).stdout == names[0]
    assert sim.client.job(jobs[2]).stdout == "/dev/null"
    assert [path.name for path in tmp_path.iterdir()] == ["cluster"]


@pytest.mark.parametrize("key", ["../up", "a/b", "-x", ".", "a b"])
def test_a_run_key_that_is_no_folder_name_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="folder name"):
        JobSpec(name="job", run=key)


def test_a_deleted_log_does_not_come_back(sim: Sim) -> None:
    job = sim.cluster.submit(train())
    sim.run(10)
    sim.cluster.log_path(job).unlink()
    sim.run(10)
    assert not sim.cluster.log_path(job).exists()
    sim.client.requeue(job, hold=False)
    sim.run(20)
    assert sim.steps(job)


def test_a_slow_job_reports_every_step_once(sim: Sim) -> None:
    job = sim.cluster.submit(failing(FaultKind.SLOW, 11, factor=3))
    sim.until_true(job, lambda _: 20 in sim.steps(job))
    assert sim.steps(job) == list(range(1, 21))
