"""The back ends that the contract suite (test_contract.py) runs on, one entry each.

Another back end: write a module with a list BACK_ENDS of `BackEnd`, and name it in `_MODULES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from tests.slurm.harness import Harness
from tests.slurm.lab_harness import LabHarness
from tests.slurm.simulator.harness import make_harness

ONLY = "RECOVERY_TEST_BACK_ENDS"  # names, for a run on some of them
_MODULES = ("tests.slurm.rest_harness", "tests.slurm.native_harness")


@dataclass(frozen=True, kw_only=True, slots=True)
class BackEnd:
    """`marks` say what its tests need; `accounting_marks` what those with accounting need besides."""

    name: str
    open: Callable[[pytest.FixtureRequest, Path], Harness]
    marks: tuple[pytest.MarkDecorator, ...] = ()
    accounting_marks: tuple[pytest.MarkDecorator, ...] = ()


def _simulator(request: pytest.FixtureRequest, folder: Path) -> Harness:
    return make_harness(folder)


def _cli(request: pytest.FixtureRequest, folder: Path) -> Harness:
    return LabHarness(request.getfixturevalue("slurm_lab"), request.getfixturevalue("slurm_client"), folder)


def all_back_ends() -> list[BackEnd]:
    found = [
        BackEnd(name="simulator", open=_simulator),
        BackEnd(name="cli", open=_cli, marks=(pytest.mark.slurm,), accounting_marks=(pytest.mark.accounting,)),
    ]
    for name in _MODULES:  # here and not above: they take BackEnd from this module
        found += import_module(name).BACK_ENDS
    only = os.environ.get(ONLY, "").split()
    return [back_end for back_end in found if not only or back_end.name in only]


def params(*, accounting: bool = False) -> list[object]:
    """For pytest.fixture(params=…): each back end, with the marks that its tests need."""
    return [
        pytest.param(back_end, id=back_end.name, marks=[*back_end.marks, *(back_end.accounting_marks * accounting)])
        for back_end in all_back_ends()
    ]
