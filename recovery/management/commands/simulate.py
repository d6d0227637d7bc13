"""`manage.py simulate FILE [--json]`: play a scenario in virtual time through the whole path, and say how it came out.

Needs no server, no broker and no database of its own: everything happens in memory and in a temporary folder. The exit
code is 0 where the scenario came out as it expects, 1 where not, 2 for a file that can't be played.
"""

from __future__ import annotations

import json
import logging
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, OutputWrapper

from recovery.simulation.database import throw_away_database
from recovery.simulation.judging import differences
from recovery.simulation.reading import BadScenario, read_file
from recovery.simulation.running import play
from recovery.simulation.scenario import Scenario
from recovery.simulation.telling import Story


class Command(BaseCommand):
    help = "Play a scenario file (docs/scenarios.md) in virtual time, and say whether it came out as expected."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="a scenario (TOML)")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--folder", type=Path, help="keep logs and checkpoints in this new folder")

    def handle(self, *args: Any, file: Path, folder: Path | None, **options: Any) -> None:
        scenario = self._read(file)
        story = self._play(scenario, folder)
        wrong = differences(scenario.expect, story)
        self.stdout.write(json.dumps(as_json(story, wrong), indent=2) if options["json"] else for_people(story, wrong))
        if wrong:
            raise SystemExit(1)

    def _read(self, file: Path) -> Scenario:
        try:
            return read_file(file)
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}", returncode=2) from None
        except BadScenario as error:
            raise CommandError("\n".join(f"{file}: {line}" for line in error.errors), returncode=2) from None

    def _play(self, scenario: Scenario, folder: Path | None) -> Story:
        if folder is not None:
            try:
                folder.mkdir(parents=True)
            except OSError as error:
                raise CommandError(f"{folder}: {error.strerror}; name a new folder.", returncode=2) from None
        with (
            tempfile.TemporaryDirectory(prefix="recovery-simulate-") as temporary,
            _quiet_log(),
            throw_away_database(),
            _progress(self.stderr, scenario) as progress,
        ):
            return play(scenario, (folder or Path(temporary)).absolute(), at_each_look=progress)


@contextmanager
def _progress(stream: OutputWrapper, scenario: Scenario) -> Iterator[Callable[[float], None]]:
    """How far it is, in a line that is written over and is gone at the end; at a terminal only."""
    if not stream.isatty():
        yield lambda _: None
        return
    written = ""

    def tell(at_s: float) -> None:
        nonlocal written
        line = f"\r{at_s:.0f} of {scenario.for_s:g} s of virtual time"
        if line != written:
            written = line
            stream.write(line, ending="")
            stream.flush()

    try:
        yield tell
    finally:
        stream.write("\r\x1b[K", ending="")  # to the line's beginning, and clear it


@contextmanager
def _quiet_log() -> Iterator[None]:
    """What the desk logs of simulated troubles is part of the story, not of this command's output."""
    log = logging.getLogger("recovery")
    usual = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(usual)


def as_json(story: Story, wrong: list[str]) -> dict[str, Any]:
    return {"held": not wrong, "differences": wrong, **story.as_json()}


def for_people(story: Story, wrong: list[str]) -> str:
    """The time line, then the verdict."""
    lines = [story.title, ""]
    lines += [f"{moment.at_s:9.1f} s  {moment.who:<8}  {moment.what}" for moment in story.moments]
    lines += ["", f"{story.virtual_s:g} s of virtual time in {story.wall_s:g} s."]
    if not wrong:
        return "\n".join([*lines, "It came out as expected."])
    return "\n".join([*lines, "It did not come out as expected:", *(f"  {line}" for line in wrong)])
