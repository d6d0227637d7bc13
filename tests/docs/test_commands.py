"""Commands in code blocks are understood by the programs that they name, and so are the comments for jobs."""

from __future__ import annotations

import re
import shlex

import pytest
from django.core.management import get_commands, load_command_class

from recovery.core.comment import parse_comment
from recovery.core.types import Mode
from tests.docs import pages

SHELL = [
    (str(page.relative_to(pages.TOP)), line)
    for page in pages.all_pages()
    for block in pages.blocks(page.read_text(encoding="utf-8"))
    if block.language == "sh"
    for line in block.text.replace("\\\n", " ").splitlines()  # a long command goes on after a backslash
]
MANAGE = [(page, line[line.index("manage.py ") :]) for page, line in SHELL if "manage.py " in line]
COMMENTS = [line for page, line in SHELL if "#SBATCH --comment" in line]


@pytest.mark.parametrize(("page", "line"), MANAGE)
def test_a_management_command_takes_the_arguments_that_are_shown(page: str, line: str) -> None:
    _, name, *arguments = shlex.split(line, comments=True)
    app = get_commands()[name]
    command = load_command_class(app, name) if isinstance(app, str) else app
    parser = command.create_parser("manage.py", name)
    assert parser.parse_args(arguments) is not None


def test_the_comments_of_the_page_are_read_as_it_says() -> None:
    ours, theirs = (parse_comment(shlex.split(line.replace("#SBATCH ", ""))[0].partition("=")[2]) for line in COMMENTS)
    assert ours.error == theirs.error == ""
    assert (ours.mode, ours.max_restarts, ours.run) == (Mode.AUTO, 3, "llama-70b")
    assert (theirs.mode, theirs.max_restarts) == (Mode.AUTO, 1)


def test_every_key_of_the_comment_is_on_the_page() -> None:
    (table,) = pages.tables(pages.read("docs/jobs.md"))
    shown = {row["key"].strip("`") for row in table}
    understood = set(re.findall(r"^    (\w+): ", _fields(), flags=re.MULTILINE)) - {"error"}
    assert shown == understood


def _fields() -> str:
    source = pages.read("recovery/core/comment.py")
    start = source.index("class CommentOptions")
    return source[start : source.index("class _Wrong")]
