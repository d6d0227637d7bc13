"""`manage.py diagnose PATH... [--job FILE.json] [--json]`: the verdict on a job's logs, no server and no database."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from recovery.core.opinion import ProviderMode
from recovery.core.types import Diagnosis
from recovery.core.words import PROVIDER_WORDS
from recovery.evaluation import CaseError, read_job_file, verdict_json, verdict_on
from recovery.offline.asking import Asked, ask
from recovery.offline.logs import log_files
from recovery.offline.record import OfflineJob
from recovery.pipeline.facts import limits
from recovery.providers.registry import provider_for


class Command(BaseCommand):
    help = "Say why a job failed and what to do about it, from its log files."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "paths", nargs="+", type=Path, metavar="PATH", help="a log file, a folder of them, or - for standard input"
        )
        parser.add_argument("--job", type=Path, metavar="FILE.json", help="the scheduler's record of the job")
        parser.add_argument(
            "--ask-provider", action="store_true", help="also ask the diagnostic service that is set up"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, paths: list[Path], job: Path | None, **options: Any) -> None:
        try:
            record = read_job_file(job) if job else OfflineJob()
            files = log_files(paths)
            verdict = self._verdict(record, files)
            asked = self._asked(record, files, ask_it=options["ask_provider"])
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from None
        except CaseError as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            self.stdout.write(json.dumps({**verdict_json(verdict), "judged_by": asked.as_json()}, indent=2))
        else:
            self.stdout.write(f"{for_people(verdict)}\n\n{judged_by(asked)}")

    def _asked(self, record: OfflineJob, files: list[Path], *, ask_it: bool) -> Asked:
        if settings.PROVIDER is None:
            if ask_it:
                raise CommandError("--ask-provider: no service is set up (RECOVERY_PROVIDER, docs/providers.md).")
            return Asked(mode=ProviderMode.OFF)
        if not ask_it:
            return Asked(mode=ProviderMode.WAITING, sentence="It was not asked; --ask-provider asks it.")
        return ask(provider_for(settings.PROVIDER), record, files)

    def _verdict(self, record: OfflineJob, files: list[Path]) -> Diagnosis:
        if not files:
            raise CommandError("There is no log file (*.log, *.out, *.err) in what you gave.")
        return verdict_on(record, files, limits())


def judged_by(asked: Asked) -> str:
    """Whose rules the verdict rests on, and what the service says beside it."""
    lines = [f"Judged by    {PROVIDER_WORDS[asked.mode].label}. {asked.sentence}".rstrip()]
    if said := asked.opinion:
        parts = (said.failure_class, said.restart and f"restart: {said.restart}", ", ".join(said.nodes), said.reason)
        lines.append(f"The service  {'; '.join(part for part in parts if part)}")
    return "\n".join(lines)


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
