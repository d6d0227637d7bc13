from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path

import pytest

from recovery.core.comment import parse_comment
from recovery.core.types import JobState, Mode
from recovery.demo.jobs import TrainingJob, job_script
from recovery.demo.lab import SlurmLab
from recovery.demo.processes import wait_until
from recovery.slurm.base import JobRecord
from recovery.slurm.cli import CliClient


def directives(script: str) -> dict[str, str]:
    lines = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH ")]
    return {name: shlex.split(value)[0] if value else "" for name, _, value in (line.partition("=") for line in lines)}


def test_a_script_says_what_the_job_wants(tmp_path: Path) -> None:
    job = TrainingJob(
        name="llama 70b",
        checkpoint_dir=tmp_path / "ckpt",
        log=tmp_path / "%x-%j.out",
        gpus_per_node=8,
        faults=["kind=ecc,step=3"],
        options=[("mode", "approve"), ("max_restarts", 2)],
    )
    found = directives(job_script(job))
    assert (found["job-name"], found["nodes"], found["gres"], found["requeue"]) == ("llama 70b", "2", "gpu:8", "")
    wishes = parse_comment(found["comment"])
    assert (wishes.run, wishes.checkpoint_dir) == ("llama 70b", str(tmp_path / "ckpt"))
    assert (wishes.mode, wishes.max_restarts, wishes.error) == (Mode.APPROVE, 2, "")
    assert job_script(job).splitlines()[-1].endswith("--fault kind=ecc,step=3")


@pytest.mark.parametrize("name", ["it's", "a\nb", "back\\slash"])
def test_what_a_batch_script_can_not_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="can't stand in a batch script"):
        job_script(TrainingJob(name=name, checkpoint_dir=tmp_path, log=tmp_path / "log"))


@pytest.mark.slurm
def test_a_training_job_on_a_real_slurm_fails_and_resumes_on_other_nodes(
    slurm_lab: SlurmLab, slurm_client: CliClient, tmp_path: Path
) -> None:
    job = TrainingJob(
        name="llama 70b",
        checkpoint_dir=tmp_path / "ckpt",
        log=tmp_path / "%x-%j-%N.out",
        gpus_per_node=8,
        steps=40,
        save_every=5,
        step_time_s=0.05,
        faults=["kind=ecc,step=13,rank=3,attempt=0", "kind=hang,step=24,attempt=1"],
    )
    job_id = slurm_lab.submit(job_script(job), work_dir=tmp_path)
    log = tmp_path / f"llama 70b-{job_id}-%N.out"

    first = wait_for(slurm_client, job_id, JobState.FAILED)
    assert first.exit_code  # srun's: the highest of its tasks'
    assert first.gpus == 16
    assert json.loads(first.comment)["recovery"]["run"] == "llama 70b"
    assert "uncorrectable ECC error" in read(log)
    assert places(log)["3"] == first.nodes[1]

    slurm_client.requeue(job_id, hold=True)
    wait_for(slurm_client, job_id, JobState.PENDING)
    slurm_client.set_excluded_nodes(job_id, (first.nodes[1],))
    slurm_client.release(job_id)
    second = wait_for(slurm_client, job_id, JobState.RUNNING)
    assert wait_until(lambda: re.search(r"iteration +23/", read(log)) is not None, timeout_s=30)
    assert "at iteration 10" in read(log)
    assert "uncorrectable" not in read(log)  # the log began anew
    assert first.nodes[1] not in second.nodes
    assert set(places(log).values()) == set(second.nodes)
    slurm_lab.run("scancel", job_id)
    wait_for(slurm_client, job_id, JobState.CANCELLED)


def wait_for(client: CliClient, job_id: str, state: JobState) -> JobRecord:
    deadline = time.monotonic() + 40
    while (record := client.job(job_id)).state is not state:
        assert time.monotonic() < deadline, record
        time.sleep(0.2)
    return record


def read(pattern: Path) -> str:
    """The log whose name holds a node (%N is the host's own name in a lab)."""
    found = list(pattern.parent.glob(pattern.name.replace("%N", "*")))
    return found[0].read_text() if found else ""


def places(pattern: Path) -> dict[str, str]:
    return dict(re.findall(r"\[rank(\d)\]: host (n\d) pid", read(pattern)))
