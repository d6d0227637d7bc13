"""A site's own failure signatures: taken in at the start, or the start is refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from recovery.apps import read_site_rules
from recovery.core.diagnose.catalogue import RULES_BY_ID, set_site_rules

RULE = """
[[rule]]
id = "site.fan"
scope = "node"
literals = ["fan tray"]
pattern = '''fan tray \\d failed'''
class = "node_fault"
restart = "yes"
exclude = "nodes"
sentence = "A fan tray of the node failed."
source = "our own monitoring"
"""


@pytest.fixture(autouse=True)
def ours_again() -> Iterator[None]:
    yield
    set_site_rules("")


def test_the_rules_of_a_sites_file_are_taken_in(tmp_path: Path) -> None:
    file = tmp_path / "signatures.toml"
    file.write_text(RULE)
    read_site_rules(str(file))
    assert "site.fan" in RULES_BY_ID


def test_a_wrong_or_missing_file_stops_the_start_and_says_why(tmp_path: Path) -> None:
    file = tmp_path / "signatures.toml"
    with pytest.raises(ImproperlyConfigured, match="No such file"):
        read_site_rules(str(file))
    file.write_text(RULE.replace("node_fault", "fan"))
    with pytest.raises(ImproperlyConfigured, match=r"signatures\.toml: Rule site\.fan: class is 'fan'"):
        read_site_rules(str(file))
