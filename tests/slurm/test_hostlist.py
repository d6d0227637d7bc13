from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.slurm.hostlist import MAX_NODES, BadHostlist, expand, is_node_name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("gpu-[01-02,07]", ("gpu-01", "gpu-02", "gpu-07")),
        ("a1,b[2-3]", ("a1", "b2", "b3")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("n[8-11]", ("n8", "n9", "n10", "n11")),
        ("node.example.org", ("node.example.org",)),
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
    ],
)
def test_slurms_notation_is_expanded_in_order(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["n[1-", "n[1-2]]", "@all", "n1!n2", "n*", "n[a-b]", "n 1", "n1;n2", "n[9-1]", "%x"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(BadHostlist):
        expand(text)


@pytest.mark.parametrize("text", ["n[0-999999999]", "n[1-99999999999999999999]", f"n[0-{MAX_NODES}]"])
def test_a_range_beyond_any_machine_is_refused_before_it_is_expanded(text: str) -> None:
    with pytest.raises(BadHostlist):
        expand(text)


@pytest.mark.parametrize("name", ["n1", "gpu-17", "gpu17.cluster.example", "N_1"])
def test_plain_names_are_node_names(name: str) -> None:
    assert is_node_name(name)


@pytest.mark.parametrize("name", ["", "-n", "n[1-2]", "n1,n2", "n1 n2", "n1\n", "ALL;", "n1=2", "@x", "é", "n" * 300])
def test_nothing_else_is(name: str) -> None:
    assert not is_node_name(name)


@given(st.text(alphabet="n0123456789[],-._", max_size=30))
def test_any_text_is_a_list_of_plain_names_or_refused(text: str) -> None:
    try:
        names = expand(text)
    except BadHostlist:
        return
    assert all("," not in name and "[" not in name for name in names)


@pytest.mark.parametrize(
    "text", ["n[0-999]x[0-999]", ".".join(["n[0-9]"] * 8), f"a[1-{MAX_NODES}],b[1-9]", "n[1-9999999999]"]
)
def test_brackets_that_multiply_and_lists_that_add_up_are_counted_before_they_are_expanded(text: str) -> None:
    with pytest.raises(BadHostlist):
        expand(text)


@pytest.mark.parametrize("text", ["[a--n01---,]..", "0[-1]a9-_-"])
def test_what_the_library_stumbles_over_is_no_list(text: str) -> None:
    with pytest.raises(BadHostlist):
        expand(text)


def test_names_with_two_numbers_take_no_longer_than_others() -> None:
    """A user may exclude one node of each rack: folded, 5000 such names took two minutes."""
    racks = [f"rack{n}-node{n}" for n in range(1, 5001)]
    started = time.monotonic()
    assert expand(",".join(reversed(racks))) == tuple(racks)
    assert time.monotonic() - started < 5
