"""Jobs on a real slurmctld that start and die while nobody looks: within the second of a picture, or long after it."""

from __future__ import annotations

import time

import pytest

from recovery.core.types import FindingKind
from recovery.models import Attempt, Cluster, Incident
from recovery.pipeline import reconcile
from tests.slurm.test_each_action_real import RealDesk, real

pytestmark = [pytest.mark.slurm, pytest.mark.django_db]
__all__ = ["real"]
JOBS = 4


def test_each_job_that_dies_between_two_polls_opens_a_case(real: RealDesk) -> None:
    """Each is a run of its own, submitted right behind a picture that does not have it."""
    cluster = Cluster.objects.get()
    jobs = []
    for number in range(JOBS):
        Cluster.objects.update(next_look_at=reconcile.utc_now())
        real.tick()
        jobs.append(
            real.lab.submit("#!/bin/sh\nexit 3\n", work_dir=real.folder, options=[f"--job-name=short-{number}"])
        )
        wait_for_the_end(real, jobs[-1])
    real.until(lambda: Incident.objects.count() == JOBS)
    assert set(Incident.objects.values_list("attempt__job__job_id", flat=True)) == set(jobs)
    assert set(Incident.objects.values_list("kind", flat=True)) == {FindingKind.CRASH}
    assert not Attempt.objects.filter(ended_unwatched=True, job__cluster=cluster).exists()


def submit(real: RealDesk, name: str) -> str:
    return real.lab.submit("#!/bin/sh\nexit 3\n", work_dir=real.folder, options=[f"--job-name={name}"])


def wait_for_the_end(real: RealDesk, job_id: str) -> None:
    """Until it has ended by Slurm's own word; nobody polls meanwhile."""
    end = time.monotonic() + 20
    while real.shown(job_id, "State") != "FAILED":
        assert time.monotonic() < end, real.shown(job_id, "State")
        time.sleep(0.1)


def test_what_had_failed_before_the_desk_came_is_history(real: RealDesk) -> None:
    job = submit(real, "before")
    wait_for_the_end(real, job)
    Cluster.objects.update(seen_at=None, jobs_mark="", jobs_mark_of="")
    real.until(lambda: Attempt.objects.filter(job__job_id=job).exists())
    assert Attempt.objects.get(job__job_id=job).closed_at is not None
    assert not Incident.objects.exists()
