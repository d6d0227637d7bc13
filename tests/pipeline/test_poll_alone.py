"""One poll of a cluster at a time, whatever the number of workers; what is stored is one picture as a whole."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Job
from recovery.pipeline.poll import poll_cluster
from recovery.pipeline.watch import watch_cluster
from recovery.slurm.base import JobsPicture
from tests.pipeline.fake_slurm import FakeSlurm

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class SlowSlurm(FakeSlurm):
    """Its list of jobs comes when the test lets it; `asking` tells that somebody waits for it."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW)
        self.asking, self.answered = threading.Event(), threading.Event()
        self.polls = 0

    def jobs_since(self, mark: str) -> JobsPicture:
        self.polls += 1
        self.asking.set()
        assert self.answered.wait(timeout=30)
        return super().jobs_since(mark)


def worker(pk: int, slurm: FakeSlurm) -> threading.Thread:
    def work() -> None:
        try:
            watch_cluster(pk, client_for=lambda cluster: slurm, clock=lambda: NOW)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.django_db(transaction=True)
def test_while_one_worker_polls_the_others_go_on_to_something_else() -> None:
    cluster = Cluster.objects.create(name="lab", backend="cli", next_look_at=NOW)
    slurm = SlowSlurm()
    slurm.enter("1")
    first = worker(cluster.pk, slurm)
    assert slurm.asking.wait(timeout=30)
    others = [worker(cluster.pk, slurm) for _ in range(3)]
    for thread in others:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in others)  # they did not wait for it
    slurm.answered.set()
    first.join(timeout=30)
    assert slurm.polls == 1
    assert Job.objects.count() == 1
    cluster.refresh_from_db()
    assert (cluster.seen_at, cluster.leased_until) == (NOW, None)


@pytest.mark.django_db(transaction=True)
def test_of_two_pictures_stored_at_once_the_newer_one_stays() -> None:
    """A worker whose lease ran out goes on with an old picture while another one has a newer."""
    Cluster.objects.create(name="lab", backend="cli", next_look_at=NOW)
    old, new = FakeSlurm(lambda: NOW), FakeSlurm(lambda: NOW)
    for slurm in (old, new):
        for number in range(40):
            slurm.enter(str(number))
            slurm.start(str(number))
    for number in range(40):
        new.end(str(number))
    ready = threading.Barrier(2)

    def work(slurm: FakeSlurm, begun: datetime) -> None:
        try:
            cluster = Cluster.objects.get()
            ready.wait(timeout=30)
            poll_cluster(cluster, client=slurm, now=begun)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=work, args=(old, NOW)),
        threading.Thread(target=work, args=(new, NOW + timedelta(seconds=5))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert Job.objects.filter(state=JobState.FAILED).count() == 40 == Job.objects.count()
    assert Attempt.objects.count() == 40
    assert Cluster.objects.get().seen_at == NOW + timedelta(seconds=5)
