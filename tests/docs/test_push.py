"""docs/push.md: its examples run, its tables are those of the code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from recovery.api.ingest import LARGEST_BATCH, STATUS
from recovery.client import recovery_desk_client as client
from recovery.core import pushed
from recovery.pipeline import push
from tests.docs import pages

TEXT = pages.read("docs/push.md")
PYTHON = [block.text for block in pages.blocks(TEXT) if block.language == "python"]
SHELL = [block.text for block in pages.blocks(TEXT) if block.language == "sh"]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "recovery_desk_client", client)
    for name in ("RECOVERY_DESK_URL", "RECOVERY_DESK_TOKEN", "RECOVERY_DESK_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("text", PYTHON)
def test_an_example_runs(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lightning = ModuleType("lightning.pytorch")
    lightning.Callback = type("Callback", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lightning.pytorch", lightning)
    given: list[Any] = []
    names = {
        "trainer": SimpleNamespace(add_callback=given.append),
        "Trainer": lambda callbacks: given.extend(callbacks),
    }
    exec(compile(text, "docs/push.md", "exec"), names)  # noqa: S102 - our own page
    assert bool(given) == ("trainer" in text.lower())


def test_the_batch_script_is_one() -> None:
    [script] = [text for text in SHELL if text.startswith("#!/bin/bash")]
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert set(re.findall(r"RECOVERY_\w+", script)) <= set(re.findall(r"RECOVERY_\w+", str(client.__doc__)))


def test_the_example_of_the_interface_is_taken_whole() -> None:
    [example] = [json.loads(block.text) for block in pages.blocks(TEXT) if block.language == "json"]
    rows = [pushed.read_row(row, index=0, received_at=timezone.now()) for row in example["rows"]]
    assert all(isinstance(row, dict) for row in rows), rows


def test_tables_and_limits_are_those_of_the_code() -> None:
    environment, fields, answers = pages.tables(TEXT)
    named = {name for row in environment for name in re.findall(r"RECOVERY_\w+", row["variable"])}
    assert named == set(re.findall(r"RECOVERY_\w+", str(client.__doc__)))
    assert {name for row in fields for name in re.findall(r"`(\w+)`", row["field of a row"])} == set(pushed.FIELDS)
    kinds = next(row["meaning"] for row in fields if row["field of a row"] == "`kind`")
    assert set(re.findall(r"`(\w+)`", kinds)) == set(pushed.KINDS)
    told = {int(number) for row in answers for number in re.findall(r"\b\d{3}\b", row["answer"])}
    assert {status.value for status in STATUS.values()} | {200, 400, 401, 413, 503} == told
    for limit in (push.MOST_ROWS, LARGEST_BATCH // 1024, push.MOST_UNREAD_OF_ATTEMPT, push.MOST_UNREAD):
        assert str(limit) in TEXT
    assert f"{client.QUEUE_ROWS:,} rows" in TEXT
