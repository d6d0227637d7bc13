"""The audit trail as a file of JSON lines that carries its chain, and the archive that moves old events into one.

The first line says what the file continues, then comes one line for each event with its seal, the last is the anchor:

    {"continues": {"id": 0, "number": 0, "digest": "000…"}}
    {"event": {"id": 1, "at": "…", …}, "number": 1, "digest": "…"}
    {"anchor": "1:…", "events": 1}
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from importlib import import_module
from itertools import chain as joined
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from recovery import audit
from recovery.access import Actor
from recovery.core.chain import FIELDS, Break, Link, follow, plain
from recovery.core.lifecycle import IncidentState
from recovery.models import AuditChain, Event, Incident, Seal
from recovery.pipeline import audit_chain

BATCH = 1000
GUARDED = ("recovery_event", "recovery_seal")


class Unfit(Exception):
    """What can't be exported, read or archived; the message says why, and what to do."""


# --- export ----------------------------------------------------------------------------------------------------------


def lines(*, after: int = 0, through: int | None = None, limit: int | None = None) -> Iterator[str]:
    """The sealed events with a greater id than `after`, up to `through`, at most `limit`, each line with its end.

    Raises Unfit where an event or its seal is missing: half a chain must not look like a whole one.
    """
    chain = audit_chain.the_chain()
    here = _link_at(after, chain)
    last = min(chain.sealed_id, through if through is not None else chain.sealed_id)
    if limit is not None:
        beyond = Seal.objects.filter(pk__gt=here.id, pk__lte=last).order_by("pk").values_list("pk", flat=True)[limit:]
        last = min(last, beyond[0] - 1) if beyond[:1] else last
    yield _line({"continues": {"id": here.id, "number": here.number, "digest": here.digest}})
    count = 0
    while batch := list(Seal.objects.filter(pk__gt=here.id, pk__lte=last).order_by("pk")[:BATCH]):
        events = Event.objects.filter(pk__gt=here.id, pk__lte=batch[-1].pk).order_by("pk").values(*FIELDS)
        rows = list(events[: BATCH + 1])
        here, broken = follow(here, rows, [Link(seal.pk, seal.number, seal.digest) for seal in batch])
        if broken:
            raise Unfit(f"The chain is broken at event {broken.id}. {broken.reason}")
        for row, seal in zip(rows, batch, strict=True):
            yield _line({"event": plain(row), "number": seal.number, "digest": seal.digest})
        count += len(batch)
    yield _line({"anchor": f"{here.id}:{here.digest}", "events": count})


def _link_at(event_id: int, chain: AuditChain) -> Link:
    """The link that what comes after this id continues."""
    seal = Seal.objects.filter(pk__lte=event_id, pk__gt=chain.base_id).order_by("-pk").first()
    return Link(seal.pk, seal.number, seal.digest) if seal else audit_chain.base_of(chain)


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True) + "\n"


# --- reading one back ------------------------------------------------------------------------------------------------


def verify_lines(text: Iterable[str]) -> tuple[Link, Link, Break | None]:
    """What a file continues, where it ends, and the first bad row. Raises Unfit for what is no whole export."""
    parsed = _parsed(text)
    first = next(parsed, {})
    if "continues" not in first:
        raise Unfit("Its first line doesn't say what it continues: this is no export of the audit trail.")
    start = here = Link(**first["continues"])
    for value in parsed:
        if "anchor" in value:
            if value["anchor"] != f"{here.id}:{here.digest}" or value["events"] != here.number - start.number:
                return start, here, Break(here.id, "Rows at the end of the file are missing.")
            return start, here, None
        event, seal = value["event"], Link(value["event"]["id"], value["number"], value["digest"])
        here, broken = follow(here, [event], [seal])
        if broken:
            return start, here, broken
    raise Unfit("Its last line, the anchor, is missing: the file was cut.")


