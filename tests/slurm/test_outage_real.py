"""A real Slurm goes on while nobody looks, and forgets: what it forgot is taken from its accounting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from recovery.core.types import ActionKind, JobState
from recovery.demo.processes import wait_until
from recovery.models import Attempt, Cluster, Event, Incident, Job, Recommendation
from recovery.pipeline import reconcile
from tests.slurm.test_each_action_real import RealDesk, real

pytestmark = [pytest.mark.slurm, pytest.mark.accounting, pytest.mark.django_db]
__all__ = ["real"]
FAILS = "#!/bin/sh\necho 'CUDA error: uncorrectable ECC error encountered'\nexit 3\n"


@pytest.fixture
def forgetful(real: RealDesk) -> Iterator[RealDesk]:
    """Slurm remembers ended jobs for two seconds, the least that it takes."""
    conf = Path(real.lab.conf)
    before = conf.read_text()
    conf.write_text(before.replace("MinJobAge=300", "MinJobAge=2"))
    real.lab.run("scontrol", "reconfigure")
    yield real
    conf.write_text(before)
    real.lab.run("scontrol", "reconfigure")


def submit(real: RealDesk, name: str, script: str, comment: str) -> str:
    options = [f"--job-name={name}", "--exclusive", f"--comment={comment}", "--output=%x.out"]
    return real.lab.submit(script, work_dir=real.folder, options=options)


def listed(real: RealDesk) -> list[str]:
    return real.lab.run("squeue", "-h", "-t", "all", "-o", "%i").split()


def accounted(real: RealDesk, job_id: str) -> str:
    """slurmdbd may hear of an end a moment later, and of the start after that."""
    return real.lab.run("sacct", "-X", "-n", "-P", "-j", job_id, "-o", "State,JobName").strip()


def test_a_job_that_failed_and_was_forgotten_in_an_outage_is_found(forgetful: RealDesk, settings: Settings) -> None:
    real = forgetful
    settings.STALE_AFTER_S = 3
    known = submit(real, "known", "#!/bin/sh\nsleep 4\nexit 5\n", "")
    real.until(lambda: Job.objects.filter(job_id=known, state=JobState.RUNNING).exists())
    log = real.folder / "unseen.out"
    unseen = submit(real, "unseen", FAILS, f'{{"recovery": {{"run": "llama", "log": "{log}"}}}}')
    assert wait_until(lambda: not {unseen, known} & set(listed(real)), timeout_s=100), listed(real)
    assert wait_until(lambda: accounted(real, unseen) == "FAILED|unseen", timeout_s=20), accounted(real, unseen)
    assert not Job.objects.filter(job_id=unseen).exists()

    Cluster.objects.update(next_look_at=reconcile.utc_now())
    real.until(lambda: Recommendation.objects.filter(incident__attempt__job__job_id=unseen).exists())
    attempt = Attempt.objects.get(job__job_id=unseen)
    assert (attempt.state, attempt.exit_code, attempt.ended_unwatched) == (JobState.FAILED, 3, True)
    assert (attempt.job.listed, attempt.job.run.name) == (False, "llama")
    row = Recommendation.objects.filter(incident__attempt=attempt).latest("pk")
    assert row.action == ActionKind.NOTHING
    assert "no longer knows this job" in row.headline
    assert Incident.objects.get(attempt=attempt).failure_class == "gpu_hardware"
    assert [job.job_id for job in Job.objects.filter(job_id=known)] == [known]
    real.until(lambda: Attempt.objects.get(job__job_id=known).exit_code == 5)
    assert Event.objects.filter(verb="cluster.outage_repaired").count() == 1
