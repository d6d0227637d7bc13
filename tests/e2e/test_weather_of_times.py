"""Clocks that differ, answers that come too late, outages that last too long: nothing is done twice or on old news."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState
from recovery.demo import lab_host
from recovery.demo.lab import SlurmLab
from recovery.demo.lab_conf import LabError
from recovery.models import Action, Cluster, Incident, Job
from recovery.slurm.base import JobNotFound
from tests.daemons import short_folder
from tests.e2e.site import Site
from tests.e2e.storm import recovered_exactly_once

pytestmark = [pytest.mark.slurm, pytest.mark.accounting, pytest.mark.redis, pytest.mark.timeout(300)]

LATE_S = 7  # longer than the site's patience with Slurm, which is 4 s
LATE = """#!/bin/bash
# Slurm's scontrol, which carries each change out long after whoever asked has given up.
case "$1" in
  requeue*|update|release) setsid sh -c 'sleep {late}; exec "$0" "$@" >/dev/null 2>&1' {scontrol} "$@" & sleep 60 ;;
  *) exec {scontrol} "$@" ;;
esac
"""


def test_answers_that_come_too_late_are_waited_for_and_no_call_is_made_twice(stormy: Site) -> None:
    """Each of the three calls of an exclusion times out, and is carried out afterwards all the same."""
    folder = commands_that_are_late(stormy)
    with_options(stormy, bin_dir=str(folder))
    stormy.start("worker", "beat")
    job = stormy.submit(faults=["kind=ecc,step=20,rank=3,attempt=0"])
    recovered_exactly_once(stormy, job)
    calls = [call["operation"] for call in Action.objects.get().calls]
    assert len(calls) == len(set(calls))


def with_options(site: Site, **options: str) -> None:
    cluster = site.cluster
    cluster.options |= options
    cluster.save()


def commands_that_are_late(site: Site) -> Path:
    folder = site.folder / "bin"
    folder.mkdir()
    for name in ("squeue", "sinfo", "sacct"):
        (folder / name).symlink_to(shutil.which(name) or name)
    script = folder / "scontrol"
    script.write_text(LATE.format(late=LATE_S, scontrol=shutil.which("scontrol") or "scontrol"))
    script.chmod(0o755)
    return folder


@pytest.mark.torture
@pytest.mark.parametrize(
    ("workers_s", "beat_s"),
    [(60, 60), (-60, -60), (60, 0), (-60, 0)],
    ids=["all ahead of Slurm", "all behind Slurm", "workers ahead of beat", "workers behind beat"],
)
def test_hosts_whose_clocks_differ_by_a_minute_recover_all_the_same(stormy: Site, workers_s: int, beat_s: int) -> None:
    stormy.ahead_s = beat_s
    stormy.start("beat")
    stormy.ahead_s = workers_s
    stormy.start("worker")
    Cluster.objects.update(next_look_at=stormy.now)
    job = stormy.submit(faults=["kind=ecc,step=20,rank=3,attempt=0"])
    recovered_exactly_once(stormy, job)
    seen_at = stormy.cluster.seen_at
    assert seen_at is not None
    assert abs((seen_at - stormy.now).total_seconds()) < 30  # it was so all the time


@pytest.fixture
def forgetful() -> Iterator[SlurmLab]:
    """A Slurm that forgets an ended job as soon as it looks for such, which it does once a minute."""
    with short_folder() as folder:
        folder.chmod(0o755)  # jobs of other users reach munge's socket below
        lab = SlurmLab(folder / "lab", base_port=lab_host.free_base_port(), accounting=True, min_job_age_s=2)
        try:
            lab.up()
            yield lab
        finally:
            lab.wipe()


@pytest.mark.torture
def test_what_ended_and_was_forgotten_during_an_outage_is_known_from_accounting_and_not_acted_on(
    stormy: Site, forgetful: SlurmLab
) -> None:
    stormy.lab = forgetful
    with_options(stormy, slurm_conf=str(forgetful.conf))
    stormy.start("worker", "beat")
    job = stormy.submit(faults=["kind=ecc,step=30,rank=3,attempt=0"], gpus_per_node=0)
    stormy.wait(lambda: stormy.has_reached(5), what="step 5")
    stormy.stop()
    stormy.wait(lambda: is_forgotten(stormy, job), within=150, what="a Slurm that has forgotten the job")
    stormy.start("worker", "beat")
    stormy.wait(lambda: Job.objects.get().state == JobState.FAILED, within=90, what="its end, from accounting")
    people = (IncidentState.AWAITING_DECISION, IncidentState.WATCHING)
    stormy.wait(lambda: Incident.objects.filter(state__in=people).exists(), what="a case that lies before people")
    later = datetime.now(UTC) + timedelta(seconds=3)
    stormy.wait(lambda: Cluster.objects.filter(seen_at__gt=later).exists(), what="several looks more")
    assert not Action.objects.exists()
    assert Job.objects.get().vanished_at is not None
    assert len(stormy.history(job)) == 1


def is_forgotten(site: Site, job: str) -> bool:
    try:
        site.record(job)
    except JobNotFound:
        return True
    except LabError:
        return False
    return False
