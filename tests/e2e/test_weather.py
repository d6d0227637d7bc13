"""Whatever fails beside it, a recovery is done once and comes to its end, and its ledger balances.

The first runs with the other tests, all of them by `make torture`. Times that are wrong, late or long are in
test_weather_of_times.py.
"""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest
import redis
from django.db import OperationalError, connection

from recovery.core.lifecycle import IncidentState
from recovery.demo.processes import wait_until
from recovery.models import Cluster
from tests.daemons import Daemon
from tests.e2e.site import Site
from tests.e2e.storm import fall_in, recovered_exactly_once, wait_for_news

pytestmark = [pytest.mark.slurm, pytest.mark.accounting, pytest.mark.redis, pytest.mark.timeout(240)]


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
def test_a_database_that_crashes_and_recovers_loses_nothing(stormy: Site) -> None:
    """One of its processes is killed: PostgreSQL then ends all others, reads its journal again and starts anew."""
    stormy.start("worker", "beat")
    job = stormy.submit(faults=["kind=ecc,step=20,rank=3,attempt=0"])
    for moment in (IncidentState.DETECTED, IncidentState.ACTING, IncidentState.RESTORING):
        stormy.wait(fall_in(moment), what=moment)
        crash_the_database()
        wait_for_news(stormy)
    recovered_exactly_once(stormy, job)


def crash_the_database() -> None:
    """Returns when PostgreSQL answers anew: in the moment before it ends its processes it still lets somebody in."""
    victim, witness = connection.copy(), connection.copy()
    connection.close()
    with closing(victim), closing(witness):
        witness.ensure_connection()
        with victim.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not witness.is_usable(), timeout_s=30)

    def is_back() -> bool:
        try:
            connection.ensure_connection()
        except OperationalError:
            return False
        return True

    assert wait_until(is_back, timeout_s=30)


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
