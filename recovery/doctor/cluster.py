"""One cluster: whether it can be reached, what it is set to, and what can be done on it as this user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from recovery.doctor import remedies
from recovery.doctor.calls import examine_calls
from recovery.doctor.job_files import examine_files
from recovery.doctor.results import Group, Result, State
from recovery.doctor.scheduler import examine_settings
from recovery.doctor.sources import examine_sources
from recovery.models import Cluster
from recovery.slurm.base import Health, Operation, SlurmClient, SlurmError
from recovery.slurm.registry import BadOptions

ClientFor = Callable[[Cluster], SlurmClient]
Clock = Callable[[], datetime]


def examine_cluster(cluster: Cluster, *, client_for: ClientFor, clock: Clock) -> Iterator[Result]:
    """Everything about one cluster. Asks Slurm about ten questions, and stops asking where the first gets no answer."""
    try:
        client = client_for(cluster)
    except BadOptions as error:
        remedy = f"Set it up anew: `manage.py set_cluster {cluster.name}`."
        yield _controller("set-up", str(error), State.BROKEN, remedy=remedy, at=clock())
        return
    try:
        health = client.health()
    except SlurmError as error:
        yield _unreachable(cluster, error, at=clock())
    else:
        yield from _answered(cluster, client, health, clock=clock)
    yield from examine_files(cluster, now=clock())
    yield from examine_sources(cluster, now=clock())


def _answered(cluster: Cluster, client: SlurmClient, health: Health, *, clock: Clock) -> Iterator[Result]:
    at = clock()
    detail = f"answers in {health.latency_s:.2f} s through {cluster.get_backend_display()}"
    yield _controller("reachable", detail, State.GOOD, at=at)
    yield _controller("release", f"Slurm {health.release}", State.GOOD, at=at)
    yield from examine_settings(cluster, health, attempts=client.can(Operation.ATTEMPTS), at=at)
    yield from examine_calls(cluster, client, clock=clock)


def _unreachable(cluster: Cluster, error: SlurmError, *, at: datetime) -> Result:
    return _controller("reachable", str(error), State.BROKEN, remedy=remedies.unreachable(cluster, error), at=at)


def _controller(what: str, detail: str, state: State, *, at: datetime, remedy: str = "") -> Result:
    return Result(group=Group.CONTROLLER, what=what, detail=detail, state=state, remedy=remedy, at=at)
