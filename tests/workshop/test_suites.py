"""What `make test` starts: nothing is left to one database by a name that no file has any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests import one_database
from tests.daemons import PROJECT


def test_each_file_that_one_database_is_enough_for_is_there() -> None:
    assert [file for file in one_database.FILES if not (PROJECT / file).is_file()] == []


def item(nodeid: str, **marker: Any) -> Any:
    marks = {"django_db": SimpleNamespace(kwargs=marker)}
    added: list[str] = []
    return SimpleNamespace(
        nodeid=nodeid, fixturenames=("db",), get_closest_marker=marks.get, add_marker=added.append, added=added
    )


@pytest.mark.parametrize(
    ("nodeid", "marker", "added"),
    [
        ("tests/pipeline/test_nodes.py::test_a", {}, ["one_database"]),
        ("tests/pipeline/test_nodes.py::test_a", {"transaction": True}, []),
        ("tests/pipeline/test_path.py::test_a", {}, []),
        ("tests/api/test_who_may.py::test_who_may[GET incidents-viewer]", {}, ["one_database"]),
        ("tests/api/test_who_may.py::test_who_may[GET incidents-admin]", {}, []),
        ("tests/dashboard/test_who_may.py::test_every_role_sees_every_page[viewer-/admin/]", {}, ["one_database"]),
        ("tests/dashboard/test_who_may.py::test_every_role_sees_every_page[admin-/runs/]", {}, []),
    ],
)
def test_what_runs_on_one_database_alone(nodeid: str, marker: dict[str, bool], added: list[str]) -> None:
    test = item(nodeid, **marker)
    one_database.pytest_collection_modifyitems([test])
    assert test.added == added
