from __future__ import annotations

from recovery.access_table import table
from recovery.models.access import Role, Scope
from tests.docs import pages

PAGE = (pages.TOP / "docs" / "access.md").read_text(encoding="utf-8")


def test_the_table_of_who_may_do_what_is_the_codes() -> None:
    shown = PAGE.partition("holds it to the code -->\n")[2].partition("\n<!-- end -->")[0]
    assert shown == table()


def test_every_scope_and_every_role_that_is_typed_is_explained() -> None:
    assert all(f"`{scope}" in PAGE for scope in Scope.values)
    assert all(role.label in PAGE for role in Role)
