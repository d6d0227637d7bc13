"""The fixtures of the contract suite: each test runs once on every back end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.back_ends import params
from tests.slurm.harness import Harness


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
