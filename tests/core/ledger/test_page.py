"""docs/ledger.md says what the code does."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.core.ledger import PRODUCTIVE, Category, badput
from recovery.core.ledger.figures import Charged, figures_of
from recovery.core.ledger.incidents import GAPS
from tests.core.ledger.stories import minutes
from tests.docs import pages

PAGE = pages.read("docs/ledger.md")


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """The names that the page's own example leaves behind."""
    (code,) = (block.text for block in pages.blocks(PAGE) if block.language == "python")
    names: dict[str, Any] = {}
    exec(compile(code, "docs/ledger.md", "exec"), names)  # noqa: S102 - our own page
    return names


def test_the_example_goes_into_what_the_page_says(example: dict[str, Any]) -> None:
    (rows,) = (table for table in pages.tables(PAGE) if "went into" in table[0])
    told = [(minutes(e.start), minutes(e.end), str(e.category), e.gpus) for e in example["ledger"].entries]
    assert told == [(float(r["from"]), float(r["to"]), r["went into"], int(r["GPUs"])) for r in rows]


def test_the_examples_figures_are_those_of_the_page(example: dict[str, Any]) -> None:
    (rows,) = (table for table in pages.tables(PAGE) if "how" in table[0])
    said = {row["figure"]: row["value"] for row in rows}
    (account,) = example["accounts"]
    charged = Charged(
        steps_lost=account.steps_lost,
        lost_gpu_us=account.lost.gpu_us,
        deciding_us=account.deciding.time_us,
        deciding_run_gpu_us=account.deciding_run_gpu_us,
    )
    figures = figures_of(example["summary"], charged)
    assert said == {
        "wall time": f"{figures.wall_s / 60:.0f} min",
        "effective training time ratio": f"{figures.effective_training_time_ratio:.1%}".replace("%", " %"),
        "goodput": f"{figures.goodput:.1%}".replace("%", " %"),
        "badput, lost": f"{badput(example['summary'].totals)[Category.LOST]:.1%}".replace("%", " %"),
        "goodput of GPUs": f"{figures.gpu_goodput:.1%}".replace("%", " %"),
        "interruptions per 1,000 GPU-hours": f"{figures.interruptions_per_1000_gpu_hours:.1f}",
        "steps lost": str(figures.steps_lost),
        "GPU-hours lost": f"{figures.lost_gpu_hours:.2f}",
        "waiting for the decision": f"{figures.decision_wait_s / 60:.0f} min",
        "GPU-hours meanwhile": f"{figures.decision_gpu_hours:.2f}",
    }


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
