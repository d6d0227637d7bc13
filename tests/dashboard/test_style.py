"""The style sheet's promises: readable pairs, one set of tokens, nothing from elsewhere."""

from __future__ import annotations

import itertools
import re
from enum import StrEnum
from pathlib import Path

import pytest
from django.conf import settings

from dashboard import charts
from recovery.core import words
from recovery.core.detectors.alarm import AlarmKind
from recovery.core.lifecycle import INCIDENT_WORDS, IncidentState, StateWords
from recovery.core.types import (
    CheckpointState,
    DecisionKind,
    FailureClass,
    FindingKind,
    JobState,
    Mode,
    NodeState,
    Outcome,
    Phase,
    Role,
)

STATIC = Path(settings.BASE_DIR, "static")
SHEET = (STATIC / "css" / "desk.css").read_text(encoding="utf-8")
TOKENS = {
    name: {"light": light, "dark": dark}
    for name, light, dark in re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", SHEET)
}
THEMES = ("light", "dark")
TONES = ("accent", "critical", "warning", "ok", "info")
PAIRS = [
    *itertools.product(["text", "muted"], ["page", "surface", "raised"]),
    *itertools.product(TONES, ["page", "surface", "raised"]),
    *[(tone, f"{tone}-soft") for tone in TONES],
    *[("text", f"{tone}-soft") for tone in TONES],
    ("on-accent", "accent"),
    ("on-critical", "critical"),
]
TABLES = [
    (INCIDENT_WORDS, IncidentState),
    (words.JOB_WORDS, JobState),
    (words.PHASE_WORDS, Phase),
    (words.NODE_WORDS, NodeState),
    (words.CHECKPOINT_WORDS, CheckpointState),
    (words.MODE_WORDS, Mode),
    (words.OUTCOME_WORDS, Outcome),
    (words.DECISION_WORDS, DecisionKind),
    (words.ROLE_WORDS, Role),
    (words.FINDING_WORDS, FindingKind),
    (words.ALARM_WORDS, AlarmKind),
]


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("ink", "ground"), PAIRS)
def test_every_text_is_readable(ink: str, ground: str, theme: str) -> None:
    assert contrast(TOKENS[ink][theme], TOKENS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_the_edges_of_fields_can_be_seen(theme: str) -> None:
    for ground in ("page", "surface"):
        assert contrast(TOKENS["line-strong"][theme], TOKENS[ground][theme]) >= 3


@pytest.mark.parametrize("theme", THEMES)
def test_charts_use_the_colours_of_the_style_sheet(theme: str) -> None:
    for name, colour in charts.PALETTE[theme].items():
        assert TOKENS[name][theme] == colour, name


@pytest.mark.parametrize(("table", "values"), TABLES)
def test_every_state_has_a_word_an_icon_a_colour_and_a_sentence(
    table: dict[StrEnum, StateWords], values: type[StrEnum]
) -> None:
    assert set(table) == set(values)
    for row in table.values():
        assert row.label, row
        assert len(row.icon) == 1, row
        assert row.tone in (*TONES, "muted"), row
        assert row.sentence.endswith("."), row


def test_every_failure_class_has_a_word() -> None:
    assert set(words.FAILURE_LABELS) == set(FailureClass)


def test_every_colour_is_a_token() -> None:
    body = SHEET.split("--sans:", 1)[1]
    assert not re.search(r"#[0-9a-f]{3,6}\b", body)


def test_no_script_or_style_sheet_of_others_is_in_the_repository() -> None:
    for path in STATIC.rglob("*"):
        if path.suffix in (".js", ".css"):
            text = path.read_text(encoding="utf-8")
            assert "http" not in text.replace("https:", ""), path
            assert "sourceMappingURL" not in text, path
            assert path.stat().st_size < 40_000, path


@pytest.mark.parametrize("path", sorted((STATIC / "js").glob("*.js")), ids=lambda path: path.name)
def test_no_script_needs_what_the_policy_forbids(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert '"use strict"' in text
    assert not re.search(
        r"\beval\(|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\.style\.", text
    )
