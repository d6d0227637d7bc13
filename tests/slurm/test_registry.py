from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from recovery.slurm.base import SlurmClient
from recovery.slurm.cli import CliClient
from recovery.slurm.native import NativeClient
from recovery.slurm.registry import OPTIONS, BadOptions, client_for
from recovery.slurm.rest import RestClient
from recovery.slurm.simulator import SimulatorClient
from recovery.slurm.together import TogetherClient

URL = {"url": "unix:/run/slurmrestd.socket"}


@pytest.mark.parametrize(
    ("backend", "options", "kind"),
    [
        ("cli", {}, CliClient),
        ("cli", {"slurm_conf": "/etc/slurm/slurm.conf", "bin_dir": "", "prefix": "ssh -o BatchMode=yes x"}, CliClient),
        ("rest", URL, RestClient),
        ("rest", URL | {"acts_by": "cli", "bin_dir": "/opt/slurm/bin"}, TogetherClient),
        ("native", {"python": "/opt/venv/bin/python"}, NativeClient),
    ],
)
def test_each_back_end_is_found_by_its_name(
    backend: str, options: Mapping[str, object], kind: type[SlurmClient]
) -> None:
    assert isinstance(client_for(backend, options, timeout_s=1), kind)


def test_a_simulated_cluster_lives_in_a_folder(tmp_path: Path) -> None:
    assert isinstance(client_for("simulator", {"state_dir": str(tmp_path)}, timeout_s=1), SimulatorClient)


@pytest.mark.parametrize("backend", OPTIONS)
def test_every_option_that_is_offered_is_taken(backend: str) -> None:
    values = {"url": "unix:/run/slurmrestd.socket", "acts_by": "cli", "token_file": ""}
    client_for(backend, {name: values.get(name, "/some/where") for name in OPTIONS[backend]}, timeout_s=1)


@pytest.mark.parametrize(
    ("backend", "options", "words"),
    [
        ("lsf", {}, "use one of cli, rest, native, simulator"),
        ("cli", {"slurm_config": "/x"}, "it takes slurm_conf, bin_dir, prefix"),
        ("cli", {"bin_dir": 7}, "give text"),
        ("cli", {"prefix": "ssh 'login"}, "can't be split"),
        ("rest", {}, "needs the option url"),
        ("rest", URL | {"acts_by": "hand"}, "only cli can act"),
        ("rest", URL | {"acts_by": "cli", "prefix": '"'}, "can't be split"),
        ("simulator", {}, "needs the option state_dir"),
        ("simulator", {"state_dir": ""}, "needs the option state_dir"),
    ],
)
def test_a_wrong_description_of_a_cluster_says_what_to_write(
    backend: str, options: Mapping[str, object], words: str
) -> None:
    with pytest.raises(BadOptions, match=words):
        client_for(backend, options, timeout_s=1)
