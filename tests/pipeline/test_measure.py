"""Beside the path: readings, kernel lines, and the health of what tells them; none of it makes blind or hung."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from recovery.core.detectors.gpu import idle_gpus
from recovery.core.types import FailureClass, FindingKind, JobState
from recovery.models import Cluster, Incident, Node, NodeEvent, Reading, SourceHealth
from recovery.pipeline import kernel_events, measure
from recovery.pipeline.facts import attempt_facts
from recovery.pipeline.measure_gpus import gpu_facts
from recovery.sources import kernel_log
from tests.pipeline.conftest import Desk
from tests.sources.site_server import Site, running_site, streams, vector

XID = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as found:
        yield found


def train(desk: Desk) -> None:
    """A job on n1 and n2 that trains."""
    desk.submit()
    desk.start()
    desk.tick()
    desk.train(1, 4)


def name_sources(**sources: str) -> Cluster:
    Cluster.objects.update(sources=sources)
    return Cluster.objects.get()


def look(desk: Desk, seconds: float = 61) -> SourceHealth:
    """One pass over what is due."""
    desk.now += timedelta(seconds=seconds)
    for pk in measure.due(desk.now):
        measure.measure_source(pk, clock=lambda: desk.now)
    return SourceHealth.objects.get()


def gpus(site: Site, desk: Desk, *, utilisation: float = 97, power: float = 600, xid: float = 0) -> None:
    def answer(path: str, given: dict[str, str]) -> Any:
        for word, value in (("GPU_UTIL", utilisation), ("POWER", power), ("XID", xid)):
            if word in given["query"]:
                at = float(given["time"])
                return 200, vector([({"Hostname": node}, value) for node in ("n1", "n2", "stranger")], at)
        return 200, vector([])

    site.answer = answer


def only_on(node: str, answer: Callable[[str, dict[str, str]], tuple[int, Any]]) -> Any:
    """`answer`, of which the Xids of other nodes are taken away."""

    def some(path: str, given: dict[str, str]) -> tuple[int, Any]:
        status, body = answer(path, given)
        result = body["data"]["result"]
        if "XID" in given["query"]:
            result[:] = [series for series in result if series["metric"]["Hostname"] == node]
        return status, body

    return some


# --- Prometheus ------------------------------------------------------------------------------------------------------


def test_readings_are_stored_for_the_attempt_on_whose_nodes_they_were_taken(desk: Desk, site: Site) -> None:
    train(desk)
    name_sources(prometheus_url=site.url)
    gpus(site, desk)
    health = look(desk)
    assert (health.trouble, health.detail) == ("", "new readings: 4, attempts that they are of: 1")
    assert set(Reading.objects.values_list("name", "node", "value")) == {
        ("utilisation", "n1", 97.0), ("utilisation", "n2", 97.0), ("power", "n1", 600.0), ("power", "n2", 600.0),
    }  # fmt: skip


def test_a_failing_prometheus_is_shown_and_changes_nothing_else(desk: Desk, site: Site) -> None:
    train(desk)
    name_sources(prometheus_url=site.url)
    site.answer = lambda path, given: (503, b"")
    health = look(desk)
    assert health.trouble
    assert health.remedy
    assert health.good_at is None
    asked = len(site.asked)
    look(desk, seconds=61)
    assert len(site.asked) == asked  # what fails is asked less often
    desk.step(13)
    desk.tick()
    assert (desk.attempt.blind_reason, Incident.objects.count()) == ("", 0)


def test_a_slow_prometheus_is_given_up_in_time_and_shown(desk: Desk, site: Site) -> None:
    """Who goes on asking is ended with the lease, and nobody ever learns why there are no readings."""
    train(desk)
    name_sources(prometheus_url=site.url)

    def slowly(path: str, given: dict[str, str]) -> Any:
        desk.now += timedelta(seconds=30)
        return 200, vector([])

    site.answer = slowly
    health = look(desk)
    assert "too slowly" in health.trouble
    assert "recording rules" in health.remedy
    assert len(site.asked) == 2


def test_idle_gpus_make_no_hang_by_themselves_and_one_surer(desk: Desk, site: Site) -> None:
    train(desk)
    name_sources(prometheus_url=site.url)
    gpus(site, desk, utilisation=0, power=80)
    look(desk, 1)
    desk.tick()
    assert not Incident.objects.exists()
    for _ in range(20):
        look(desk)
        desk.tick()
        if Incident.objects.exists():
            break
    incident = Incident.objects.get()
    assert incident.kind == FindingKind.HANG
    surer, [evidence] = idle_gpus(attempt_facts(desk.attempt, now=desk.now))
    assert surer > 0
    assert "idle" in evidence.text


def test_gpus_that_only_wait_draw_little(desk: Desk, site: Site) -> None:
    train(desk)
    name_sources(prometheus_url=site.url)
    gpus(site, desk, power=620)
    for _ in range(15):
        look(desk)
    gpus(site, desk, utilisation=100, power=150)
    for _ in range(5):
        look(desk)
    _, [evidence] = idle_gpus(attempt_facts(desk.attempt, now=desk.now))
    assert "they only wait" in evidence.text
    assert idle_gpus(attempt_facts(desk.attempt, now=desk.now + timedelta(minutes=10))) == (0.0, ())  # old readings


def test_an_xid_of_before_is_not_one_of_this_attempt(desk: Desk, site: Site) -> None:
    train(desk)
    name_sources(prometheus_url=site.url)
    gpus(site, desk, xid=31)
    for _ in range(3):
        look(desk)
    facts = gpu_facts(desk.attempt, now=desk.now)
    assert facts is not None
    assert facts.xids == ()
    gpus(site, desk, xid=79)
    for _ in range(3):
        look(desk)
    facts = gpu_facts(desk.attempt, now=desk.now)
    assert facts is not None
    assert facts.xids == (("n1", 79), ("n2", 79))
    assert Reading.objects.filter(name="xid").count() == 4  # each change once


def test_an_xid_that_comes_up_is_evidence_of_its_node(desk: Desk, site: Site) -> None:
    train(desk)
    name_sources(prometheus_url=site.url)
    gpus(site, desk)
    look(desk)
    before = desk.now
    gpus(site, desk, xid=79)
    site.answer = only_on("n2", site.answer)
    for _ in range(3):
        look(desk)
    [event] = NodeEvent.objects.all()
    assert (event.node, event.source, event.at) == ("n2", "prometheus", before - timedelta(minutes=1))
    assert event.reason.startswith("NVRM: Xid (as DCGM counts): 79, between ")
    [fact] = attempt_facts(desk.attempt, now=desk.now).node_events
    assert not fact.exact  # it came up some time between two questions
    desk.say("RuntimeError: CUDA error: unspecified launch failure")
    desk.slurm.end("1", JobState.FAILED, exit_code=1)
    desk.tick_until(lambda: Incident.objects.exclude(failure_class="").exists())
    assert desk.incident.failure_class == FailureClass.GPU_HARDWARE
    assert desk.incident.diagnosis["nodes"] == ["n2"]


def test_an_xid_of_before_is_no_evidence(desk: Desk, site: Site) -> None:
    train(desk)
    name_sources(prometheus_url=site.url)
    gpus(site, desk, xid=79)
    for _ in range(3):
        look(desk)
    assert not NodeEvent.objects.exists()


def test_a_node_that_jobs_share_tells_nothing_of_one_of_them(desk: Desk, site: Site) -> None:
    train(desk)
    desk.submit("2", stdout="", stderr="")
    desk.slurm.start("2", ("n2", "n3"))
    desk.tick()
    name_sources(prometheus_url=site.url)
    gpus(site, desk)
    look(desk)
    assert set(Reading.objects.values_list("node", flat=True)) == {"n1"}


def test_a_source_that_is_taken_away_is_asked_no_more(desk: Desk, site: Site) -> None:
    name_sources(prometheus_url=site.url)
    look(desk)
    name_sources()
    assert measure.due(desk.now + timedelta(hours=1)) == []
    assert not SourceHealth.objects.exists()


def test_old_readings_are_forgotten(desk: Desk, site: Site) -> None:
    train(desk)
    name_sources(prometheus_url=site.url)
    gpus(site, desk)
    look(desk)
    look(desk)
    assert measure.forget(now=desk.now + timedelta(days=13)) == 0
    assert measure.forget(now=desk.now + timedelta(days=15), most=3) == 4  # in bites that end between two rounds
    assert measure.forget(now=desk.now + timedelta(days=15)) == 4


# --- kernel logs -----------------------------------------------------------------------------------------------------


def stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")


def test_kernel_lines_become_events_of_nodes_each_once(desk: Desk, tmp_path: Path) -> None:
    train(desk)
    folder = tmp_path / "kern"
    folder.mkdir()
    (folder / "n1.log").write_text(f"{stamp(desk.now)} n1 kernel: {XID}\n{stamp(desk.now)} n1 kernel: usb fine\n")
    (folder / "n2.log").write_text("")
    name_sources(kernel_log=f"{folder}/%N.log")
    health = look(desk, 1)
    assert (health.trouble, health.detail) == ("", "files: 2, new lines of faults: 1")
    for _ in range(3):
        look(desk)
    with (folder / "n2.log").open("a") as file:
        file.write(f"{stamp(desk.now)} n2 kernel: {XID}\n")
    look(desk)
    assert list(NodeEvent.objects.order_by("at").values_list("node", "reason", "source")) == [
        ("n1", XID, "kernel log"), ("n2", XID, "kernel log"),
    ]  # fmt: skip


def test_kernel_logs_that_there_is_no_time_for_are_read_in_the_next_look(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(desk)
    nodes = list(Node.objects.order_by("name").values_list("name", flat=True))
    for node in nodes:
        (tmp_path / f"{node}.kern").write_text(f"{stamp(desk.now)} {node} kernel: {XID}\n")
    read_on = kernel_log.read_on

    def slowly(*given: Any) -> Any:
        got = read_on(*given)
        desk.now += timedelta(seconds=0 if got is None else 30)
        return got

    monkeypatch.setattr(kernel_log, "read_on", slowly)
    name_sources(kernel_log=f"{tmp_path}/%N.kern")
    look(desk, 1)
    assert 0 < NodeEvent.objects.count() < len(nodes)
    look(desk, 1)
    assert set(NodeEvent.objects.values_list("node", flat=True)) == set(nodes)


def test_one_file_for_all_nodes_names_them_in_each_line(desk: Desk, tmp_path: Path) -> None:
    train(desk)
    file = tmp_path / "kern.log"
    file.write_text("".join(f"{stamp(desk.now)} {node} kernel: {XID}\n" for node in ("n2", "stranger", "n3.site")))
    name_sources(kernel_log=str(file))
    look(desk)
    assert set(NodeEvent.objects.values_list("node", flat=True)) == {"n2", "n3"}


def test_a_kernel_line_is_the_cause_that_the_verdict_rests_on(desk: Desk, tmp_path: Path) -> None:
    train(desk)
    file = tmp_path / "kern.log"
    file.write_text(f"{stamp(desk.now)} n2 kernel: {XID}\n")
    name_sources(kernel_log=str(file))
    look(desk, 1)
    desk.say("RuntimeError: CUDA error: unspecified launch failure")
    desk.slurm.end("1", JobState.FAILED, exit_code=1)
    desk.tick_until(lambda: Incident.objects.exclude(failure_class="").exists())
    assert desk.incident.failure_class == FailureClass.GPU_HARDWARE
    assert desk.incident.diagnosis["nodes"] == ["n2"]
    assert any(XID in evidence["text"] for evidence in desk.incident.diagnosis["evidence"])


def test_a_missing_or_forbidden_kernel_log_is_said_with_a_remedy(desk: Desk, tmp_path: Path) -> None:
    train(desk)
    name_sources(kernel_log=f"{tmp_path}/none/%N.log")
    health = look(desk)
    assert "No kernel log was found" in health.trouble
    assert "kernel_log" in health.remedy
    os.mkfifo(tmp_path / "pipe.log")
    name_sources(kernel_log=f"{tmp_path}/pipe.log")
    assert "a pipe" in look(desk, 400).trouble


def test_a_huge_file_is_read_from_near_its_end_at_first(desk: Desk, tmp_path: Path) -> None:
    train(desk)
    file = tmp_path / "kern.log"
    old = f"{stamp(desk.now - timedelta(days=9))} n1 kernel: {XID}\n"
    file.write_text(old + "x" * 300_000 + f"\n{stamp(desk.now)} n2 kernel: {XID}\n")
    name_sources(kernel_log=str(file))
    look(desk)
    assert list(NodeEvent.objects.values_list("node", flat=True)) == ["n2"]


def test_a_flood_of_lines_is_bounded(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(desk)
    monkeypatch.setattr(kernel_events, "MOST_PER_NODE", 5)
    file = tmp_path / "kern.log"
    file.write_text("".join(f"{stamp(desk.now + timedelta(seconds=n))} n1 kernel: {XID}\n" for n in range(-50, 0)))
    name_sources(kernel_log=str(file))
    look(desk)
    assert NodeEvent.objects.count() == 5


def test_loki_tells_the_same_lines_and_none_comes_twice(desk: Desk, site: Site, tmp_path: Path) -> None:
    train(desk)
    Node.objects.get(name="n2")
    at = int(desk.now.timestamp()) * 1_000_000_000
    site.answer = lambda path, given: (200, streams([({"host": "n2"}, at, XID), ({"host": "n1"}, at, "nothing")]))
    name_sources(loki_url=site.url)
    for _ in range(3):
        health = look(desk)
    assert (health.trouble, NodeEvent.objects.count()) == ("", 1)
    starts = [int(given["start"]) for _, given, _ in site.asked]
    assert starts == sorted(starts)
    assert starts[-1] > starts[0]
    file = tmp_path / "kern.log"
    file.write_text(f"{stamp(datetime.fromtimestamp(at / 1e9, UTC))} n2 kernel: {XID}\n")
    name_sources(loki_url=site.url, kernel_log=str(file))
    desk.now += timedelta(seconds=61)
    for pk in measure.due(desk.now):
        measure.measure_source(pk, clock=lambda: desk.now)
    assert NodeEvent.objects.count() == 1


def test_a_loki_with_more_lines_of_one_moment_than_are_read_is_told_and_not_asked_for_ever(
    desk: Desk, site: Site
) -> None:
    train(desk)
    at = int(desk.now.timestamp()) * 1_000_000_000
    site.answer = lambda path, given: (200, streams([({"host": "n2"}, at, f"line {n}") for n in range(1000)]))
    name_sources(loki_url=site.url)
    health = look(desk)
    for _ in range(3):
        health = look(desk, 1.5)
    assert "are lost" in health.trouble
    assert "loki_query" in health.remedy
    asked = len(site.asked)
    site.answer = lambda path, given: (200, streams([]))
    look(desk, 40)
    assert len(site.asked) == asked + 1
    assert int(site.asked[-1][1]["start"]) > at
