"""Files whose tests prove nothing more on a second database: there they run with `make torture`.

Whatever may differ between databases runs on both: races and locks, triggers, constraints, JSON, upserts, partitions,
counts of statements, every page and every endpoint, each action and the whole path.
What lies above that is listed here.
A test with real commits (`transaction=True`) runs on both, whatever its file.
"""

from __future__ import annotations

import pytest

# They touch no database.
TEXTS = tuple(f"tests/dashboard/test_{name}.py" for name in ("policy_form", "rule_form", "style", "wording"))
# Who may do what, person by person. What an administrator asks, each page and each endpoint, stays on both.
MATRICES = ("tests/api/test_who_may.py", "tests/dashboard/test_who_may.py")
# Long histories in virtual time: their statements are those of the path's own tests, only in another order.
HISTORIES = tuple(
    f"tests/pipeline/test_{name}.py"
    for name in (
        *("action_races", "actions_on_simulator", "auto_hostile", "facts_change", "freshness", "fresh_record"),
        *("full_looks", "held_restart", "holds_of_others"),
        *("limit_near", "look_at_checkpoints", "measure", "nodes", "old_news", "on_simulator", "opened_again"),
        *("other_controller", "other_jobs", "poll_trouble", "preempted", "proposals", "push_hostile", "quiet_look"),
        *("repair", "resubmit", "second_opinion", "successor_clocks", "two_jobs", "undo_later"),
    )
)
FILES = (*TEXTS, *MATRICES, *HISTORIES)


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(FILES) and not commits(item) and not asked_by_admin(item.nodeid):
            item.add_marker("one_database")


def commits(item: pytest.Item) -> bool:
    """Whether a test's transactions really end, and others see what they did."""
    marker = item.get_closest_marker("django_db")
    return "transactional_db" in getattr(item, "fixturenames", ()) or bool(marker and marker.kwargs.get("transaction"))


def asked_by_admin(nodeid: str) -> bool:
    return nodeid.startswith(MATRICES) and "admin" in nodeid.partition("[")[2].rstrip("]").split("-")
