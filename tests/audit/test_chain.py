"""Whatever is done to sealed events is found, and the first bad row named."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from recovery.core.chain import GENESIS, START, Link, follow, link
from recovery.models import AuditChain, Event, Seal
from recovery.pipeline import audit_chain
from tests.audit.conftest import delete_with_seals
from tests.factories import make_event

NOW = timezone.now()


@pytest.fixture
def ids(db: None) -> list[int]:
    """Twelve sealed events."""
    made = [make_event(reason=f"the {n}th").pk for n in range(12)]
    audit_chain.seal(now=NOW)
    return made


def verify() -> audit_chain.Verdict:
    return audit_chain.verify(now=NOW)


def test_an_untouched_trail_is_whole(ids: list[int]) -> None:
    verdict = verify()
    assert (verdict.whole, verdict.broken, verdict.here.id, verdict.here.number) == (True, None, ids[-1], 12)
    chain = audit_chain.the_chain()
    assert (chain.verified_id, chain.verified_at, chain.bad_id) == (ids[-1], NOW, None)


CHANGES: dict[str, Any] = {
    "at": NOW - timedelta(days=1), "actor_kind": "token", "actor_name": "mallory", "request_id": "0", "origin": "::1",
    "subject_kind": "cluster", "subject_id": "999", "incident_id": 999, "verb": "incident.closed", "old": "x",
    "new": "y", "reason": "another", "data": json.dumps({"window": 3}),
}  # fmt: skip


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_of_any_field_is_found(ids: list[int], tamper: Callable[..., None], field: str) -> None:
    tamper(f"UPDATE recovery_event SET {field} = %s WHERE id = %s", CHANGES[field], ids[4])  # noqa: S608 - our own names
    broken = verify().broken
    assert broken is not None
    assert broken.id == ids[4]
    assert "changed" in broken.reason


def test_each_field_of_an_event_is_covered() -> None:
    columns = {field.attname for field in Event._meta.concrete_fields}
    assert columns == {*CHANGES, "id"}


@pytest.mark.parametrize(
    ("statement", "first_bad", "says"),
    [
        ("DELETE FROM recovery_event WHERE id = {4}", 4, "deleted"),
        ("DELETE FROM recovery_seal WHERE id = {4}", 4, "put in later"),
        ("UPDATE recovery_seal SET digest = '" + "0" * 64 + "' WHERE id = {4}", 4, "changed"),
        ("UPDATE recovery_seal SET number = number + 1 WHERE id = {4}", 4, "1 event between"),
        ("DELETE FROM recovery_event WHERE id = {11}", 11, "deleted"),
        ("DELETE FROM recovery_event", 0, "deleted"),
        ("DELETE FROM recovery_seal", 0, "put in later"),
    ],
)
def test_deletions_and_changed_seals_are_found(
    ids: list[int], tamper: Callable[..., None], statement: str, first_bad: int, says: str
) -> None:
    tamper(statement.format(*ids))
    broken = verify().broken
    assert broken is not None
    assert broken.id == ids[first_bad]
    assert says in broken.reason


def test_an_event_that_went_with_its_seal_is_found_at_the_next_one(ids: list[int]) -> None:
    delete_with_seals("id IN (%s, %s)", ids[4], ids[5])
    broken = verify().broken
    assert broken is not None
    assert broken.id == ids[6]
    assert f"2 events between {ids[3]} and this one" in broken.reason


def test_the_newest_events_that_went_with_their_seals_are_found(ids: list[int]) -> None:
    delete_with_seals("id > %s", ids[8])
    broken = verify().broken
    assert broken is not None
    assert broken.id == ids[11]
    assert f"newest 3 sealed events, after {ids[8]}" in broken.reason


def test_all_events_that_went_with_all_seals_are_found(ids: list[int]) -> None:
    delete_with_seals("true")
    assert verify().broken is not None


def test_a_chain_that_was_set_back_is_found(ids: list[int]) -> None:
    AuditChain.objects.update(sealed_id=0, sealed_number=0, sealed_digest=GENESIS)
    with pytest.raises(IntegrityError), transaction.atomic():
        verify()  # what is sealed can't be sealed another time
    seal = Seal.objects.get(pk=ids[8])
    AuditChain.objects.update(sealed_id=seal.pk, sealed_number=seal.number, sealed_digest=seal.digest)
    with transaction.atomic():
        verdict = audit_chain._follow(START, go_on=lambda: True)
    assert verdict.broken is not None
    assert verdict.broken.id == ids[9]


def test_two_events_in_each_others_place_are_found(ids: list[int], tamper: Callable[..., None]) -> None:
    tamper("UPDATE recovery_event SET id = -1 WHERE id = %s", ids[4])
    tamper("UPDATE recovery_event SET id = %s WHERE id = %s", ids[4], ids[7])
    tamper("UPDATE recovery_event SET id = %s WHERE id = -1", ids[7])
    broken = verify().broken
    assert broken is not None
    assert broken.id == ids[4]


def test_an_event_that_is_put_between_sealed_ones_is_found(db: None) -> None:
    make_event()
    last = make_event(pk=make_event().pk + 10)
    audit_chain.seal(now=NOW)
    forged = make_event(pk=last.pk - 5)
    broken = verify().broken
    assert broken is not None
    assert broken.id == forged.pk
    assert "put in later" in broken.reason


def test_a_chain_computed_anew_is_only_found_by_an_anchor(ids: list[int], tamper: Callable[..., None]) -> None:
    kept = f"{ids[9]}:{Seal.objects.get(pk=ids[9]).digest}"
    verify_command("--anchor", kept)
    tamper("UPDATE recovery_event SET reason = 'nothing happened' WHERE id = %s", ids[4])
    tamper("DELETE FROM recovery_seal")
    AuditChain.objects.update(sealed_id=0, sealed_number=0, sealed_digest=GENESIS)
    assert verify().broken is None
    with pytest.raises(SystemExit):
        verify_command("--anchor", kept)


def verify_command(*arguments: str) -> str:
    out = StringIO()
    call_command("verify_audit", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_names_the_first_bad_row_and_fails(ids: list[int], tamper: Callable[..., None]) -> None:
    assert f"whole up to event {ids[-1]}" in verify_command()
    tamper("UPDATE recovery_event SET actor_name = 'mallory' WHERE id = %s", ids[2])
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("verify_audit", "--json", stdout=out)
    assert ended.value.code == 1
    found = json.loads(out.getvalue())
    assert (found["whole"], found["first_bad"]["id"], found["verified_up_to"]) == (False, ids[2], ids[1])


# --- the sealer and the round that upkeep drives ---------------------------------------------------------------------


def test_events_are_sealed_and_verified_by_the_tick(db: None) -> None:
    events = [make_event() for _ in range(3)]
    (pk,) = audit_chain.due(NOW)
    audit_chain.keep(pk, clock=lambda: NOW)
    chain = AuditChain.objects.get()
    assert (chain.sealed_id, chain.verified_id, chain.error) == (events[-1].pk, events[-1].pk, "")
    assert audit_chain.due(NOW) == []
    assert audit_chain.due(NOW + audit_chain.EVERY) == [pk]


def test_a_break_is_an_event_and_stays_shown_until_it_is_mended(ids: list[int], tamper: Callable[..., None]) -> None:
    verify()
    tamper("UPDATE recovery_event SET reason = 'another' WHERE id = %s", ids[4])
    verify()
    verify()
    alarm = Event.objects.get(verb="audit.broken")
    assert (alarm.subject_id, AuditChain.objects.get().bad_id) == (str(ids[4]), ids[4])
    tamper("UPDATE recovery_event SET reason = 'the 4th' WHERE id = %s", ids[4])
    assert verify().whole
    assert AuditChain.objects.get().bad_id is None
    assert Event.objects.filter(verb="audit.whole_again").count() == 1


def test_newest_rows_that_are_cut_off_are_missed_at_the_next_pass(ids: list[int]) -> None:
    verify()
    delete_with_seals("id > %s", ids[8])
    (pk,) = audit_chain.due(NOW)
    audit_chain.keep(pk, clock=lambda: NOW)
    assert AuditChain.objects.get().bad_id is not None


def test_a_long_chain_is_verified_over_several_passes(ids: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_chain, "BATCH", 5)
    passes = 0
    while AuditChain.objects.filter(verified_id=ids[-1]).count() == 0:
        audit_chain._go_on_verifying(now=NOW + timedelta(seconds=passes), go_on=lambda: False)
        passes += 1
        assert passes < 10
    assert passes == 3
    assert AuditChain.objects.get().verified_at == NOW  # when the round began


def test_a_change_behind_the_round_under_way_is_found_by_the_next(
    ids: list[int], monkeypatch: pytest.MonkeyPatch, tamper: Callable[..., None]
) -> None:
    monkeypatch.setattr(audit_chain, "BATCH", 5)
    audit_chain._go_on_verifying(now=NOW, go_on=lambda: False)
    tamper("UPDATE recovery_event SET reason = 'another' WHERE id = %s", ids[1])
    audit_chain._go_on_verifying(now=NOW, go_on=lambda: True)
    assert AuditChain.objects.get().bad_id is None
    later = NOW + audit_chain.ROUND_EVERY
    audit_chain._go_on_verifying(now=later, go_on=lambda: True)
    assert AuditChain.objects.get().bad_id == ids[1]


@pytest.mark.parametrize("statement", ["UPDATE {} SET number = 3", "DELETE FROM {}"])
def test_seals_are_append_only_too(ids: list[int], statement: str) -> None:
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format("recovery_seal"))


# --- the rule alone --------------------------------------------------------------------------------------------------


def test_a_digest_is_what_it_always_was() -> None:
    """Sites have sealed events with it: another digest would call all of them changed."""
    row = {
        "id": 7, "at": "2026-01-11T09:20:41.000000+00:00", "actor_kind": "user", "actor_name": "élise",
        "request_id": "", "origin": "", "subject_kind": "incident", "subject_id": "3", "incident_id": 3,
        "verb": "incident.closed", "old": "watching", "new": "closed", "reason": "", "data": {"b": 1, "a": [0.5, None]},
    }  # fmt: skip
    assert link(GENESIS, 1, row) == "dbdb3f6105db4c5779ec624436e8be69bcf030b7cea90947ce5edaae2a264279"


def test_the_rule_needs_no_database() -> None:
    rows: list[dict[str, Any]] = [dict.fromkeys(("id", *CHANGES), "") | {"id": n, "data": {}} for n in (3, 5, 9)]
    seals, digest = [], GENESIS
    for number, row in enumerate(rows, start=1):
        digest = link(digest, number, row)
        seals.append(Link(row["id"], number, digest))
    assert follow(START, rows, seals) == (seals[-1], None)
    assert follow(START, rows[:2], seals[:2])[0] == seals[1]
