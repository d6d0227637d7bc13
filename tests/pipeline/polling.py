"""One poll of the scripted controller, without the rest of the path."""

from __future__ import annotations

from datetime import timedelta

from recovery.models import Cluster
from recovery.pipeline.poll import PollOutcome, poll_cluster
from tests.pipeline.conftest import Desk


def poll(desk: Desk, *, seconds: float = 2) -> PollOutcome:
    desk.now += timedelta(seconds=seconds)
    return poll_cluster(the_cluster(), client=desk.slurm, now=desk.now)


def the_cluster() -> Cluster:
    return Cluster.objects.get()
