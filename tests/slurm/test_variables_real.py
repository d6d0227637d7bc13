"""A job that is submitted again with variables of its own finds all that it would find without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.demo.processes import wait_until
from recovery.slurm.base import Submission
from recovery.slurm.cli import CliClient

pytestmark = pytest.mark.slurm

SCRIPT = """#!/bin/sh
# what its steps are to know
#SBATCH --hint=nomultithread --open-mode=append --acctg-freq task=0
#SBATCH --profile=None --cpu-freq=High --mem-bind=local # as on the old machine

#SBATCH --distribution=block:cyclic --ntasks-per-node=1 -d singleton --overcommit
env -0 >"$PWD/$SLURM_JOB_ID"
#SBATCH --hint=compute_bound
"""
ITS_OWN = {"SLURM_JOBID", "SLURM_JOB_ID", "SLURM_TASK_PID"}


def found(client: CliClient, folder: Path, **variables: str) -> dict[str, str]:
    submission = Submission(script=SCRIPT, user="root", work_dir=str(folder), name="again", environment=variables)
    job_id = client.submit(submission)
    assert wait_until(lambda: client.job(job_id).state is JobState.COMPLETED, timeout_s=30)
    told = dict(line.split("=", 1) for line in (folder / job_id).read_text().split("\0") if line)
    return {name: value for name, value in told.items() if name not in ITS_OWN}


def test_variables_take_nothing_away_that_sbatch_tells_the_job(slurm_client: CliClient, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    bare = found(slurm_client, tmp_path)
    assert bare["SLURM_HINT"] == "nomultithread"
    assert found(slurm_client, tmp_path, RUN="7") == {**bare, "RUN": "7"}
