"""A policy on recorded history: what it would have done, and where people decided otherwise."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from recovery.core.policy import DEFAULT_RULES
from recovery.core.replay import Replayed, Summary, replay, summary
from recovery.core.speech import duration, tenths
from recovery.management.commands.policy import read_policy
from recovery.pipeline.recorded import recorded
from recovery.pipeline.rehearse import figures, line_of
from recovery.selectors import current_policy

SHOWN = 20  # cases that are printed where people decided otherwise


class Command(BaseCommand):
    help = "Replay a policy over recorded history, before it is switched on (docs/policies.md)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", help="a policy as YAML; - for standard input (default: what holds)")
        parser.add_argument("--days", type=float, default=30, help="how far back (default: 30)")
        parser.add_argument("--json", action="store_true", help="print the figures and every case as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 < options["days"] <= 3660:
            raise CommandError("--days must be more than 0, and at most 3660.")
        held = current_policy()
        rules = read_policy(options["file"]).rules if options["file"] else held.rules if held else DEFAULT_RULES
        now = timezone.now()
        found = replay(rules, recorded(since=now - timedelta(days=options["days"]), until=now))
        told = summary(found)
        if options["json"]:
            self.stdout.write(json.dumps(figures(told) | {"cases": [line_of(each) for each in found]}, indent=2))
            return
        for line in in_words(told, found):
            self.stdout.write(line)


def in_words(told: Summary, found: list[Replayed]) -> list[str]:
    if not told.cases:
        return ["No recommendation was made in this time: there is nothing to replay."]
    modes = ", ".join(f"{count} {mode}" for mode, count in told.by_mode.items())
    lines = [
        f"{told.cases} recommendations: {modes}. {told.automatic_before} were decided by policy in reality.",
        f"People approved what it would have just done after {duration(told.saved.total_seconds())} in all: "
        f"{tenths(told.saved_gpu_s / 3600)} GPU-hours of waiting.",
        f"It would have gone by itself against people in {len(told.against_people)} cases, and where the action did "
        f"not end in recovery in {len(told.went_badly)}.",
    ]
    worse = {*told.against_people, *told.went_badly}
    for each in [each for each in found if each.case.incident in worse][:SHOWN]:
        case = each.case
        said = f"{case.decision or 'nobody decided'}, {case.outcome or 'still open'}"
        lines.append(f"  incident {case.incident} ({case.diagnosis.failure_class}): {said}. {each.ruling.reason}")
    return lines
