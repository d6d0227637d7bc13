"""Kernel lines: times of every form, only what the catalogue knows, never a crash."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.kernel import read_line

NOW = datetime(2026, 1, 11, 12, 0, tzinfo=UTC)
XID = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
AT = datetime(2026, 1, 11, 8, 20, 41, tzinfo=UTC)
PARIS = ZoneInfo("Europe/Paris")


@pytest.mark.parametrize(
    ("line", "node"),
    [
        (f"Jan 11 09:20:41 gpu-02 kernel: {XID}", "gpu-02"),
        (f"<4>Jan 11 09:20:41 gpu-02 kernel: [12345.678901] {XID}", "gpu-02"),
        (f"2026-01-11T09:20:41+0100 gpu-02.site.example kernel: {XID}", "gpu-02"),
        (f"2026-01-11T09:20:41.123456+01:00 gpu-02 kernel: {XID}", "gpu-02"),
        (f"2026-01-11T08:20:41Z gpu-02 kernel: [    5.000001] {XID}", "gpu-02"),
        (f"2026-01-11T09:20:41 gpu-02 kernel: {XID}", "gpu-02"),
        (f"[Sun Jan 11 09:20:41 2026] {XID}", ""),
    ],
)
def test_time_node_and_words_are_told_apart(line: str, node: str) -> None:
    found = read_line(line, now=NOW, zone=PARIS)
    assert found is not None
    assert (found.at.replace(microsecond=0), found.node, found.text) == (AT, node, XID)


def test_syslog_tells_no_year_so_a_time_to_come_was_last_year() -> None:
    found = read_line(f"Dec 31 23:00:00 n1 kernel: {XID}", now=NOW, zone=ZoneInfo("UTC"))
    assert found is not None
    assert found.at == datetime(2025, 12, 31, 23, tzinfo=UTC)


def test_a_line_whose_time_nobody_tells_is_passed_over() -> None:
    assert read_line(XID, now=NOW, zone=PARIS) is None
    told = read_line(XID, now=NOW, zone=PARIS, at=AT)
    assert told is not None
    assert told.at == AT


def test_what_the_catalogue_does_not_know_is_passed_over() -> None:
    assert read_line("Jan 11 09:20:41 n1 kernel: usb 1-1: new device", now=NOW, zone=PARIS) is None
    assert read_line("Jan 11 09:20:41 n1 kernel: nvidia: loading out-of-tree module", now=NOW, zone=PARIS) is None


def test_the_same_line_has_one_key_whichever_way_it_came() -> None:
    syslog = read_line(f"Jan 11 09:20:41 gpu-02 kernel: {XID}", now=NOW, zone=PARIS)
    by_loki = read_line(f"2026-01-11T09:20:41.123456+01:00 gpu-02 kernel: [9.000001] {XID}", now=NOW, zone=PARIS)
    assert syslog is not None
    assert by_loki is not None
    assert syslog.key("gpu-02") == by_loki.key("gpu-02")
    assert syslog.key("gpu-03") != syslog.key("gpu-02")


@given(head=st.text(max_size=60), tail=st.text(max_size=60))
def test_no_line_breaks_the_reader(head: str, tail: str) -> None:
    for line in (
        head + XID + tail,
        f"Jan 11 {head} n1 {XID}",
        f"[Sun Jan {head} 2026] {XID}",
        f"{head}T09:20:41 x {XID}",
    ):
        found = read_line(line, now=NOW, zone=PARIS)
        assert found is None or (found.text.isprintable() and len(found.text) <= 300 and found.at <= NOW)
