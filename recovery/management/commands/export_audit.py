"""Write the audit trail as JSON lines that carry its chain."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from recovery.pipeline import audit_chain, audit_export


class Command(BaseCommand):
    help = "Write sealed events with their seals as JSON lines; `verify_audit --file` verifies them anywhere."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--after", type=int, default=0, metavar="ID", help="only events after this one")
        parser.add_argument("--output", type=Path, metavar="FILE", help="a new file (default: standard output)")

    def handle(self, *args: Any, **options: Any) -> None:
        audit_chain.seal(now=datetime.now(UTC))
        output: Path | None = options["output"]
        try:
            with output.open("x", encoding="utf-8") if output else nullcontext(self.stdout) as file:
                for line in audit_export.lines(after=options["after"]):
                    file.write(line)
        except FileExistsError:
            raise CommandError(f"{output} is there already: name a new file.") from None
        except OSError as error:
            raise CommandError(f"{output} can't be written: {error.strerror}.") from error
        except audit_export.Unfit as error:
            raise CommandError(str(error)) from error
