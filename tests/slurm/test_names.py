from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.slurm.base import JobNotFound, SlurmRefused
from recovery.slurm.names import check_job_id, check_node_names, check_word, one_line


@pytest.mark.parametrize("job_id", ["1", "4711", "4711_0", "4711_3", "4711+1"])
def test_ids_as_slurm_writes_them_are_taken(job_id: str) -> None:
    check_job_id(job_id)


@pytest.mark.parametrize("job_id", ["", "0", "all", "1,2", "1_[1-3]", "-1", "1 ", "1\n", "١٢", "1;2", "1+", "1" * 11])
def test_what_is_no_id_is_no_job(job_id: str) -> None:
    with pytest.raises(JobNotFound):
        check_job_id(job_id)


@pytest.mark.parametrize("name", ["ALL", "all", "All", "n[1-2]", "n1,n2", "", "-n1", "n1\n"])
def test_what_means_more_than_one_node_is_no_name_of_one(name: str) -> None:
    with pytest.raises(SlurmRefused):
        check_node_names(("n1", name), tried="drain")


@pytest.mark.parametrize("word", ["ada", "_svc", "a.b-c_d", "host$", "ada@example.org", "1000"])
def test_words_that_name_a_user_are_taken(word: str) -> None:
    check_word(word, kind="user", tried="submit")


@pytest.mark.parametrize("word", ["", "-u", "two words", "a,b", "a=b", "../x", "a\n", "a;b", "x" * 200])
def test_what_could_be_an_option_or_a_list_is_no_word(word: str) -> None:
    with pytest.raises(SlurmRefused, match="no account name"):
        check_word(word, kind="account", tried="submit")


@given(st.text(), st.integers(1, 50))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert "\0" not in line
    line.encode()
    assert one_line(line, limit) == line


def test_a_text_that_is_too_long_shows_that_it_is_cut() -> None:
    assert one_line("abcdef", 4) == "abc…"
    assert one_line(" first\r\n\tsecond ", 100) == "first second"
