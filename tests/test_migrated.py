"""One session migrates, the others copy what it made; another migration makes another."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.migrated import DECIDING, Migrated, name_of


def connection_to(tables: str) -> Any:
    """As much of a connection as `VACUUM INTO` needs."""
    cursor = SimpleNamespace(execute=lambda statement, paths: Path(paths[0]).write_text(tables))
    return SimpleNamespace(cursor=lambda: nullcontext(cursor))


def test_the_first_session_migrates_and_the_next_takes_a_copy(tmp_path: Path) -> None:
    first, second = Migrated(tmp_path / "kept"), Migrated(tmp_path / "kept")
    first.copy_to(tmp_path / "first")
    assert not (tmp_path / "first").exists()
    first.keep(connection_to("tables"))
    second.copy_to(tmp_path / "second")
    second.keep(connection_to("what its tests did"))
    assert (tmp_path / "second").read_text() == second.path.read_text() == "tables"


def test_what_was_made_before_a_migration_changed_is_not_taken(tmp_path: Path) -> None:
    migrations = tmp_path / "recovery" / "migrations"
    migrations.mkdir(parents=True)
    for place in DECIDING:
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).touch() if place.endswith(".py") else (tmp_path / place).mkdir(exist_ok=True)
    (migrations / "0001_first.py").write_text("one = 1")
    before = name_of(tmp_path)
    assert name_of(tmp_path) == before
    (migrations / "0001_first.py").write_text("one = 2")
    assert name_of(tmp_path) != before
