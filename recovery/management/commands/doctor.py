"""What this installation can see and do, each with the remedy where it can't."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from recovery.core.words import EXAMINED_WORDS
from recovery.doctor import Group, Result, State, examine_cluster, examine_installation
from recovery.doctor.installation import roots
from recovery.doctor.results import in_groups
from recovery.doctor.telling import examine_telling
from recovery.models import Cluster
from recovery.tasks import client_of


class Command(BaseCommand):
    help = "Say what this installation can see and do, and what to do where it can't. Exit code 1: something is broken."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")

    def handle(self, *args: Any, **options: Any) -> None:
        found: dict[str, list[Result]] = {}
        for subject, results in examine():
            found[subject] = []
            if not options["json"]:
                self.stdout.write(self.style.MIGRATE_HEADING(subject or "Recovery Desk"))
            for result in results:
                found[subject].append(result)
            if not options["json"]:
                self._print(found[subject])
        if options["json"]:
            self.stdout.write(json.dumps(as_document(found), indent=2))
        broken = sum(result.state is State.BROKEN for results in found.values() for result in results)
        if broken:
            raise CommandError(f"{broken} of these need mending.")

    def _print(self, results: Iterable[Result]) -> None:
        styles = {State.GOOD: self.style.SUCCESS, State.ATTENTION: self.style.WARNING, State.BROKEN: self.style.ERROR}
        for group, members in in_groups(results):
            self.stdout.write(f"  {group.value}")
            for result in members:
                mark = EXAMINED_WORDS[result.state].icon
                style = styles.get(result.state, str)
                self.stdout.write(f"  {style(mark)} {result.what}: {result.detail}")
                if result.remedy:
                    self.stdout.write(f"      {result.remedy}")


def examine() -> Iterator[tuple[str, Iterator[Result]]]:
    """The installation ("") first, then each enabled cluster; without the database no cluster can be looked up."""
    now = datetime.now(UTC)
    data = list(examine_installation(now=now, ask_broker=True))
    clusters = list(Cluster.objects.filter(enabled=True)) if data[0].state is State.GOOD else []
    if not clusters:
        data += roots(now)
    if data[0].state is State.GOOD and not clusters:
        data.append(no_cluster(now))
    if data[0].state is State.GOOD:
        data += examine_telling(now=now)
    yield "", iter(data)
    for cluster in clusters:
        yield f"Cluster {cluster.name}", examine_cluster(cluster, client_for=client_of, clock=lambda: datetime.now(UTC))


def no_cluster(now: datetime) -> Result:
    remedy = "Add one with `manage.py set_cluster`: docs/operations.md says how."
    return Result(
        group=Group.INSTALLATION,
        what="clusters",
        detail="none is set up",
        state=State.ATTENTION,
        remedy=remedy,
        at=now,
    )


def as_document(found: dict[str, list[Result]]) -> dict[str, Any]:
    """{"installation": [RESULT], "clusters": {NAME: [RESULT]}}."""
    return {
        "installation": [result.as_json() for result in found.get("", [])],
        "clusters": {
            name.removeprefix("Cluster "): [result.as_json() for result in results]
            for name, results in found.items()
            if name
        },
    }
