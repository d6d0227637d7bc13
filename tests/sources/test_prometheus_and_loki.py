"""Asking a site's Prometheus and Loki: what is asked, what is understood, and every way to get no answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.sources import http_get, loki, prometheus
from recovery.sources.http_get import Server, Trouble
from tests.sources.site_server import Site, running_site, streams, vector

NOW = datetime(2026, 1, 11, 12, 0, tzinfo=UTC)


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as found:
        yield found


def test_one_question_for_all_nodes_and_each_value_on_its_node(site: Site) -> None:
    def answer(path: str, given: dict[str, str]) -> Any:
        if "GPU_UTIL" in given["query"]:
            return 200, vector([({"Hostname": "gpu-01"}, 97.5), ({"Hostname": "gpu-02.site.example"}, 3)])
        if "infiniband" in given["query"]:
            return 200, vector([({"instance": "gpu-01:9100"}, 1e9)])
        return 200, vector([({"Hostname": "gpu-01"}, float("nan"))])

    site.answer = answer
    found = prometheus.measure({"prometheus_url": site.url}, nodes=["gpu-01", "gpu-02"], jobs=["1"], now=NOW)
    assert {(each.name, each.node, each.value) for each in found} == {
        ("utilisation", "gpu-01", 97.5), ("utilisation", "gpu-02", 3.0), ("network", "gpu-01", 1e9),
    }  # fmt: skip
    assert {path for path, _, _ in site.asked} == {"/api/v1/query"}
    assert site.asked[0][1]["time"] == f"{NOW.timestamp():.3f}"
    assert r'Hostname=~"(?:gpu\\-01|gpu\\-02)(?:[.:].*)?"' in site.asked[0][1]["query"]


def test_series_may_be_found_by_job(site: Site) -> None:
    site.answer = lambda path, given: (200, vector([({"Hostname": "gpu-01", "hpc_job": "4711"}, 50)]))
    sources = {"prometheus_url": site.url, "prometheus_by": "job"}
    found = prometheus.measure(sources, nodes=["gpu-01"], jobs=["4711"], now=NOW)
    assert {(each.name, each.job) for each in found} == {("utilisation", "4711"), ("power", "4711"), ("xid", "4711")}
    assert 'hpc_job=~"(?:4711)"' in site.asked[0][1]["query"]
    assert "by (Hostname, hpc_job)" in site.asked[0][1]["query"]


def test_a_query_of_the_sites_own(site: Site) -> None:
    sources = {"prometheus_url": site.url, "prometheus_query_nccl": 'sum by (node) (nccl_ops{node=~"$nodes"})'}
    site.answer = lambda path, given: (200, vector([({"node": "n1"}, 7)] if "nccl_ops" in given["query"] else []))
    found = prometheus.measure(sources, nodes=["n1"], jobs=[], now=NOW)
    assert [(each.name, each.node, each.value) for each in found] == [("nccl", "n1", 7.0)]


@given(name=st.text(min_size=1, max_size=30))
def test_no_name_gets_out_of_its_quotes(name: str) -> None:
    text = prometheus.fill('up{node=~"$nodes"} or vector(0)', {}, nodes=[name], jobs=[])
    inside = text.removeprefix('up{node=~"').removesuffix('"} or vector(0)')
    escaped = False
    for char in inside:
        assert escaped or char != '"'
        assert char != "\n"
        escaped = char == "\\" and not escaped
    assert not escaped


def test_many_nodes_are_asked_about_in_pieces(site: Site) -> None:
    nodes = [f"n{number}" for number in range(prometheus.CHUNK + 1)]
    prometheus.measure({"prometheus_url": site.url}, nodes=nodes, jobs=[], now=NOW)
    assert len(site.asked) == 2 * 4


@pytest.mark.parametrize(
    ("answer", "sentence", "remedy"),
    [
        ((200, b"<html>"), "no JSON", "that it is a prometheus"),
        (
            (200, {"status": "success", "data": {"resultType": "scalar", "result": [0, "1"]}}),
            "than a vector",
            "instant",
        ),
        (
            (400, {"status": "error", "errorType": "bad_data", "error": "parse error"}),
            "parse error",
            "prometheus_query",
        ),
        ((401, b""), "refuses us (401)", "prometheus_token_file"),
        ((302, b""), "elsewhere", "prometheus_url"),
        ((503, {"status": "error", "error": "overload"}), "overload", "prometheus"),
        ((200, b"[" * 100_000), "no JSON", "prometheus"),
    ],
)
def test_what_is_no_answer_is_said_with_a_remedy(answer: Any, sentence: str, remedy: str, site: Site) -> None:
    site.answer = lambda path, given: answer
    with pytest.raises(Trouble) as raised:
        prometheus.measure({"prometheus_url": site.url}, nodes=["n1"], jobs=[], now=NOW)
    assert sentence in raised.value.sentence
    assert remedy in raised.value.remedy


def test_series_that_make_no_sense_are_passed_over(site: Site) -> None:
    result = [{}, {"metric": {}, "value": "x"}, {"metric": {"Hostname": "n1"}, "value": [1e30, "1"]}, 7]
    site.answer = lambda path, given: (200, {"status": "success", "data": {"resultType": "vector", "result": result}})
    assert prometheus.measure({"prometheus_url": site.url}, nodes=["n1"], jobs=[], now=NOW) == []


def test_an_answer_is_limited_in_time_and_size(site: Site) -> None:
    server = Server(name="prometheus", url=site.url)
    site.answer = lambda path, given: (200, b" " * 5000)
    with pytest.raises(Trouble, match="longer than 1000 bytes"):
        http_get.ask(server, "/", most_bytes=1000)
    site.delay_s = 0.5
    with pytest.raises(Trouble, match=r"within 0\.1 s"):
        http_get.ask(server, "/", timeout_s=0.1)


def test_a_server_that_is_not_there(unused_tcp_port: int) -> None:
    with pytest.raises(Trouble, match="can't be reached") as raised:
        http_get.ask(Server(name="loki", url=f"http://127.0.0.1:{unused_tcp_port}"), "/")
    assert "loki_url" in raised.value.remedy


@pytest.fixture
def unused_tcp_port() -> int:
    with running_site() as gone:
        return int(gone.url.rpartition(":")[2])


def test_the_token_is_read_from_its_file_each_time(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "token"
    server = Server(name="prometheus", url=site.url, token_file=str(file), tenant="gpu")
    with pytest.raises(Trouble, match="can't be read"):
        http_get.ask(server, "/")
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        http_get.ask(server, "/")
    assert [headers["Authorization"] for _, _, headers in site.asked] == ["Bearer one", "Bearer two"]
    assert site.asked[0][2]["X-Scope-OrgID"] == "gpu"


def test_nothing_of_the_environment_leads_elsewhere(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    http_get.ask(Server(name="prometheus", url=site.url), "/")
    assert len(site.asked) == 1


def test_loki_gives_lines_with_time_and_node(site: Site) -> None:
    xid = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
    site.answer = lambda path, given: (
        200,
        streams([({"host": "gpu-02.site"}, 1768137600_500000000, xid), ({}, 1768137599_000000000, "other")]),
    )
    lines, more = loki.read_lines({"loki_url": site.url}, since=NOW - timedelta(minutes=5), until=NOW)
    assert [(line.node, line.text) for line in lines] == [("", "other"), ("gpu-02", xid)]
    assert lines[1].at == datetime.fromtimestamp(1768137600.5, UTC)
    assert more is False
    path, asked, _ = site.asked[0]
    assert path == "/loki/api/v1/query_range"
    assert asked["start"].endswith("000")
    assert (asked["direction"], len(asked["end"])) == ("forward", 19)


def test_a_metric_query_of_loki_is_refused_in_words(site: Site) -> None:
    site.answer = lambda path, given: (200, {"status": "success", "data": {"resultType": "matrix", "result": []}})
    with pytest.raises(Trouble) as raised:
        loki.read_lines({"loki_url": site.url}, since=NOW, until=NOW)
    assert "loki_query" in raised.value.remedy
