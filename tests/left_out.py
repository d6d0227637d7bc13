"""Leaves out the suites that this machine can't run, and says so at the very end. With CI=true that is a failure.

Marks as `machine` what needs programs of this machine or its undivided attention: `python -m tests` runs these apart.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests import needs

left_out = pytest.StashKey[Counter[str]]()

# Folders whose tests start processes and wait for them.
_FOLDERS = ("tests/demo/", "tests/workshop/", "tests/newslurm/")
_SUITES = ("slurm", "redis", "browser")


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    counts = config.stash.setdefault(left_out, Counter())
    for item in items:
        if item.nodeid.startswith(_FOLDERS) or any(item.get_closest_marker(suite) for suite in _SUITES):
            item.add_marker("machine")
        for suite in needs.SUITES:
            if item.get_closest_marker(suite) and (why := needs.missing(suite)):
                item.add_marker(pytest.mark.skip(reason=f"{suite}: {why}"))
                counts[suite] += 1
                break


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash.get(left_out, None) and in_ci() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """After pytest's own closing line, so that nobody misses it."""
    for line in sentences(config.stash.get(left_out, Counter[str]())):
        print(line)


def sentences(counts: Counter[str]) -> list[str]:
    if not counts:
        return []
    lines = [
        f"Left out: {suite} ({number} test{'s' * (number != 1)}): {needs.missing(suite)}"
        for suite, number in sorted(counts.items())
    ]
    return [*lines, "CI=true: nothing may be left out, so this run has failed."] if in_ci() else lines


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() == "true"
