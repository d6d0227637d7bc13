"""The leaves that nodes hang on, as real clusters told them, and what is no such answer.

tests/slurm/record.py records a tree; blocks, rings and a torus are the same four nodes under another topology.conf or
topology.yaml.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.slurm.base import Operation, SlurmUnreachable
from recovery.slurm.cli_scontrol import NO_TOPOLOGY, topology
from recovery.slurm.hostlist import MAX_NODES
from recovery.slurm.json_values import BadAnswer
from tests.slurm.fake_slurm import FakeSlurm
from tests.slurm.test_recorded import RECORDED, RELEASES, Recording


def pairs(first: str, second: str) -> dict[str, str]:
    return {"n1": first, "n2": first, "n3": second, "n4": second}


@pytest.mark.parametrize("release", RELEASES)
def test_the_leaves_of_a_tree_are_those_at_its_bottom(release: str) -> None:
    assert topology(Recording(release).read("topology.txt")) == pairs("leaf1", "leaf2")


@pytest.mark.parametrize("release", ["24.11", "26.05"])
def test_blocks_are_leaves_and_blocks_of_blocks_are_none(release: str) -> None:
    assert topology(Recording(release).read("topology_block.txt")) == pairs("b1", "b2")


def test_rings_are_leaves_and_a_torus_is_none() -> None:
    assert topology(Recording("26.05").read("topology_ring.txt")) == pairs("ring1", "ring2")
    assert topology((RECORDED / "26.05" / "topology_torus.txt").read_text()) == {}


def test_of_several_leaves_of_a_node_the_first_counts_and_places_in_a_ring_have_no_order() -> None:
    text = "SwitchName=rail2 Level=0 LinkSpeed=1 Nodes=n[2,1]\nSwitchName=rail1 Level=0 LinkSpeed=1 Nodes=n[1-3]\n"
    assert topology(text) == {"n1": "rail2", "n2": "rail2", "n3": "rail1"}
    assert topology("SwitchName=spare Level=0 LinkSpeed=1\n") == {}


@pytest.mark.parametrize(
    "text",
    [
        "SwitchName=s1 Level=0 Nodes=n1",  # cut
        "command not found\n",
        "SwitchName= Level=0 Nodes=n1\n",
        "SwitchName=s1 Level=0 Nodes=n[1-\n",
        f"SwitchName=s1 Level=0 Nodes=n[1-{MAX_NODES}]\nSwitchName=s2 Level=0 Nodes=m1\n",
    ],
)
def test_what_is_no_whole_topology_is_no_answer(text: str) -> None:
    with pytest.raises(BadAnswer):
        topology(text)


def test_a_cluster_without_a_topology_has_none_and_a_controller_that_is_down_tells_nothing(tmp_path: Path) -> None:
    """Of real ones: 22.05 complains that there is none, 24.11 and 26.05 don't; down, all three end with 0."""
    slurm = FakeSlurm(tmp_path)
    for errors in (f"scontrol: error: {NO_TOPOLOGY}", "", "Authorized use only"):
        slurm.answers(f"printf '%s' '{errors}' >&2", "scontrol")
        assert slurm.client().topology() == {}
    slurm.answers("echo 'slurm_load_topo error: Unable to contact slurm controller (connect failure)' >&2", "scontrol")
    with pytest.raises(SlurmUnreachable, match="connect failure"):
        slurm.client().topology()
    assert slurm.client().can(Operation.TOPOLOGY)
