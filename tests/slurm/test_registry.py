from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from recovery.slurm.cli import CliClient
from recovery.slurm.registry import BadOptions, client_for
from recovery.slurm.simulator import SimulatorClient


def test_each_back_end_is_found_by_its_name(tmp_path: Path) -> None:
    assert isinstance(client_for("cli", {}, timeout_s=1), CliClient)
    assert isinstance(client_for("cli", {"slurm_conf": "/etc/slurm/slurm.conf", "bin_dir": ""}, timeout_s=1), CliClient)
    assert isinstance(client_for("simulator", {"state_dir": str(tmp_path)}, timeout_s=1), SimulatorClient)


@pytest.mark.parametrize(
    ("backend", "options", "words"),
    [
        ("telnet", {}, "use one of cli, rest, simulator"),
        ("cli", {"slurm_config": "/x"}, "it takes slurm_conf, bin_dir, prefix"),
        ("cli", {"bin_dir": 7}, "give text"),
        ("cli", {"prefix": "ssh 'login"}, "can't be split"),
        ("simulator", {}, "needs the option state_dir"),
        ("simulator", {"state_dir": ""}, "needs the option state_dir"),
    ],
)
def test_a_wrong_description_of_a_cluster_says_what_to_write(
    backend: str, options: Mapping[str, object], words: str
) -> None:
    with pytest.raises(BadOptions, match=words):
        client_for(backend, options, timeout_s=1)
