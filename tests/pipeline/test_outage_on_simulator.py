"""A simulated cluster goes on while nobody looks, and forgets; its accounting is behind."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pytest_django import Settings

from recovery.core.types import ActionKind, JobState
from recovery.models import Attempt, Cluster, Incident, Job
from recovery.slurm.simulator import Fault, FaultKind, TroubleKind
from tests.pipeline.sim_desk import RHYTHM, SimDesk

OUTAGE_S = 2400  # the simulated controller remembers ended jobs for 300 s


@pytest.fixture
def sim(db: None, tmp_path: Path, settings: Settings) -> SimDesk:
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    for name, value in RHYTHM.items():
        setattr(settings, name, value)
    return SimDesk(tmp_path)


def pass_unwatched(sim: SimDesk, seconds: float) -> None:
    sim.now += timedelta(seconds=seconds)
    sim.world.advance()


def test_what_fails_and_is_forgotten_in_an_outage_is_a_case_with_its_log_read(sim: SimDesk) -> None:
    sim.run(10)
    pass_unwatched(sim, 60)
    job = sim.submit(Fault(kind=FaultKind.EXIT, step=30, exit_code=7))
    pass_unwatched(sim, OUTAGE_S)
    sim.world.be_in_trouble(TroubleKind.NO_ACCOUNTING, for_s=60)
    sim.run(20)
    assert not Job.objects.filter(job_id=job).exists()
    assert Cluster.objects.get().outage_from is not None
    sim.run_until(lambda: Incident.objects.exists())
    attempt = Attempt.objects.get(job__job_id=job)
    assert (attempt.state, attempt.exit_code, attempt.ended_unwatched) == (JobState.FAILED, 7, True)
    assert attempt.last_step is not None
    sim.run(30)
    assert sim.recommendation.action in (ActionKind.NOTHING, ActionKind.RESUBMIT)
    assert Job.objects.get(job_id=job).is_forgotten
    assert Cluster.objects.get().outage_from is None
