"""Fixtures: the contract suite's, whose tests each run once on every back end, and a stand-in for slurmrestd."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.slurm.back_ends import params
from tests.slurm.harness import Harness
from tests.slurm.lab_harness import LabHarness
from tests.slurm.rest_server import Server, serving


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A contract test that fails on a real cluster shows what its controller wrote meanwhile."""
    report = yield
    given = getattr(item, "funcargs", {})
    opened = given.get("harness") or given.get("accounted")
    if report.when == "call" and report.failed and isinstance(opened, LabHarness):
        report.sections.append(("slurmctld's log of this test", opened.controller_log()))
    return report


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
