"""Fixtures that start real servers: Redis, PostgreSQL, Celery workers. tests/daemons.py knows how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests import daemons
from tests.daemons import Daemon

StartWorker = Callable[..., Daemon]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL with an empty database. Mark the test `postgres`."""
    with daemons.short_folder(daemons.postgres_user()) as folder:
        server, url = daemons.postgres_daemon(folder)
        server.start()
        yield url
        server.stop()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The URL of a Redis for the whole session. Mark the test `redis`."""
    port = daemons.free_port()
    with daemons.short_folder() as folder:
        server = daemons.redis_daemon(folder, port=port)
        server.start()
        yield f"redis://127.0.0.1:{port}/0"
        server.stop()


@pytest.fixture
def own_redis() -> Iterator[tuple[Daemon, str]]:
    """A Redis of this test alone, for tests that kill it and start it again, and its URL. Mark the test `redis`."""
    port = daemons.free_port()
    with daemons.short_folder() as folder:
        server = daemons.redis_daemon(folder, port=port)
        server.start()
        yield server, f"redis://127.0.0.1:{port}/0"
        server.stop()


@pytest.fixture
def start_worker(transactional_db: None, redis_server: str, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts real workers on the test's own database: `start_worker(concurrency=1, RECOVERY_LEASE_S="5")`.

    A worker is a Daemon: `kill()` is kill -9 to it and its pool. All of them are ended after the test.
    """
    started: list[Daemon] = []

    def start(*, concurrency: int = 2, broker: str = redis_server, **env: str) -> Daemon:
        folder = tmp_path / f"worker-{len(started)}"
        folder.mkdir()
        worker = daemons.worker_daemon(
            folder, concurrency=concurrency, env={"REDIS_URL": broker, "DATABASE_URL": database_url(), **env}
        )
        started.append(worker)
        worker.start()
        return worker

    yield start
    for worker in started:
        worker.stop()


@pytest.fixture
def celery_worker(start_worker: StartWorker) -> Daemon:
    """One real worker on the test's own database."""
    return start_worker()


def database_url() -> str:
    """The database of the running test, in the form that another process takes from its environment."""
    from django.db import connection  # noqa: PLC0415 - this module is loaded before Django is set up

    given: dict[str, Any] = connection.settings_dict
    name = str(given["NAME"])
    if connection.vendor == "sqlite":
        return f"sqlite:///{quote(name)}"
    host, port = str(given["HOST"]), str(given["PORT"])
    where = f"?host={quote(host, safe='')}" if host.startswith("/") else ""
    place = "" if where else f"{host}:{port}" if port else host
    return f"postgres://{given['USER']}:{quote(str(given['PASSWORD']))}@{place}/{quote(name)}{where}"
