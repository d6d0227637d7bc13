"""docs/metrics.md is held to the code: options, defaults, names, and its commands run."""

from __future__ import annotations

import re
import shlex
from io import StringIO

import pytest
from django.core.management import call_command

from recovery.core.metrics import _FIELD_OF, _normal
from recovery.core.source_options import OPTIONS
from recovery.models import Cluster
from recovery.pipeline.kernel_events import MOST_PER_NODE
from recovery.pipeline.measure import KEPT
from recovery.sources import http_get, loki, prometheus
from recovery.sources.metrics_files import MOST_FILES
from tests.docs import pages
from tests.factories import make_cluster

TEXT = pages.read("docs/metrics.md")
NAMES, NVRX, READINGS, ALL = pages.tables(TEXT)


def test_every_option_is_on_the_page_with_the_sentence_of_the_code() -> None:
    assert {row["option"].strip("`"): row["meaning"] for row in ALL} == {
        name: option.sentence for name, option in OPTIONS.items()
    }
    assert {row["option"].strip("`") for row in NVRX} <= set(OPTIONS)


def test_the_names_of_columns_are_known() -> None:
    for row in NAMES[:-1]:
        for name in re.findall(r"`([^`]+)`", row["names"]):
            assert _normal(name) in _FIELD_OF, name


def test_readings_and_their_metrics_are_those_of_the_code() -> None:
    assert [row["reading"].strip("`") for row in READINGS] == list(prometheus.DEFAULTS)
    for row in READINGS:
        default = prometheus.DEFAULTS[row["reading"].strip("`")]
        assert all(word in default for word in re.findall(r"(?:DCGM|node)_\w+", row["default query"]))
    assert loki.DEFAULT_QUERY in TEXT


def test_limits_are_those_of_the_code() -> None:
    assert f"pieces of {prometheus.CHUNK} nodes" in TEXT
    assert f"kept for {KEPT.days} days" in TEXT
    assert f"{MOST_PER_NODE} an hour" in TEXT
    assert f"at most {MOST_FILES} files" in TEXT
    assert f"({http_get.TIMEOUT_S:g} s)" in TEXT
    assert f"({http_get.MOST_BYTES // 1024 // 1024} MB)" in TEXT


@pytest.mark.django_db
def test_its_commands_run(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cluster(name="alpha", options={"state_dir": str(tmp_path)})
    monkeypatch.setattr("pathlib.Path.is_file", lambda path: True)
    [script] = [block.text for block in pages.blocks(TEXT) if "set_cluster" in block.text]
    for line in script.replace("\\\n", "").splitlines():
        program, _, command, *arguments = shlex.split(line)
        assert (program, command) == ("python", "set_cluster")
        call_command(command, *arguments, stdout=StringIO(), stderr=StringIO())
    assert set(Cluster.objects.get().sources) == {"kernel_log", "metrics"}
