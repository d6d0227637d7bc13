"""`manage.py evaluate FOLDER [--json]`: how good the verdicts are on labelled cases."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from recovery.core.words import PROVIDER_WORDS
from recovery.evaluation import CaseError, Score, cases_below, evaluate
from recovery.offline.asking import ServiceScore, ask
from recovery.pipeline.facts import limits
from recovery.providers.base import Provider
from recovery.providers.registry import provider_for


class Command(BaseCommand):
    help = "Score the verdicts on every labelled case below FOLDER."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder with cases (case.toml and log files)")
        parser.add_argument(
            "--ask-provider", action="store_true", help="also score the diagnostic service that is set up, apart"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        try:
            score = evaluate(folder, limits())
            service = self._service(folder) if options["ask_provider"] else None
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from None
        except CaseError as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            own = {**score.as_json(), "judged_by": "built-in rules"}
            figures = own if service is None else {**own, "provider": service.as_json()}
            self.stdout.write(json.dumps(figures, indent=2))
        else:
            self.stdout.write(for_people(score))
            if service is not None:
                self.stdout.write(f"\n{of_service(service)}")

    def _service(self, folder: Path) -> ServiceScore:
        if settings.PROVIDER is None:
            raise CommandError("--ask-provider: no service is set up (RECOVERY_PROVIDER, docs/providers.md).")
        return score_service(folder, provider_for(settings.PROVIDER))


def score_service(folder: Path, provider: Provider) -> ServiceScore:
    """The external service on every case below `folder`, until it fails again and again. Raises CaseError, OSError."""
    score = ServiceScore()
    for case in cases_below(folder):
        if score.given_up:
            score.not_asked += 1
            continue
        said = ask(provider, case.job, case.logs)
        score.add(said, classes=case.expected.classes, restarts=case.expected.restarts)
    return score


def of_service(score: ServiceScore) -> str:
    """The service's figures as text, apart from ours."""
    figures = score.as_json()
    lines = [f"{PROVIDER_WORDS[figures['mode']].label}", f"answered {score.answered} of {score.asked} questions"]
    for what, named in (("class", score.classes_named), ("restart", score.restarts_named)):
        share = figures[f"{what}_accuracy"]
        lines.append(f"{what:8} {'named in none' if share is None else f'{share:.1%} of {named} that it named'}")
    if score.not_asked:
        lines.append(f"{score.not_asked} cases were not asked about, after {score.in_a_row} failures in a row")
    return "\n".join([*lines, *([score.trouble] if score.trouble else [])])


def for_people(score: Score) -> str:
    """The score as text, the grave mistakes first."""
    figures = score.as_json()
    lines = [
        f"{figures['cases']} cases, judged by the built-in rules",
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