def _parsed(text: Iterable[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text, start=1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise Unfit(f"Line {number} is no JSON: {error}.") from error
        if not isinstance(value, dict) or not {"continues", "event", "anchor"} & value.keys():
            raise Unfit(f"Line {number} is none of an export of the audit trail.")
        yield value


# --- archive ---------------------------------------------------------------------------------------------------------


def archive(path: Path, *, before: datetime, actor: Actor, now: datetime) -> dict[str, Any]:
    """Move sealed events from before that moment into a new file; what the event that records it says. Raises Unfit.

    1. The file is written, synced and read back, and only then is anything removed.
    2. The removal, the new beginning of the chain and the event that names the file are one transaction.
    """
    audit_chain.seal(now=now)
    chain = audit_chain.the_chain()
    through = _through(chain, before)
    sha256 = _write(path, joined(lines(after=chain.base_id, through=through)))
    with path.open(encoding="utf-8") as file:
        start, end, broken = verify_lines(file)
    if broken or start != audit_chain.base_of(chain) or end.id != through:
        path.unlink()
        raise Unfit(f"{path} could not be read back as it was written: nothing was removed.")
    said: dict[str, Any] = {
        "through": end.id, "number": end.number, "digest": end.digest, "events": end.number - start.number,
        "file": str(path), "sha256": sha256,
    }  # fmt: skip
    with transaction.atomic():
        chain = audit_chain.the_chain(locked=True)
        if audit_chain.base_of(chain) != start:
            raise Unfit("Somebody else archived in this moment: nothing was removed; try again.")
        _remove(through)
        event = audit.record(
            "audit.archived", actor=actor, at=now, subject_kind="audit", subject_id=through,
            reason=f"{said['events']} events up to {through} moved to {path}"[:500], **said,
        )  # fmt: skip
        AuditChain.objects.filter(pk=chain.pk).update(
            base_id=end.id, base_number=end.number, base_digest=end.digest, base_event_id=event.pk, round_began_at=None
        )
    return said


def _through(chain: AuditChain, before: datetime) -> int:
    """The last event that may go: older, sealed, and of a time before every case that is still open."""
    opened = Incident.objects.exclude(state=IncidentState.CLOSED).order_by("detected_at").first()
    limit = min(before, opened.detected_at) if opened else before
    kept = Event.objects.filter(pk__gt=chain.base_id, at__gte=limit).order_by("pk").values_list("pk", flat=True).first()
    old = Seal.objects.filter(pk__gt=chain.base_id, pk__lte=chain.sealed_id)
    old = old if kept is None else old.filter(pk__lt=kept)
    through = old.order_by("-pk").values_list("pk", flat=True).first()
    if through is None:
        why = f" Incident {opened.pk} is open since then." if opened and opened.detected_at < before else ""
        raise Unfit(f"No sealed event is older than {limit:%Y-%m-%d %H:%M} UTC: nothing to archive.{why}")
    return through


def _write(path: Path, text: Iterable[str]) -> str:
    """The SHA-256 of what was written to a new file, and is on the disk."""
    digest = hashlib.sha256()
    try:
        with path.open("x", encoding="utf-8") as file:
            for line in text:
                file.write(line)
                digest.update(line.encode())
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise Unfit(f"{path} is there already: name a new file.") from None
    except OSError as error:
        raise Unfit(f"{path} can't be written ({error.strerror}): nothing was removed.") from error
    return digest.hexdigest()


def _remove(through: int) -> None:
    """The one place that lifts the triggers: for the tables' owner alone, and only while this transaction lasts."""
    guards = import_module("recovery.migrations.0002_append_only_events")
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL lock_timeout = '5s'")  # dropping a trigger waits for every reader and writer
        guards.drop(connection, only=GUARDED)
        for table in GUARDED:
            cursor.execute(f"DELETE FROM {table} WHERE id <= %s", [through])  # noqa: S608 - our own names
        guards.create(connection, only=GUARDED)
