"""Whatever fails beside it, a recovery is done once and comes to its end.

The first runs with the other tests, all of them by `make torture`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from django.db import connection

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import Outcome
from recovery.models import Action, Cluster, Event, Incident, Sample
from tests.daemons import Daemon
from tests.e2e.site import Site

pytestmark = [pytest.mark.slurm, pytest.mark.accounting, pytest.mark.redis, pytest.mark.timeout(240)]


@pytest.fixture
def stormy(site: Site, own_redis: tuple[Daemon, str]) -> Site:
    """A site that acts by itself, with a Redis of its own that may be broken."""
    site.redis_url = own_redis[1]
    site.policy(gpu_hardware="auto")
    site.connect()
    return site


def wait_for_news(site: Site) -> None:
    """Until the cluster was looked at again.

    A worker or beat that has ended is started again, as every service manager does: Celery's worker ends itself where
    its broker goes away a second time while it is still connecting (seen with kombu 5.7).
    """
    before = Cluster.objects.get().seen_at

    def looked() -> bool:
        for name in [name for name, daemon in site.processes.items() if not daemon.is_running()]:
            site.start(name)
        return Cluster.objects.get().seen_at != before

    site.wait(looked, what="another look at the cluster")


def fall_in(state: IncidentState) -> Callable[[], bool]:
    return lambda: Event.objects.filter(verb=f"incident.{state}").exists()


def recovered_exactly_once(site: Site, job: str) -> None:
    site.wait_for(IncidentState.CLOSED, within=150)
    assert site.incident.outcome == Outcome.RECOVERED
    assert Incident.objects.count() == 1
    begun = Action.objects.exclude(called_at=None)  # one whose facts changed before its first call is not done
    assert begun.get().state == ActionState.CONVERGED
    assert site.record(job).restart_count == 1
    site.wait(lambda: len(site.history(job)) == 2, what="both attempts in accounting")
    first = list(Sample.objects.filter(attempt__number=0).order_by("step").values_list("step", flat=True))
    assert first == list(range(1, len(first) + 1))
    moves = list(Event.objects.filter(subject_kind="incident").values_list("new", flat=True))
    assert moves.count("restoring") == moves.count("closed") == 1


def test_two_beats_and_two_workers_do_everything_once(stormy: Site) -> None:
    stormy.start("worker", "beat")
    others = {name: stormy.processes[name] for name in ("worker", "beat")}
    stormy.start("worker", "beat")
    stormy.processes |= {f"second {name}": daemon for name, daemon in others.items()}
    job = stormy.submit(faults=["kind=ecc,step=20,rank=3,attempt=0"])
    recovered_exactly_once(stormy, job)


@pytest.mark.torture
def test_redis_that_forgets_everything_and_goes_away_loses_nothing(stormy: Site, own_redis: tuple[Daemon, str]) -> None:
    server, url = own_redis
    stormy.start("worker", "beat")
    job = stormy.submit(faults=["kind=ecc,step=20,rank=3,attempt=0"])
    for moment in (IncidentState.DETECTED, IncidentState.ACTING, IncidentState.RESTORING):
        stormy.wait(fall_in(moment), what=moment)
        redis.Redis.from_url(url).flushall()
        server.kill()
        server.start()
        wait_for_news(stormy)
    recovered_exactly_once(stormy, job)


@pytest.mark.torture
def test_a_database_that_ends_every_session_loses_nothing(stormy: Site) -> None:
    """What a restart of PostgreSQL is to its clients."""
    stormy.start("worker", "beat")
    job = stormy.submit(faults=["kind=ecc,step=20,rank=3,attempt=0"])
    for moment in (IncidentState.DETECTED, IncidentState.ACTING, IncidentState.RESTORING):
        stormy.wait(fall_in(moment), what=moment)
        for _ in range(5):
            end_every_session()
        wait_for_news(stormy)
    recovered_exactly_once(stormy, job)


def end_every_session() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.mark.torture
@pytest.mark.parametrize("moment", [IncidentState.DETECTED, IncidentState.RESTORING])
def test_a_controller_that_is_killed_and_comes_back_is_waited_for(stormy: Site, moment: IncidentState) -> None:
    """It writes its state down every few seconds only: what it may have forgotten is not what is tried here."""
    stormy.start("worker", "beat")
    job = stormy.submit(faults=["kind=ecc,step=20,rank=3,attempt=0"])
    stormy.wait(fall_in(moment), what=moment)
    written_down(stormy)
    stormy.lab.kill_controller()
    stormy.wait(lambda: Cluster.objects.get().error != "", what="the silence to be noticed")
    stormy.lab.start_controller()
    wait_for_news(stormy)
    recovered_exactly_once(stormy, job)


def written_down(site: Site) -> None:
    """Until slurmctld has written the states of jobs twice: the second time begins after this was asked."""
    file = site.lab.root / "state" / "job_state"
    seen = {file.stat().st_mtime_ns}

    def twice_more() -> bool:
        seen.add(file.stat().st_mtime_ns)
        return len(seen) > 2

    site.wait(twice_more, within=30, what="the controller's state to be written")


@pytest.mark.torture
def test_accounting_that_is_down_is_done_without(stormy: Site) -> None:
    stormy.start("worker", "beat")
    job = stormy.submit(faults=["kind=ecc,step=20,rank=3,attempt=0"])
    stormy.wait(lambda: stormy.has_reached(1), what="a first step")
    stormy.lab.kill_accounting()
    try:
        stormy.wait_for(IncidentState.CLOSED, within=120)
    finally:
        stormy.lab.start_accounting()
    recovered_exactly_once(stormy, job)
