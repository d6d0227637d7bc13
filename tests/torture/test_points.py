"""What a kill leaves behind is the same within a stage: that is why one point of each is tried."""

from __future__ import annotations

import json
import sqlite3
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests.torture import crash
from tests.torture.desks import SIM_RHYTHM
from tests.torture.points import Points
from tests.torture.processes import in_child


class Observed(Points):
    """At each point it is looked at, from outside, what a kill would leave in the database and of the calls."""

    def here(self, label: str) -> None:
        super().here(label)
        told = (self._journal.parent / "told").open("a", encoding="utf-8")
        with told, sqlite3.connect(f"file:{connection.settings_dict['NAME']}?mode=ro", uri=True) as outside:
            calls = self._journal.read_text(encoding="utf-8") if self._journal.exists() else ""
            left = sha256("\n".join([*outside.iterdump(), calls]).encode()).hexdigest()
            told.write(json.dumps([label, self.stages[-1], left]) + "\n")
        outside.close()


@pytest.mark.timeout(600)
def test_what_a_kill_leaves_behind_changes_only_from_stage_to_stage(
    tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    trial = tmp_path / "trial"
    with django_db_blocker.unblock(), patch.object(crash, "Points", Observed):
        crash.make_templates(tmp_path, SIM_RHYTHM)
        in_child(lambda: crash.prepare(trial, "cancel", templates=tmp_path))
        in_child(lambda: crash.finish(trial, "cancel"))
    told = [json.loads(line) for line in (trial / "told").read_text(encoding="utf-8").splitlines()]
    left: dict[int, set[str]] = {}
    for _, stage, digest in told:
        left.setdefault(stage, set()).add(digest)
    assert {stage: len(found) for stage, found in left.items() if len(found) > 1} == {}
    assert 10 < len(left) < len(told) / 2
    assert any("after the call" in label for label, *_ in told)
