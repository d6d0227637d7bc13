from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.slurm.simulator import ClusterSpec, Fault, FaultKind, JobSpec, Stream, Workload, make_nodes
from recovery.slurm.simulator.codec import decode, encode


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Leaf:
    colour: Colour
    size: float = 1.0


@dataclass
class Tree:
    leaves: list[Leaf]
    named: dict[str, Leaf] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    best: Leaf | None = None


leaves = st.builds(Leaf, colour=st.sampled_from(Colour), size=st.floats(allow_nan=False))
trees = st.builds(
    Tree,
    leaves=st.lists(leaves, max_size=3),
    named=st.dictionaries(st.text(max_size=5), leaves, max_size=3),
    path=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    best=st.none() | leaves,
)


@given(tree=trees)
def test_what_was_written_is_read_back(tree: Tree) -> None:
    assert decode(Tree, json.loads(json.dumps(encode(tree)))) == tree


def test_a_whole_specification_survives() -> None:
    job = JobSpec(name="llama", faults=(Fault(kind=FaultKind.ECC, step=3, node="gpu-01"),), time_limit_s=None)
    spec = ClusterSpec(seed=1, nodes=make_nodes(2), workload=Workload(streams=(Stream(template=job),)))
    assert decode(ClusterSpec, json.loads(json.dumps(encode(spec)))) == spec


def test_a_missing_field_takes_its_default() -> None:
    assert decode(Leaf, {"colour": "red"}) == Leaf(Colour.RED)


@pytest.mark.parametrize("wrong", [{"colour": "green"}, {"colour": "red", "weight": 1}, {}, 3, {"leaves": 1}])
def test_anything_else_is_an_error(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError, KeyError)):
        decode(Leaf, wrong)


def test_bytes_that_are_no_text_survive() -> None:
    text = b"\x80\xff".decode("utf-8", "surrogateescape")
    assert json.loads(json.dumps(encode(text))).encode("utf-8", "surrogateescape") == b"\x80\xff"
