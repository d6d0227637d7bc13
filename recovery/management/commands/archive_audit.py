"""Move old events of the audit trail into a file."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from recovery.management.person import at_the_command_line
from recovery.pipeline import audit_export

LEAST_DAYS = 30


class Command(BaseCommand):
    help = (
        "Move sealed events that are older than so many days into a new file of JSON lines, and record that. "
        "The chain goes on from there. Whoever runs it must own the tables."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--days", type=int, required=True, help=f"what is older goes; at least {LEAST_DAYS}")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["days"] < LEAST_DAYS:
            raise CommandError(f"--days {options['days']}: give at least {LEAST_DAYS}; pages show what is younger.")
        now = datetime.now(UTC)
        path: Path = options["file"].absolute()
        try:
            said = audit_export.archive(
                path, before=now - timedelta(days=options["days"]), actor=at_the_command_line(), now=now
            )
        except audit_export.Unfit as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{said['events']} events up to {said['through']} are in {path} (SHA-256 {said['sha256']}) and no longer "
            "in the database. Keep the file: `verify_audit --file` verifies it."
        )
