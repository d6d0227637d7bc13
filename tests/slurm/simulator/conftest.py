from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm.simulator.virtual import Sim, make_sim


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    """Four idle nodes, gpu-01 … gpu-04, in virtual time."""
    return make_sim(tmp_path / "cluster")
