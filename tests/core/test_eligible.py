"""On which nodes could a job start? Known, or not known with the reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.eligible import Eligible, Needs, NodeOffer, PartitionOffer, ReservationOffer, eligible
from recovery.core.types import NodeState

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NODES = [
    NodeOffer(name="n1", state=NodeState.UP, features=("h100", "ib")),
    NodeOffer(name="n2", state=NodeState.UP, features=("h100", "roce")),
    NodeOffer(name="n3", state=NodeState.UP, features=("a100", "ib")),
    NodeOffer(name="n4", state=NodeState.UP),
]
PARTITIONS = [
    PartitionOffer(name="main", up=True, nodes=("n1", "n2", "n3"), default=True),
    PartitionOffer(name="debug", up=True, nodes=("n4",)),
    PartitionOffer(name="closed", up=False, nodes=("n1", "n2", "n3", "n4")),
]
HOUR = timedelta(hours=1)
RESERVED = ReservationOffer(name="course", nodes=("n1",), starts_at=NOW + HOUR, ends_at=NOW + 3 * HOUR)


def ask(
    job: Needs,
    *,
    nodes: list[NodeOffer] = NODES,
    reservations: tuple[ReservationOffer, ...] = (),
) -> Eligible:
    return eligible(job, nodes, PARTITIONS, reservations, NOW)


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ("main", ("n1", "n2", "n3")),
        ("", ("n1", "n2", "n3")),
        ("main,debug", ("n1", "n2", "n3", "n4")),
        ("closed,debug", ("n4",)),
        ("closed", ()),
        ("main,gone", None),
    ],
)
def test_the_partitions_of_the_job_count_where_they_take_jobs(partition: str, expected: tuple[str, ...] | None) -> None:
    assert ask(Needs(partition=partition)).nodes == expected


@pytest.mark.parametrize("state", [state for state in NodeState if state is not NodeState.UP])
def test_a_node_that_is_not_up_is_not_counted(state: NodeState) -> None:
    nodes = [replace(NODES[0], state=state), *NODES[1:]]
    assert ask(Needs(partition="main"), nodes=nodes).nodes == ("n2", "n3")


def test_excluded_nodes_are_not_counted() -> None:
    assert ask(Needs(excluded_nodes=("n2",))).nodes == ("n1", "n3")


def test_a_job_for_a_node_by_name_that_is_down_has_none() -> None:
    nodes = [replace(NODES[0], state=NodeState.DOWN), *NODES[1:]]
    got = ask(Needs(required_nodes=("n1",)), nodes=nodes)
    assert got.nodes == ()
    assert "n1" in got.reason


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ("", ("n1", "n2", "n3")),
        ("h100", ("n1", "n2")),
        ("h100&ib", ("n1",)),
        ("roce|a100", ("n2", "n3")),
        ("h100&(ib|roce)", ("n1", "n2")),
        ("(h100&roce)|(a100&ib)", ("n2", "n3")),
        ("((h100))", ("n1", "n2")),
        ("h100 & ib", ("n1",)),
        ("b200", ()),
    ],
)
def test_the_constraint_is_understood(features: str, expected: tuple[str, ...]) -> None:
    assert ask(Needs(features=features)).nodes == expected


@pytest.mark.parametrize(
    "features",
    [
        "h100*2", "[h100|a100]", "[h100*2&a100*1]", "h100,ib", "h100^a100", "!h100", "h100&ib|roce", "h100&", "&h100",
        "(h100", "h100)", "()", "h100 ib", "(" * 30 + "h100" + ")" * 30, "h100&" * 60 + "h100",
    ],
)  # fmt: skip
def test_a_constraint_that_is_not_understood_is_not_guessed(features: str) -> None:
    got = ask(Needs(features=features))
    assert got.nodes is None
    assert "constraint" in got.reason


def test_a_reservation_of_others_takes_its_nodes_from_jobs_that_would_run_into_it() -> None:
    assert ask(Needs(time_limit_s=1800), reservations=(RESERVED,)).nodes == ("n1", "n2", "n3")
    assert ask(Needs(time_limit_s=7200), reservations=(RESERVED,)).nodes == ("n2", "n3")
    assert ask(Needs(), reservations=(RESERVED,)).nodes == ("n2", "n3")


def test_a_reservation_that_is_over_takes_nothing() -> None:
    over = replace(RESERVED, starts_at=NOW - 2 * HOUR, ends_at=NOW - HOUR)
    assert ask(Needs(), reservations=(over,)).nodes == ("n1", "n2", "n3")


def test_a_job_of_a_reservation_has_its_nodes_only() -> None:
    assert ask(Needs(reservation="course"), reservations=(RESERVED,)).nodes == ("n1",)
    assert ask(Needs(reservation="gone"), reservations=(RESERVED,)).nodes is None


@settings(max_examples=150, deadline=None)
@given(
    features=st.text(alphabet="ab()&|*[], ", max_size=24),
    partition=st.sampled_from(["", "main", "debug,main", "gone", "closed"]),
    excluded=st.lists(st.sampled_from(["n1", "n2", "n9"]), max_size=2).map(tuple),
)
def test_whatever_is_asked_only_nodes_that_are_up_and_not_excluded_are_given(
    features: str, partition: str, excluded: tuple[str, ...]
) -> None:
    nodes = [replace(node, features=("a",)) for node in NODES]
    got = ask(Needs(features=features, partition=partition, excluded_nodes=excluded), nodes=nodes)
    assert got.nodes is not None or got.reason
    assert not set(got.nodes or ()) & set(excluded)
