"""Heterogeneous jobs on a real slurmctld: they are requeued as a whole, and never submitted again."""

from __future__ import annotations

import pytest

from recovery.core.types import ActionKind
from recovery.models import Attempt, Incident, Job
from recovery.pipeline.invalid import Invalid
from tests.slurm.test_each_action_real import HANGS, RealDesk, real

pytestmark = [pytest.mark.slurm, pytest.mark.django_db]
__all__ = ["real"]
COMMENT = '--comment={"recovery": {"run": "llama"}}'


def test_a_component_of_a_heterogeneous_job_is_requeued_with_all_others(real: RealDesk) -> None:
    job = real.submit(HANGS, "--nodes=1", ":", "--nodes=1", "--exclusive", COMMENT)
    parts = Job.objects.filter(job_id__startswith=f"{job}+")
    real.until(lambda: parts.filter(state="running").count() == 2)
    assert set(parts.values_list("job_id", flat=True)) == {f"{job}+0", f"{job}+1"}
    real.until_asked()
    incident = Incident.objects.get()
    Incident.objects.filter(pk=incident.pk).update(attempt=Attempt.objects.get(job__job_id=f"{job}+1"))
    with pytest.raises(Invalid, match="no script of its own"):
        real.propose(ActionKind.RESUBMIT)
    with pytest.raises(Invalid, match="only requeues as a whole"):
        real.propose(ActionKind.REQUEUE)
    Incident.objects.filter(pk=incident.pk).update(attempt=Attempt.objects.get(job__job_id=f"{job}+0"))
    real.do(ActionKind.REQUEUE)
    real.until(lambda: parts.filter(restart_count=1).count() == 2)


def test_a_component_of_a_heterogeneous_job_is_cancelled_with_all_others(real: RealDesk) -> None:
    job = real.submit(HANGS, "--nodes=1", ":", "--nodes=1", "--exclusive", COMMENT)
    parts = Job.objects.filter(job_id__startswith=f"{job}+")
    real.until(lambda: parts.filter(state="running").count() == 2)
    real.until_asked()
    Incident.objects.update(attempt=Attempt.objects.get(job__job_id=f"{job}+1"))
    with pytest.raises(Invalid, match="not cancelled in part"):
        real.propose(ActionKind.CANCEL)
    Incident.objects.update(attempt=Attempt.objects.get(job__job_id=f"{job}+0"))
    real.do(ActionKind.CANCEL)
    real.until(lambda: parts.filter(state="cancelled").count() == 2)
    assert Incident.objects.get(actions__isnull=False).outcome == "stopped_on_purpose"
