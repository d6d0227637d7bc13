"""Any user may write `sbatch --begin=now+3000000days`: that no clock holds such a time must not hide the cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recovery.slurm.json_values import LATEST
from tests.slurm.fake_slurm import JOB, FakeSlurm, squeue_answer
from tests.slurm.test_json_answers import JOB_22_05, JOB_26_05, number, parse

FAR = 541_795_998_501  # the year 19138


@pytest.mark.parametrize(
    "eligible", ["10240-08-20T00:28:21", "19138-11-01T00:28:21", "9999-12-31T23:59:59", "146140482-04-24T15:30:08"]
)
def test_a_job_that_may_begin_in_ten_thousand_years_hides_no_other(tmp_path: Path, eligible: str) -> None:
    slurm = FakeSlurm(tmp_path)
    far = JOB._replace(raw_id="13", state="PENDING", eligible=eligible, start=eligible)
    slurm.prints(squeue_answer(JOB, far), "squeue")
    near, patient = slurm.client().jobs()
    assert (near.job_id, patient.eligible_at) == ("12", LATEST)


@pytest.mark.parametrize("fields", [JOB_22_05 | {"eligible_time": FAR}, JOB_26_05 | {"eligible_time": number(FAR)}])
def test_so_does_none_in_json(fields: dict[str, object]) -> None:
    assert parse(json.loads(json.dumps(fields))).eligible_at == LATEST


def test_a_time_from_before_all_clocks_can_be_counted_with(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    slurm.prints(squeue_answer(JOB._replace(submitted="0001-01-01T00:00:00")), "squeue")
    (job,) = slurm.client().jobs()
    assert job.submitted_at.year == 1970
