"""pyslurm under the contract suite, where there is one: `make test-newslurm` names the Python that has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recovery.slurm.native import NativeClient
from tests.slurm.back_ends import BackEnd
from tests.slurm.harness import Harness
from tests.slurm.lab_harness import LabHarness

PYTHON = "RECOVERY_TEST_PYSLURM"


def _native(request: pytest.FixtureRequest, folder: Path) -> Harness:
    lab = request.getfixturevalue("slurm_lab")
    client = NativeClient(slurm_conf=str(lab.conf), python=os.environ[PYTHON], timeout_s=20)
    return LabHarness(lab, client, folder)


BACK_ENDS = (
    [BackEnd(name="native", open=_native, marks=(pytest.mark.slurm,), accounting_marks=(pytest.mark.accounting,))]
    if PYTHON in os.environ
    else []
)
