"""The benchmarks run, on little, and tell what they measured."""

from __future__ import annotations

import pytest

from benchmarks import __main__ as command
from benchmarks import parsing, storing
from benchmarks.timing import timed
from recovery.models import Job, Sample


@pytest.fixture(autouse=True)
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "STEPS", 50)
    monkeypatch.setattr(storing, "JOBS", 4)


def test_parsing_is_measured_against_iterating() -> None:
    figures = parsing.run()
    assert figures["lines"] == 4 * 50
    assert all(value >= 0 for value in figures.values())


@pytest.mark.django_db
def test_ingest_stores_every_step_of_the_log() -> None:
    figures = storing.ingest()
    assert figures["samples"] == Sample.objects.count() == 50


@pytest.mark.django_db
def test_poll_stores_every_job() -> None:
    assert storing.poll()["jobs"] == Job.objects.count() == 4


def test_the_middle_round_counts() -> None:
    assert timed(lambda: None, rounds=3).seconds < 0.1


def test_an_unknown_benchmark_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["speed"]) == 2
    assert "parsing, ingest, poll" in capsys.readouterr().err
