from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.log_patterns import LogFacts, LogPattern, log_pattern

JOB = LogFacts(job_id="4711", name="train", user="ada", nodes=("gpu-01.local", "gpu-02.local"))
TASK = LogFacts(job_id="4711_23", raw_id="4740", name="train", user="ada")


def last_name(pattern: str, facts: LogFacts = JOB) -> re.Pattern[str]:
    name = log_pattern(pattern, facts).names[-1]
    assert isinstance(name, re.Pattern)
    return name


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("/logs/%x-%j.out", "/logs/train-4711.out"),
        ("/logs/%u/%A_%a.out", "/logs/ada/4711_4294967294.out"),
        ("/logs/%8j.out", "/logs/00004711.out"),
        ("/logs/%99j.out", "/logs/0000004711.out"),
        ("/logs/%8x.out", "/logs/train.out"),
        ("/logs/100%%.out", "/logs/100%.out"),
        ("/logs/%q-%z-%.out", "/logs/%q-%z-%.out"),
        ("/logs//a/plain.out", "/logs/a/plain.out"),
    ],
)
def test_what_has_one_value_is_filled_in_and_nothing_stays_open(pattern: str, text: str) -> None:
    found = log_pattern(pattern, JOB)
    assert (found.text, found.is_open) == (text, False)
    assert "/" + "/".join(str(name) for name in found.names) == text


def test_an_array_task_has_its_own_numbers_and_its_own_job_id() -> None:
    assert log_pattern("/logs/%A/%a/%b/%j", TASK).text == "/logs/4711/23/3/4740"
    assert log_pattern("/logs/%j", LogFacts(job_id="4711_23")).text == "/logs/4711"
    assert log_pattern("/logs/%j", LogFacts(job_id="4711+1")).text == "/logs/4711"


@pytest.mark.parametrize(
    ("pattern", "name", "groups"),
    [
        ("/logs/%j-%t.out", "4711-12.out", {"rank": "12"}),
        ("/logs/%j-%4t.out", "4711-0012.out", {"rank": "0012"}),
        ("/logs/%t-%t.out", "3-3.out", {"rank": "3"}),
        ("/logs/%N.out", "gpu-02.out", {"node": "gpu-02"}),
        ("/logs/%J.out", "4711.0.out", {}),
        ("/logs/%J.out", "4711.out", {}),
        ("/logs/step%s-%n", "step0-15", {}),
        ("/logs/step%s", "stepbatch", {}),
        ("/logs/*.out", "anything at all.out", {}),
        ("/logs/a*b*c?.out", "a--b__b--cc.out", {}),
        ("/logs/rank[0-9][!a].log", "rank0b.log", {}),
        ("/logs/*-%t.log", "job-7-12.log", {"rank": "12"}),
    ],
)
def test_what_has_many_values_is_open(pattern: str, name: str, groups: dict[str, str]) -> None:
    found = last_name(pattern).fullmatch(name)
    assert found is not None
    assert found.groupdict() == groups


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("/logs/%j-%t.out", "4712-1.out"),
        ("/logs/%j-%t.out", "4711-x.out"),
        ("/logs/%t-%t.out", "3-4.out"),
        ("/logs/%N.out", "gpu-03.out"),
        ("/logs/*.out", "a.out.gz"),
        ("/logs/?.out", "ab.out"),
        ("/logs/%x*.out", "tr.ain"),
    ],
)
def test_other_names_are_other_files(pattern: str, name: str) -> None:
    assert last_name(pattern).fullmatch(name) is None


@pytest.mark.parametrize(
    ("pattern", "facts", "is_open"),
    [
        ("/logs/%j-%N", JOB, True),
        ("/logs/%J/%N", JOB, True),
        ("/logs/%A-%N", JOB, True),
        ("/logs/%A-%N", replace(TASK, nodes=("n1",)), False),  # the other tasks have that number, too
        ("/logs/%A_%a-%N", replace(TASK, nodes=("n1",)), True),
        ("/logs/%x-%N", JOB, False),
        ("/logs/%j", JOB, False),
        ("/logs/%j-%N", LogFacts(job_id="1"), False),  # its names are open already
    ],
)
def test_any_host_will_do_where_the_jobs_id_keeps_others_out(pattern: str, facts: LogFacts, is_open: bool) -> None:
    assert bool(log_pattern(pattern, facts).any_host) is is_open


def test_what_the_nodes_are_called_is_open_while_they_are_not_known() -> None:
    assert last_name("/logs/%N", LogFacts(job_id="1")).fullmatch("any-node-1")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc", "a/b", "\0", "*", "[a-z]", "%t", "?", ".*", "(x"])
def test_a_jobs_name_adds_no_folder_and_opens_nothing(name: str) -> None:
    found = log_pattern("/logs/%x.out", LogFacts(job_id="1", name=name))
    assert (len(found.names), found.is_open) == (2, False)
    assert "\0" not in found.text
    if "/" not in name and "\0" not in name:
        assert last_name("/logs/%x*.out", LogFacts(job_id="1", name=name)).fullmatch(f"{name}1.out")


@pytest.mark.parametrize("pattern", ["/logs/[z-a].out", "/logs/[", "/logs/[]", "/logs/" + "*a" * 21])
def test_what_is_no_pattern_is_a_name(pattern: str) -> None:
    assert not log_pattern(pattern, JOB).is_open


@given(st.text(max_size=60), st.text(max_size=20))
def test_no_pattern_raises(pattern: str, name: str) -> None:
    found = log_pattern(pattern, LogFacts(job_id="4_1", name=name, user=name, nodes=(name,)))
    assert isinstance(found, LogPattern)
    for part in found.names:
        if isinstance(part, re.Pattern):
            part.fullmatch(name)


def test_many_stars_do_not_make_a_comparison_endless() -> None:
    assert last_name("/logs/" + "*a" * 19 + "*b").fullmatch("a" * 255) is None
