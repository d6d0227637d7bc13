"""What every page of the documentation keeps: links lead somewhere, commands exist, examples parse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from tests.docs import pages

PAGES = pages.all_pages()
PENDING_IMAGES = {"docs/images/incident.png"}


def ids(path: Path) -> str:
    return str(path.relative_to(pages.TOP))


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for link in pages.links(page.read_text(encoding="utf-8")):
        if not link.startswith(("http://", "https://", "#")):
            assert (page.parent / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_make_commands_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", pages.read("Makefile"), flags=re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", page.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_management_commands_exist(page: Path) -> None:
    named = set(re.findall(r"manage\.py ([a-z_]+)", page.read_text(encoding="utf-8")))
    assert named <= set(get_commands())


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_json_examples_parse(page: Path) -> None:
    for block in pages.blocks(page.read_text(encoding="utf-8")):
        if block.language == "json":
            json.loads(block.text)


def test_every_page_of_docs_can_be_reached_from_the_readme() -> None:
    reached, todo = set(), [pages.TOP / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        local = [link for link in pages.links(page.read_text(encoding="utf-8")) if "://" not in link]
        todo += [(page.parent / link.partition("#")[0]).resolve() for link in local if not link.startswith("#")]
    assert {page for page in PAGES if page.parent.name == "docs"} <= reached


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_files_that_are_named_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"`((?:recovery|dashboard|tests|docker|docs|benchmarks)/[\w./-]*)(?:::\w+)?`", text):
        assert (pages.TOP / name).exists(), name


def test_tests_that_are_named_exist() -> None:
    named = re.findall(r"`(tests/[\w./-]+)::(\w+)`", pages.read("docs/architecture.md"))
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}(" in pages.read(file), test
