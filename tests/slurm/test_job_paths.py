"""Each expectation is the name of a file that Slurm 22.05.8 made for that pattern."""

from __future__ import annotations

import dataclasses

import pytest

from recovery.slurm.job_paths import PathFacts, default_pattern, expand

PLAIN = PathFacts(
    raw_id=4711, array_id=0, array_task=None, name="llama", user="eva", node="gpu-01", work_dir="/home/eva"
)
TASK = dataclasses.replace(PLAIN, raw_id=4713, array_id=4711, array_task=2)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/logs/%x-%j.out", "/logs/llama-4711.out"),
        ("out/%j.log", "/home/eva/out/4711.log"),
        ("./a.log", "/home/eva/a.log"),
        ("%u@%N.log", "/home/eva/eva@gpu-01.log"),
        ("%J-%s-%n-%t.log", "/home/eva/4711-batch-0-0.log"),
        ("%A_%a.log", "/home/eva/4711_4294967294.log"),
        ("%7j.log", "/home/eva/0004711.log"),
        ("100%%-%j", "/home/eva/100%-4711"),
        ("%b-%Q", "/home/eva/%b-%Q"),
        (r"a\\b%j", r"/home/eva/a\b%j"),
        (r"%j\x", "/home/eva/%jx"),
    ],
)
def test_patterns_of_a_plain_job(pattern: str, path: str) -> None:
    assert expand(pattern, PLAIN) == path


def test_patterns_of_an_array_task() -> None:
    assert expand("%A_%a-%j-%3a.out", TASK) == "/home/eva/4711_2-4713-002.out"


def test_a_job_that_names_no_file_writes_where_slurm_decides() -> None:
    assert expand(default_pattern(PLAIN), PLAIN) == "/home/eva/slurm-4711.out"
    assert expand(default_pattern(TASK), TASK) == "/home/eva/slurm-4711_2.out"


def test_a_name_is_put_in_as_it_is_and_never_expanded_again() -> None:
    hostile = dataclasses.replace(PLAIN, name="%j/../%u\n")
    assert expand("%x.log", hostile) == "/home/eva/%j/../%u\n.log"


def test_no_pattern_is_no_file() -> None:
    assert expand("", PLAIN) == ""
