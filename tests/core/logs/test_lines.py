from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.logs.lines import MAX_CHARS, SHOWN_CHARS, clean, time_of

NO_OFFSET = timedelta(0)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m and \x1b[1;38;5;208mbold\x1b[m", "red and bold"),
        ("\x1b]0;window title\x07after", "after"),
        ("\x1b]8;;http://example.test\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bcharset \x1b7saved", "charset saved"),
        ("\x1b[2Kcleared", "cleared"),
        ("cut off \x1b[31", "cut off 31"),
        ("tab\tbed", "tab bed"),
        ("nul\0nul\x07bell\x08", "nulnulbell"),
        ("right\u202eto left\u2066isolated\u200bwidth", "rightto leftisolatedwidth"),
        ("\ufeffbom", "bom"),
        ("next\x85line\u2028separator", "next line separator"),
        ("trailing   ", "trailing"),
        ("", ""),
        (" \t ", ""),
    ],
)
def test_colours_and_unseen_characters_are_taken_off(raw: str, text: str) -> None:
    assert clean(raw).text == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("  1%|▏| 1/100\r  2%|▏| 2/100", "  2%|▏| 2/100"),
        ("state 1\rstate 2\r", "state 2"),
        ("state 1\r          \r", "state 1"),
        ("windows line end\r", "windows line end"),
        ("\r\r\r", ""),
    ],
)
def test_of_a_progress_bar_the_last_state_is_kept(raw: str, text: str) -> None:
    assert clean(raw).text == text


@pytest.mark.parametrize(
    ("raw", "text", "rank", "task"),
    [
        ("12: loss", "loss", 12, 12),
        (" 3: loss", "loss", 3, 3),
        ("0:", "", 0, 0),
        ("[rank3]: loss", "loss", 3, None),
        ("[rank3]:[E1105 04:05:06 x.cpp] boom", "[E1105 04:05:06 x.cpp] boom", 3, None),
        ("[default0]:loss", "loss", 0, None),
        ("[1,11]<stderr>:loss", "loss", 11, None),
        ("(WorkerDict pid=41299, ip=10.2.0.2) loss", "loss", None, None),
        ("(main_task pid=7) [rank3]: loss", "loss", 3, None),
        ("[default5]:[rank13]: loss", "loss", 13, None),
        ("2: [default5]:loss", "loss", None, 2),  # the node's task and a local rank: which rank that is, is not said
        ("2: [rank21]: loss", "loss", 21, 2),
        ("2026-02-03T04:05:06.123456789Z stdout F 7: loss", "loss", 7, 7),
        ("2026-02-03T04:05:06.123456789Z loss", "loss", None, None),
        ("04:05:06 loss", "04:05:06 loss", None, None),  # a clock is no label
        ("[Rank 3] Watchdog caught", "[Rank 3] Watchdog caught", None, None),  # the program's own words
        ("99999999: too many digits", "99999999: too many digits", None, None),
        ("step 12: loss", "step 12: loss", None, None),
        ("1: 2: 3: nested once", "2: 3: nested once", 1, 1),
    ],
)
def test_prefixes_of_launchers_give_the_rank(raw: str, text: str, rank: int | None, task: int | None) -> None:
    cleaned = clean(raw)
    assert (cleaned.text, cleaned.rank, cleaned.task) == (text, rank, task)


def test_a_person_still_sees_the_prefix() -> None:
    assert clean("\x1b[31m[rank3]: boom\x1b[0m").shown == "[rank3]: boom"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (" [2026-02-03 04:05:06.700000] iteration", datetime(2026, 2, 3, 4, 5, 6, 700000, UTC)),
        ("2026-02-03 04:05:06,700 - root - INFO", datetime(2026, 2, 3, 4, 5, 6, 700000, UTC)),
        ("[2026-02-03 04:05:06,7] [INFO]", datetime(2026, 2, 3, 4, 5, 6, 700000, UTC)),
        ("2026-02-03T04:05:06Z x", datetime(2026, 2, 3, 4, 5, 6, 0, UTC)),
        ("2026-02-03T04:05:06+02:00 x", datetime(2026, 2, 3, 2, 5, 6, 0, UTC)),
        ("2026-02-03T04:05:06.5-0130 x", datetime(2026, 2, 3, 5, 35, 6, 500000, UTC)),
        (
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-02-03T04:05:06 ***",
            datetime(2026, 2, 3, 4, 5, 6, 0, UTC),
        ),
        ("[after training is done] datetime: 2026-02-03 04:05:06", datetime(2026, 2, 3, 4, 5, 6, 0, UTC)),
        ("  time      : 2026-02-03_04:05:06", datetime(2026, 2, 3, 4, 5, 6, 0, UTC)),
        ("[2026-13-45 04:05:06] no such month", None),
        ("[0001-01-01 00:00:00+14:00] before all time", None),
        ("resuming the run of 2026-02-03 04:05:06", None),  # a time that the line speaks of is not its own
        ("no time", None),
    ],
)
def test_the_time_of_a_line(text: str, at: datetime | None) -> None:
    assert time_of(text, utc_offset=NO_OFFSET) == at


def test_a_time_without_a_zone_is_the_clusters_local_time() -> None:
    cleaned = clean("[2026-02-03 04:05:06] x", utc_offset=timedelta(hours=9))
    assert cleaned.at == datetime(2026, 2, 2, 19, 5, 6, tzinfo=UTC)


def test_a_zone_in_the_line_wins_over_the_clusters() -> None:
    assert time_of("2026-02-03T04:05:06Z", utc_offset=timedelta(hours=9)) == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_the_containers_time_is_used_where_the_line_has_none() -> None:
    at = clean("2026-02-03T04:05:06.123456789Z stderr F boom").at
    assert at == datetime(2026, 2, 3, 4, 5, 6, 123456, UTC)


@given(st.text(alphabet=st.characters(), max_size=300))
def test_any_text_becomes_printable_and_short(raw: str) -> None:
    cleaned = clean(raw)
    assert cleaned.text.isprintable()
    assert cleaned.shown.isprintable()
    assert len(cleaned.shown) <= SHOWN_CHARS
    cleaned.text.encode()  # no half characters


@given(st.text(alphabet="\x1b[]0;1 m\x07\\\r\x9b(B3:ranksdefult", max_size=400))
def test_no_mix_of_escape_pieces_breaks_it(raw: str) -> None:
    assert "\x1b" not in clean(raw).text


def test_an_endless_line_is_cut_before_anything_is_matched() -> None:
    assert len(clean("x" * 1_000_000).text) == MAX_CHARS
    assert clean("\r" * 1_000_000).text == ""


@pytest.mark.parametrize("prefix", ["[titan] ", "[NeMo I ", "[NeMo W ", "[", " [", ""])
def test_the_brackets_of_trainers_before_a_time_are_known(prefix: str) -> None:
    assert time_of(f"{prefix}2026-02-03 04:05:06 - x", utc_offset=NO_OFFSET) == datetime(
        2026, 2, 3, 4, 5, 6, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("raw", "before"),
    [
        ("\r 1%|a| 1/9\r 2%|a| 2/9\r    \rprinted", " 2%|a| 2/9"),
        ("\r 1%|a| 1/9\r 2%|a| 2/9", ""),  # a bar hides the bar before it
        ("one\rtwo", ""),
        ("\rprinted", ""),
        ("printed", ""),
    ],
)
def test_the_bar_upon_which_a_line_is_printed_comes_with_it(raw: str, before: str) -> None:
    assert clean(raw).before == before
