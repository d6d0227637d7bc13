from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.timeout(600)  # a few trials, each two processes that work through a whole recovery
@pytest.mark.parametrize("scenario", ["requeue", "requeue_excluding"])
def test_whenever_it_is_killed_a_recovery_is_done_once_and_whole(scenario: str) -> None:
    """Every call's two sides, and one in 250 of the other points; `make torture` tries them all."""
    command = [sys.executable, "-m", "tests.torture", "--every", "250", scenario]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    (report,) = json.loads(done.stdout)
    assert report["failed"] == {}
    assert report["tried"] > 4
    assert sum(number for point, number in report["kinds"].items() if " the call " in point) in (2, 6)
