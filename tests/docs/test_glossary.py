"""The glossary is held to the code: names exist, lists are whole."""

from __future__ import annotations

import importlib
from enum import StrEnum
from functools import reduce
from typing import Any

import pytest
from django.db import models

from recovery.core import lifecycle, types
from recovery.core.detectors import alarm
from recovery.core.types import FailureClass
from tests.docs import pages

WORDS, VALUES, CLASSES = pages.tables(pages.read("docs/glossary.md"))


def find(dotted: str) -> Any:
    """The object of a dotted name: the longest part that is a module, then attributes."""
    parts = dotted.strip("`").split(".")
    for length in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[length:], module)
    raise ModuleNotFoundError(dotted)


@pytest.mark.parametrize("row", WORDS, ids=lambda row: row["word"])
def test_a_word_lives_where_the_page_says(row: dict[str, str]) -> None:
    assert find(row["in the code"]) is not None


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row["list"])
def test_a_list_of_values_is_whole_and_in_order(row: dict[str, str]) -> None:
    assert row["values"].split(", ") == [member.value for member in find(row["in the code"])]


def test_no_list_of_values_is_missing() -> None:
    public = (types, lifecycle, alarm)
    enums = {value for module in public for value in vars(module).values() if _is_enum(value)}
    internal = {types.JobState, types.NodeState, FailureClass, StrEnum}  # the first two in docs/architecture.md's terms
    assert enums - internal == {find(row["in the code"]) for row in VALUES}


def test_every_failure_class_is_explained_in_order() -> None:
    assert [row["class"] for row in CLASSES] == [member.value for member in FailureClass]


def test_every_table_that_a_person_meets_has_a_word() -> None:
    named = {find(row["in the code"]) for row in WORDS if ".models." in row["in the code"]}
    tables = {value for value in vars(importlib.import_module("recovery.models")).values() if _is_table(value)}
    storage = {
        "ApiToken",
        "Identity",
        "LogInTries",
        "LogFile",
        "RunLedger",
        "LedgerDay",
        "AttemptTrace",
        "IncidentCost",
        "RollupDue",
        "TenMinuteRollup",
        "AuditChain",
        "Upkeep",
        "Membership",
        "Node",
        "KernelLog",
        "PushSender",
        "Finding",
    }  # a detail, Slurm's own word, or one of the core's
    assert {table.__name__ for table in tables - named} == storage


def _is_enum(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, StrEnum)


def _is_table(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, models.Model)
