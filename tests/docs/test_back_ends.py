"""The guides on back ends and privileges say what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.slurm import rest_versions
from recovery.slurm.base import Operation
from recovery.slurm.cli import CliClient
from recovery.slurm.native import NativeClient
from recovery.slurm.registry import OPTIONS, client_for
from tests.docs.pages import read, tables
from tests.slurm.test_privileges import ALLOWED

CHOICE, OF_OPTIONS, CALLS, ACCOUNTING = range(4)
PAGE = tables(read("docs/back-ends.md"))


def word(cell: str) -> str:
    return cell.strip("`")


def column(back_end: str) -> dict[Operation, str]:
    return {Operation(word(row["call"])): row[f"`{back_end}`"] for row in PAGE[CALLS]}


def test_every_call_stands_in_the_table() -> None:
    assert [word(row["call"]) for row in PAGE[CALLS]] == [operation.value for operation in Operation]


def test_the_commands_can_what_the_table_says() -> None:
    client = CliClient()
    assert column("cli") == {operation: "yes" if client.can(operation) else "no" for operation in Operation}


def test_the_simulator_can_what_the_table_says(tmp_path: Path) -> None:
    client = client_for("simulator", {"state_dir": str(tmp_path)}, timeout_s=5)
    assert column("simulator") == {operation: "yes" if client.can(operation) else "no" for operation in Operation}


def test_slurmrestd_can_what_the_table_says() -> None:
    first = {operation: rest_versions.since(operation) for operation in Operation}
    assert column("rest") == {operation: f"from {step.release}" if step else "no" for operation, step in first.items()}


def test_pyslurm_needs_the_commands_that_the_table_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NativeClient, "_has", lambda self, program: False)
    client = NativeClient()
    for operation, said in column("native").items():
        can = client.can(operation)
        assert bool(can) is (said == "yes"), operation
        assert can or said.removeprefix("with ") in can.remedy


def test_every_option_stands_in_the_table_and_no_other() -> None:
    shown = {(word(row["back end"]), word(row["option"])) for row in PAGE[OF_OPTIONS]}
    known = {(name, option) for name, options in OPTIONS.items() for option in options}
    assert {pair for pair in shown if pair[0] in OPTIONS} == known


def test_each_back_end_that_is_recommended_is_one() -> None:
    named = {word(row["back end"]) for row in PAGE[CHOICE]}
    assert named >= set(OPTIONS)


def test_what_each_level_may_do_is_what_was_tried() -> None:
    rows = tables(read("docs/privileges.md"))[0]
    for who, allowed in ALLOWED.items():
        assert {Operation(word(row["call"])) for row in rows if row[who] == "yes"} == allowed, who
        assert {row[who] for row in rows} <= {"yes", "no"}
