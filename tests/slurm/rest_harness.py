"""slurmrestd under the contract suite: on its socket, over TCP with JWT, and with the commands beside it.

The lab's own commands tell what is true, so that slurmrestd does not vouch for itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from recovery.demo.lab import SlurmLab
from recovery.slurm import rest_door, rest_versions
from recovery.slurm.base import SlurmClient
from recovery.slurm.registry import client_for
from tests.slurm.back_ends import BackEnd
from tests.slurm.harness import Harness
from tests.slurm.lab_harness import LabHarness


def local_options(lab: SlurmLab) -> dict[str, str]:
    """rest_auth/local: the socket's own user, no token. Over TCP where the release can't run as root."""
    socket, _ = lab.rest_urls
    return {"url": socket} if Path(socket.removeprefix("unix:")).exists() else jwt_options(lab)


def jwt_options(lab: SlurmLab) -> dict[str, str]:
    """As Slinky is reached: http to a port, a token of `scontrol token`, nothing else."""
    return {"url": lab.rest_urls[1], **lab.options}


def together_options(lab: SlurmLab) -> dict[str, str]:
    return local_options(lab) | {"acts_by": "cli", **lab.options}


def client(options: Mapping[str, str]) -> SlurmClient:
    return client_for("rest", options, timeout_s=20)


def lab_of(request: pytest.FixtureRequest) -> SlurmLab:
    """The session's lab, for tests marked slurmrestd."""
    lab: SlurmLab = request.getfixturevalue("slurm_lab")
    return lab


def _jwt_in(version: str, request: pytest.FixtureRequest, folder: Path) -> Harness:
    """As if the server had no newer version of the API."""
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    monkeypatch.setattr(rest_versions, "NEWEST_FIRST", (version,))
    monkeypatch.setattr(rest_door, "_versions", {})
    return _jwt(request, folder)


def _local(request: pytest.FixtureRequest, folder: Path) -> Harness:
    lab = lab_of(request)
    return LabHarness(lab, client(local_options(lab)), folder)


def _jwt(request: pytest.FixtureRequest, folder: Path) -> Harness:
    lab = lab_of(request)
    return LabHarness(lab, client(jwt_options(lab)), folder)


def _together(request: pytest.FixtureRequest, folder: Path) -> Harness:
    lab = lab_of(request)
    return LabHarness(lab, client(together_options(lab)), folder)


OLDER = "RECOVERY_TEST_REST_VERSIONS"  # of the API, which the lab's server has beside its newest: "v0.0.40 v0.0.41"
_WAYS: list[tuple[str, Callable[[pytest.FixtureRequest, Path], Harness]]] = [
    *(("rest-jwt", _jwt), ("rest-local", _local), ("rest-together", _together)),
    *((f"rest-{version}", partial(_jwt_in, version)) for version in os.environ.get(OLDER, "").split()),
]
BACK_ENDS = [
    BackEnd(
        name=name,
        open=open_,
        marks=(pytest.mark.slurm, pytest.mark.slurmrestd),
        accounting_marks=(pytest.mark.accounting,),
    )
    for name, open_ in _WAYS
]
