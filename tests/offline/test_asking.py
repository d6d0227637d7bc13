"""`--ask-provider`: the service's answers stand and are counted apart from our own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError
from pytest_django import Settings

from recovery.core.opinion import ProviderSettings
from recovery.offline.asking import MOST_IN_A_ROW
from tests.core.attempts import traceback
from tests.offline.test_commands import run
from tests.offline.test_evaluation import CASE, make_case
from tests.sources.site_server import Site, running_site

GOOD = {"class": "user_code", "restart": "after_change", "reason": "A key is missing."}


@pytest.fixture
def site(settings: Settings) -> Iterator[Site]:
    with running_site() as found:
        settings.PROVIDER = ProviderSettings(kind="http", url=found.url, timeout_s=2)
        found.answer = lambda path, given: (200, GOOD)
        yield found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.out"
    path.write_text("\n".join(traceback("KeyError: 'x'")))
    return path


def test_without_the_word_nobody_is_asked(site: Site, log: Path, settings: Settings) -> None:
    assert "Built-in rules. It was not asked" in run("diagnose", str(log))
    assert site.asked == []
    settings.PROVIDER = None
    assert json.loads(run("diagnose", str(log), "--json"))["judged_by"] == {
        "mode": "off", "label": "Built-in rules", "sentence": "", "second_opinion": None,
    }  # fmt: skip
    with pytest.raises(CommandError, match="no service is set up"):
        run("diagnose", str(log), "--ask-provider")


def test_the_answer_stands_beside_the_verdict_which_it_does_not_change(site: Site, log: Path) -> None:
    site.answer = lambda path, given: (200, {"class": "node_fault", "restart": "yes", "nodes": ["gpu-01"]})
    alone = json.loads(run("diagnose", str(log), "--json"))
    both = json.loads(run("diagnose", str(log), "--json", "--ask-provider"))
    assert {**both, "judged_by": None} == {**alone, "judged_by": None}
    assert both["judged_by"]["second_opinion"]["nodes"] == ["gpu-01"]
    assert "The service  node_fault; restart: yes; gpu-01" in run("diagnose", str(log), "--ask-provider")


def test_a_service_that_refuses_is_degraded_and_the_verdict_stands(site: Site, log: Path) -> None:
    site.answer = lambda path, given: (401, b"")
    text = run("diagnose", str(log), "--ask-provider")
    assert "user_code" in text
    assert "Degraded: built-in rules only." in text
    assert "RECOVERY_PROVIDER_TOKEN_PATH" in text


def test_evaluate_keeps_the_two_apart(site: Site, tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_case(tmp_path / name, CASE)
    alone = json.loads(run("evaluate", str(tmp_path), "--json"))
    figures = json.loads(run("evaluate", str(tmp_path), "--json", "--ask-provider"))
    assert {k: v for k, v in figures.items() if k in ("class_accuracy", "wrong")} == {
        k: v for k, v in alone.items() if k in ("class_accuracy", "wrong")
    }
    assert "provider" not in alone
    told = figures["provider"]
    assert (told["asked"], told["answered"], told["classes_named"], told["restarts_named"]) == (2, 2, 2, 2)
    text = run("evaluate", str(tmp_path), "--ask-provider")
    assert "2 cases, judged by the built-in rules" in text
    assert "answered 2 of 2 questions" in text


def test_a_service_that_is_away_is_not_asked_about_every_case(site: Site, tmp_path: Path) -> None:
    for number in range(MOST_IN_A_ROW + 2):
        make_case(tmp_path / str(number), CASE)
    site.answer = lambda path, given: (503, {"message": "overload"})
    told = json.loads(run("evaluate", str(tmp_path), "--json", "--ask-provider"))["provider"]
    assert (told["mode"], told["asked"], told["not_asked"]) == ("degraded", MOST_IN_A_ROW, 2)
    assert told["class_accuracy"] is None
    assert "overload" in told["trouble"]
