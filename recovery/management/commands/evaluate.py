"""`manage.py evaluate FOLDER [--json]`: how good the verdicts are on labelled cases."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from recovery.evaluation import CaseError, Score, evaluate
from recovery.pipeline.facts import limits


class Command(BaseCommand):
    help = "Score the verdicts on every labelled case below FOLDER."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder with cases (case.toml and log files)")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        try:
            score = evaluate(folder, limits())
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from None
        except CaseError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(json.dumps(score.as_json(), indent=2) if options["json"] else for_people(score))


def for_people(score: Score) -> str:
    """The score as text, the grave mistakes first."""
    figures = score.as_json()
    lines = [
        f"{figures['cases']} cases",
        f"class    {figures['class_accuracy']:.1%}",
        f"restart  {figures['restart_accuracy']:.1%}",
        f"exclude  {figures['exclude_accuracy']:.1%}",
        f"time     {figures['seconds_per_megabyte']:.2f} s per MB ({figures['megabytes']:.1f} MB of logs)",
    ]
    for title, names in (
        ("Wrongful restarts", score.wrongful_restarts),
        ("Wrongful exclusions", score.wrongful_exclusions),
    ):
        lines += ["", f"{title}: {len(names) or 'none'}", *(f"  {name}" for name in names)]
    lines += ["", *confusion_lines(figures["confusion"])]
    for wrong in score.wrong:
        lines += [
            "",
            wrong["case"],
            f"  expected  {json.dumps(wrong['expected'])}",
            f"  got       {json.dumps(wrong['got'])}",
        ]
    return "\n".join(lines)


def confusion_lines(table: Mapping[str, Mapping[str, int]]) -> list[str]:
    """One line for each expected class: how many cases, how many were right, and what the others were taken for."""
    wide = max(map(len, table), default=0)
    lines = [f"{'expected':{wide}}  cases  right  taken for"]
    for label, row in table.items():
        others = ", ".join(f"{got} {count}" for got, count in row.items() if got != label)
        lines.append(f"{label:{wide}}  {sum(row.values()):5}  {row.get(label, 0):5}  {others}".rstrip())
    return lines
