"""The commands of the page give what the page shows."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from django.core.management import call_command

from recovery.core.diagnose.catalogue import match, set_site_rules
from recovery.evaluation import read_case
from tests.docs import pages

BLOCKS = pages.blocks(pages.read("docs/diagnose.md"))
COMMANDS = [shlex.split(block.text)[2:] for block in BLOCKS if block.language == "sh"]


def run(command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(pages.TOP)
    call_command(*command)
    return capsys.readouterr().out


def test_the_verdict_for_people_begins_as_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = next(block.text for block in BLOCKS if block.language == "text")
    assert run(COMMANDS[0], capsys, monkeypatch).startswith(shown)


def test_the_verdict_for_programs_holds_what_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = json.loads(next(block.text for block in BLOCKS if block.language == "json"))
    given = json.loads(run(COMMANDS[1], capsys, monkeypatch))
    assert {name: given[name] for name in shown} == shown
    assert set(given) - set(shown) == {"evidence", "reason", "coverage", "judged_by"}


def test_the_corpus_can_be_scored(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cases" in run(COMMANDS[2], capsys, monkeypatch)


def test_the_case_that_is_shown_can_be_read(tmp_path: Path) -> None:
    shown = next(block.text for block in BLOCKS if block.language == "toml" and "[expect]" in block.text)
    (tmp_path / "case.toml").write_text(shown)
    case = read_case(tmp_path, name="shown")
    assert case.expected.nodes == {"gpu-02"}
    assert case.job.nodes[1] == "gpu-02"


def test_the_rule_that_is_shown_is_taken_in() -> None:
    shown = next(block.text for block in BLOCKS if block.language == "toml" and "[[rule]]" in block.text)
    try:
        set_site_rules(shown)
        (rule, found) = match("site-check: gpu-02: GPU 3 failed")[0]
        assert (rule.id, found["node"]) == ("site.health_check", "gpu-02")
    finally:
        set_site_rules("")
