"""Exports and archives carry the chain with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from recovery.access import SYSTEM
from recovery.models import Event, Seal
from recovery.pipeline import audit_chain, audit_export
from tests.audit.conftest import delete_with_seals
from tests.factories import make_event, make_incident

NOW = timezone.now()


@pytest.fixture
def ids(db: None) -> list[int]:
    """Eight sealed events, the oldest of eight days ago."""
    made = [make_event(at=NOW - timedelta(days=8 - n), reason=f"the {n}th").pk for n in range(8)]
    audit_chain.seal(now=NOW)
    return made


def run(name: str, *arguments: object) -> str:
    out = StringIO()
    call_command(name, *map(str, arguments), stdout=out)
    return out.getvalue()


def test_an_export_is_verified_without_a_database(ids: list[int], tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    run("export_audit", "--output", path)
    first, *events, last = [json.loads(line) for line in path.read_text().splitlines()]
    assert first["continues"]["number"] == 0
    assert [each["event"]["id"] for each in events] == ids
    assert last["events"] == 8
    assert f"whole up to event {ids[-1]}" in run("verify_audit", "--file", path, "--anchor", last["anchor"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda lines: [line.replace("the 3th", "another") for line in lines], "broken at event"),
        (lambda lines: lines[:3] + lines[4:], "1 event between"),
        (lambda lines: lines[:-2] + lines[-1:], "at the end of the file"),
        (lambda lines: lines[:2] + lines[3:5] + lines[2:3] + lines[5:], "broken at event"),
    ],
)
def test_what_was_changed_in_a_file_is_found(
    ids: list[int], tmp_path: Path, change: Callable[[list[str]], list[str]], says: str
) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("".join(change(list(audit_export.lines()))))
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("verify_audit", "--file", str(path), stdout=out)
    assert says in out.getvalue()


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "first line"), ("nonsense\n", "Line 1 is no JSON"), ("[1]\n", "Line 1 is none of an export")],
)
def test_what_is_no_export_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text(text)
    with pytest.raises(CommandError, match=says):
        run("verify_audit", "--file", path)


def test_a_file_that_was_cut_is_no_whole_export(ids: list[int], tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("".join(list(audit_export.lines())[:-1]))
    with pytest.raises(CommandError, match="cut"):
        run("verify_audit", "--file", path)


def test_a_broken_chain_is_not_exported_as_a_whole_one(ids: list[int], tamper: Callable[..., None]) -> None:
    tamper("DELETE FROM recovery_event WHERE id = %s", ids[4])
    with pytest.raises(audit_export.Unfit, match=str(ids[4])):
        list(audit_export.lines())


def archive(path: Path, *, days: float) -> dict[str, object]:
    return audit_export.archive(path, before=NOW - timedelta(days=days), actor=SYSTEM, now=NOW)


def test_an_archive_moves_old_events_and_the_chain_goes_on(ids: list[int], tmp_path: Path) -> None:
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    said = archive(first, days=5.5)
    assert (said["events"], said["through"]) == (3, ids[2])
    assert list(Event.objects.filter(pk__in=ids).values_list("pk", flat=True)) == ids[3:]
    assert Event.objects.get(verb="audit.archived").data == said
    assert audit_chain.verify(now=NOW).broken is None
    archive(second, days=3.5)
    assert audit_chain.verify(now=NOW).broken is None
    run("verify_audit", "--file", first, "--file", second)
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("verify_audit", "--file", str(second), "--file", str(first), stdout=out)
    assert "does not continue" in out.getvalue()
    with pytest.raises(CommandError, match="was archived"):
        run("verify_audit", "--anchor", f"{ids[0]}:{'0' * 64}")


def test_the_triggers_are_back_after_an_archive(ids: list[int], tmp_path: Path) -> None:
    archive(tmp_path / "1.jsonl", days=5.5)
    for table in ("recovery_event", "recovery_seal"):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(" ".join(("DELETE FROM", table)))


def test_rows_that_go_after_an_archive_are_still_missed(ids: list[int], tmp_path: Path) -> None:
    archive(tmp_path / "1.jsonl", days=5.5)
    delete_with_seals("id <= %s", ids[3])
    broken = audit_chain.verify(now=NOW).broken
    assert broken is not None
    assert broken.id == ids[4]


def test_a_beginning_that_no_archive_made_is_found(ids: list[int]) -> None:
    seal = Seal.objects.get(pk=ids[3])
    delete_with_seals("id <= %s", ids[3])
    chain = audit_chain.the_chain()
    chain.base_id, chain.base_number, chain.base_digest = seal.pk, seal.number, seal.digest
    chain.save()
    broken = audit_chain.verify(now=NOW).broken
    assert broken is not None
    assert "no event says that it was archived" in broken.reason


def test_events_since_the_oldest_open_case_stay(ids: list[int], tmp_path: Path) -> None:
    make_incident(detected_at=NOW - timedelta(days=30))
    with pytest.raises(audit_export.Unfit, match="is open since then"):
        archive(tmp_path / "1.jsonl", days=2)
    assert not (tmp_path / "1.jsonl").exists()


def test_a_file_that_exists_is_never_written_over(ids: list[int], tmp_path: Path) -> None:
    path = tmp_path / "1.jsonl"
    path.write_text("precious")
    with pytest.raises(audit_export.Unfit, match="there already"):
        archive(path, days=2)
    with pytest.raises(CommandError, match="there already"):
        run("export_audit", "--output", path)
    assert path.read_text() == "precious"
    assert Event.objects.filter(pk__in=ids).count() == 8


def test_what_is_young_is_not_archived(db: None, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="at least 30"):
        run("archive_audit", tmp_path / "1.jsonl", "--days", 3)
