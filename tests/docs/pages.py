"""Reading the documentation: its tables, its code blocks, its links."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[2]


def all_pages() -> list[Path]:
    return sorted([*TOP.glob("*.md"), *(TOP / "docs").glob("**/*.md"), *(TOP / "docker").glob("*.md")])


def read(name: str) -> str:
    return (TOP / name).read_text(encoding="utf-8")


def tables(text: str) -> list[list[dict[str, str]]]:
    """Every table as rows, each a dictionary by the headings of the columns."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        heading, _, *rows = [_cells(line) for line in block.splitlines()]
        found.append([dict(zip(heading, row, strict=True)) for row in rows])
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str


def blocks(text: str) -> list[Block]:
    """Fenced code blocks in order, those within lists too."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", text, flags=re.MULTILINE | re.DOTALL)
    return [Block(language, textwrap.dedent(inner)) for _, language, inner in found]


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL))
