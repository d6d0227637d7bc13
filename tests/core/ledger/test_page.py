"""docs/ledger.md says what the code does."""

from __future__ import annotations

from recovery.core.ledger import PRODUCTIVE, Category
from recovery.core.ledger.incidents import GAPS
from tests.docs import pages

PAGE = pages.read("docs/ledger.md")


def test_the_page_lists_every_category_in_its_order_of_precedence() -> None:
    (rows,) = (table for table in pages.tables(PAGE) if "counted as" in table[0])
    assert [row["category"] for row in rows] == list(Category)
    assert {row["category"] for row in rows if row["counted as"].startswith("productive")} == set(PRODUCTIVE)


def test_every_unproductive_category_stands_beside_a_published_one() -> None:
    (rows,) = (table for table in pages.tables(PAGE) if "here" in table[0])
    for category in set(Category) - set(PRODUCTIVE):
        assert any(category in row["here"] for row in rows), category


def test_the_page_names_every_gap() -> None:
    assert all(f"`{name}`" in PAGE for name in GAPS)
