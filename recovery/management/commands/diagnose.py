"""`manage.py diagnose PATH... [--job FILE.json] [--json]`: the verdict on a job's logs, no server and no database."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from recovery.core.types import Diagnosis
from recovery.evaluation import CaseError, read_job_file, verdict_json, verdict_on
from recovery.offline.logs import log_files
from recovery.offline.record import OfflineJob
from recovery.pipeline.facts import limits


class Command(BaseCommand):
    help = "Say why a job failed and what to do about it, from its log files."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "paths", nargs="+", type=Path, metavar="PATH", help="a log file, a folder of them, or - for standard input"
        )
        parser.add_argument("--job", type=Path, metavar="FILE.json", help="the scheduler's record of the job")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, paths: list[Path], job: Path | None, **options: Any) -> None:
        try:
            record = read_job_file(job) if job else OfflineJob()
            verdict = self._verdict(record, paths)
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from None
        except CaseError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(json.dumps(verdict_json(verdict), indent=2) if options["json"] else for_people(verdict))

    def _verdict(self, record: OfflineJob, paths: list[Path]) -> Diagnosis:
        files = log_files(paths)
        if not files:
            raise CommandError("There is no log file (*.log, *.out, *.err) in what you gave.")
        return verdict_on(record, files, limits())


def for_people(verdict: Diagnosis) -> str:
    """The verdict as text: what, what to do, why, and what was not seen."""
    exclude = f"{verdict.exclude}: {', '.join(verdict.nodes)}" if verdict.nodes else str(verdict.exclude)
    lines = [
        verdict.reason,
        "",
        f"class       {verdict.failure_class}",
        f"restart     {verdict.restart}",
        f"exclude     {exclude}",
        f"confidence  {verdict.confidence:.0%}",
    ]
    if verdict.evidence:
        lines += ["", "Evidence"]
        lines += [
            f"  {e.role:<12} {e.source}{f':{e.line}' if e.line else ''}  {e.rule}\n               {e.text}"
            for e in verdict.evidence
        ]
    lines += ["", "What was looked for"]
    return "\n".join([*lines, *(f"  {kind:<14} {found}" for kind, found in verdict.coverage.items())])
