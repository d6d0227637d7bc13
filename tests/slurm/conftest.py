"""Fixtures: the contract suite's, whose tests each run once on every back end, and a stand-in for slurmrestd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.back_ends import params
from tests.slurm.harness import Harness
from tests.slurm.rest_server import Server, serving


@pytest.fixture(params=params())
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    opened = request.param.open(request, tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=params(accounting=True))
def accounted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """A harness whose cluster keeps accounts."""
    opened = request.param.open(request, tmp_path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    """A stand-in for slurmrestd, shared by the tests of a module."""
    with serving(Server()) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    """The same, as if it were new."""
    running.begin()
    return running
