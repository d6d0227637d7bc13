"""Verify the audit trail's chain, or that of exported files."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from recovery.core.chain import START, Break, Link
from recovery.models import AuditChain, Seal
from recovery.pipeline import audit_chain, audit_export


class Command(BaseCommand):
    help = (
        "Follow the audit trail's chain from its beginning to its end and name the first bad row. "
        "The exit code is 1 where there is one."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--anchor", metavar="ID:DIGEST", help="also compare with what was printed or exported earlier"
        )
        parser.add_argument(
            "--file", type=Path, action="append", default=[], metavar="FILE",
            help="verify this export or archive instead of the database; several must follow each other",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        files: list[Path] = options["file"]
        try:
            here, broken, what = _files(files) if files else _database()
        except audit_export.Unfit as error:
            raise CommandError(str(error)) from error
        if broken is None and options["anchor"]:
            broken = _unlike(options["anchor"], here, stored=not files)
        self._tell(here, broken, what, as_json=options["json"])
        if broken:
            raise SystemExit(1)

    def _tell(self, here: Link, broken: Break | None, what: str, *, as_json: bool) -> None:
        found: dict[str, Any] = {"whole": broken is None, "verified_up_to": here.id, "number": here.number}
        found |= {"anchor": f"{here.id}:{here.digest}"}
        found |= {"first_bad": {"id": broken.id, "reason": broken.reason} if broken else None}
        if as_json:
            self.stdout.write(json.dumps(found, indent=2))
        elif broken:
            self.stdout.write(f"{what} is broken at event {broken.id}. {broken.reason}")
        else:
            self.stdout.write(f"{what} is whole up to event {here.id}. Its anchor: {here.id}:{here.digest}")


def _database() -> tuple[Link, Break | None, str]:
    verdict = audit_chain.verify(now=datetime.now(UTC))
    return verdict.here, verdict.broken, "The audit trail"


def _files(paths: list[Path]) -> tuple[Link, Break | None, str]:
    end = START
    for number, path in enumerate(paths):
        try:
            with path.open(encoding="utf-8") as file:
                start, here, broken = audit_export.verify_lines(file)
        except (OSError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise CommandError(f"{path} can't be read as an export of the audit trail: {error}") from error
        except audit_export.Unfit as error:
            raise CommandError(f"{path}: {error}") from error
        if number and start != end:
            return end, Break(start.id, f"{path} does not continue the file before it."), str(path)
        if broken:
            return here, broken, str(path)
        end = here
    return end, None, ", ".join(map(str, paths))


def _unlike(anchor: str, here: Link, *, stored: bool) -> Break | None:
    """What is wrong where the chain does not hold this anchor."""
    number, _, digest = anchor.partition(":")
    if not number.isdecimal() or len(digest) != 64:
        raise CommandError(f"--anchor {anchor}: give the id of an event, a colon, and 64 hex digits.")
    event_id = int(number)
    links = {here.id: here.digest}
    if stored:
        chain = AuditChain.objects.get(name="events")
        if event_id < chain.base_id:
            raise CommandError(f"Event {event_id} was archived: verify its file with --file FILE --anchor {anchor}.")
        links[chain.base_id] = chain.base_digest
        links |= dict(Seal.objects.filter(pk=event_id).values_list("id", "digest"))
    elif event_id != here.id:
        raise CommandError(f"The files end with event {here.id}: give the anchor of that one.")
    if links.get(event_id) == digest:
        return None
    return Break(event_id, "The chain is another one than when the anchor was taken.")
