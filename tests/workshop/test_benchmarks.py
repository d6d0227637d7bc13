"""The benchmarks run, on little, and tell what they measured."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import ledger, parsing, polling, replay, storing
from benchmarks.timing import timed
from recovery.models import Incident, Job, Sample
from recovery.pipeline.report import report
from recovery.selectors.ledger_reads import Window
from recovery.slurm import cli_squeue


@pytest.fixture(autouse=True)
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"STEPS": 50, "LINES": 300, "BACKLOG": 1}.items():
        monkeypatch.setattr(parsing, name, value)
    monkeypatch.setattr(polling, "SIZES", (20, 40))
    monkeypatch.setattr(replay, "SIZES", (5, 10))
    for name, value in {"RUNS": 3, "NODES": 20}.items():
        monkeypatch.setattr(replay, name, value)
    for name, value in {"RUNS": 5, "KEPT": 2, "ATTEMPTS": 2, "SAMPLES": 90}.items():
        monkeypatch.setattr(ledger, name, value)


def test_parsing_is_measured_against_iterating() -> None:
    figures = parsing.run()
    assert figures["common"]["lines"] == 300
    assert set(figures) == {*parsing.SHARES, "progress_only", "backlog"}
    assert all(value >= 0 for measured in figures.values() for value in measured.values())


@pytest.mark.django_db
def test_ingest_stores_every_step_of_the_log() -> None:
    figures = storing.ingest()
    assert figures["samples"] == Sample.objects.count() == 50


@pytest.mark.django_db
def test_a_bigger_picture_takes_no_more_queries() -> None:
    figures = polling.run()
    assert isinstance(figures["jobs"], dict)
    small, big = figures["jobs"]["20"], figures["jobs"]["40"]
    assert small["unchanged_queries"] == big["unchanged_queries"]
    assert small["one_percent_changed_queries"] == big["one_percent_changed_queries"]


@pytest.mark.django_db
def test_every_job_of_a_recorded_picture_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_squeue, "new_separator", lambda: polling.SEPARATOR)
    desk = polling.Recorded(tmp_path, 6)
    desk.poll()
    desk.change_one_percent()
    desk.poll()
    states = Job.objects.order_by("job_id").values_list("state", flat=True)
    assert list(states) == ["failed", "pending", "running", "pending", "running", "pending"]


@pytest.mark.django_db
def test_a_report_is_measured_over_runs_that_were_kept_and_their_copies() -> None:
    figures = ledger.measure()
    assert (figures["runs"], figures["attempts"], figures["interruptions"]) == (7, 20, 13)
    lines = report(
        Window(start=ledger.NOW - timedelta(days=90), end=ledger.NOW, only={}), by="run", now=ledger.NOW
    ).lines
    assert len(lines) == 7
    assert all(line.summary.totals.wall_us for line in lines)


@pytest.mark.django_db
def test_a_draft_is_measured_on_every_incident_that_was_made() -> None:
    figures = replay.run()
    assert [figures[size]["incidents"] for size in ("5", "10")] == [5, 10] == [5, Incident.objects.count()]
    assert all(0 <= figures[size]["automatic"] <= int(size) for size in figures)


def test_the_middle_round_counts() -> None:
    assert timed(lambda: None, rounds=3).seconds < 0.1


def test_an_unknown_benchmark_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["speed"]) == 2
    assert "parsing, ingest, samples, poll" in capsys.readouterr().err
