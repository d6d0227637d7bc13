from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from recovery.core.logs import LogParser
from recovery.core.logs.cut import LINE_LIMIT, lines_of
from recovery.sources.cursor import Cursor
from recovery.sources.job_logs import MOST_LINES, LogRead, read_end, read_log
from tests.sources.conftest import Unprivileged


def read(path: Path, cursor: Cursor | None = None, *, max_bytes: int = 4_000_000, final: bool = False) -> LogRead:
    return read_log(str(path), cursor or Cursor(), roots=[str(path.parent)], max_bytes=max_bytes, final=final)


def texts(got: LogRead) -> list[str]:
    return [line.text for line in got.lines]


@pytest.fixture
def log(root: Path) -> Path:
    return root / "job.out"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_lines_carry_their_number_and_the_byte_where_they_start(log: Path) -> None:
    log.write_bytes(b"one\n\xc3\xa9 two\n\nfour\n")
    got = read(log)
    assert [(line.text, line.number, line.offset, line.file) for line in got.lines] == [
        ("one", 1, 0, str(log)),
        ("é two", 2, 4, str(log)),
        ("four", 4, 12, str(log)),
    ]
    assert (got.cursor.offset, got.cursor.line, got.more, got.error) == (17, 4, False, "")


def test_reading_goes_on_where_it_stopped(log: Path) -> None:
    log.write_bytes(b"one\n")
    first = read(log)
    append(log, b"two\nthree\n")
    second = read(log, first.cursor)
    assert [(line.text, line.number) for line in second.lines] == [("two", 2), ("three", 3)]
    assert texts(read(log, second.cursor)) == []


def test_an_unfinished_line_waits_until_it_is_whole(log: Path) -> None:
    log.write_bytes(b"one\niteration 84")
    first = read(log)
    assert texts(first) == ["one"]
    assert not first.more
    append(log, b"0/ 20000 |\n")
    assert texts(read(log, first.cursor)) == ["iteration 840/ 20000 |"]


def test_the_last_words_without_a_line_end_count_when_nobody_writes_any_more(log: Path) -> None:
    log.write_bytes(b"one\nSegmentation fault")
    first = read(log)
    last = read(log, first.cursor, final=True)
    assert [(line.text, line.number) for line in last.lines] == [("Segmentation fault", 2)]
    assert texts(read(log, last.cursor, final=True)) == []


def test_a_file_that_is_not_there_yet_is_missing_and_no_error(log: Path) -> None:
    cursor = Cursor(inode=7, offset=9, line=1, head="x")
    got = read(log, cursor)
    assert (got.missing, got.error, got.cursor, texts(got)) == (True, "", cursor, [])


def test_a_log_that_vanishes_between_two_looks_is_missing_and_its_place_is_kept(log: Path) -> None:
    log.write_bytes(b"one\n")
    first = read(log)
    log.unlink()
    got = read(log, first.cursor)
    assert (got.missing, got.cursor) == (True, first.cursor)


def test_a_replaced_file_is_read_from_its_start(log: Path) -> None:
    log.write_bytes(b"old 1\nold 2\n")
    first = read(log)
    log.rename(log.with_suffix(".1"))
    log.write_bytes(b"new 1\nnew 2\nnew 3\n")
    second = read(log, first.cursor)
    assert [(line.text, line.number) for line in second.lines] == [("new 1", 1), ("new 2", 2), ("new 3", 3)]


def test_a_log_that_was_rotated_away_is_read_to_its_end_before_the_new_one(log: Path) -> None:
    log.write_bytes(b"one\n")
    first = read(log)
    append(log, b"two\nhalf")
    log.rename(log.with_name("job.out.1"))
    log.write_bytes(b"new\n")
    second = read(log, first.cursor)
    assert (texts(second), second.more) == (["two", "half"], True)
    assert second.lines[0].file == f"{log}.1"
    third = read(log, second.cursor)
    assert (texts(third), third.more, third.lines[0].number) == (["new"], False, 1)


def test_a_writer_that_does_not_notice_the_rotation_is_followed_under_the_new_name(log: Path) -> None:
    log.write_bytes(b"one\n")
    first = read(log)
    log.rename(log.with_name("job.out-20260203"))
    again = read(log, first.cursor)
    assert (texts(again), again.missing, again.cursor) == ([], False, first.cursor)
    append(log.with_name("job.out-20260203"), b"two\n")
    assert texts(read(log, again.cursor)) == ["two"]


def test_a_copy_that_is_kept_while_the_log_is_emptied_is_not_read_again(log: Path) -> None:
    log.write_bytes(b"one\n")
    first = read(log)
    shutil.copy(log, log.with_name("job.out.1"))
    log.open("wb").close()
    append(log, b"two\n")
    assert texts(read(log, first.cursor)) == ["two"]


def test_what_was_added_before_the_log_was_copied_away_and_emptied_is_read_in_the_copy(log: Path) -> None:
    log.write_bytes(b"one\n")
    first = read(log)
    append(log, b"two\nthree\n")
    shutil.copy(log, log.with_name("job.out.1"))
    os.truncate(log, 0)
    append(log, b"four\n" * 5)
    second = read(log, first.cursor)
    assert (texts(second), second.more, second.anew) == (["two", "three"], True, False)
    assert second.lines[0].file == f"{log}.1"
    third = read(log, second.cursor)
    assert (texts(third), third.more, third.anew) == (["four"] * 5, False, False)
    append(log, b"five\n")
    assert texts(read(log, third.cursor)) == ["five"]


def test_a_log_that_was_moved_to_a_name_that_no_database_keeps_is_gone(log: Path) -> None:
    log.write_bytes(b"one\n")
    first = read(log)
    append(log, b"two\n")
    log.rename(os.fsdecode(os.fsencode(log) + b".\xff"))
    assert read(log, first.cursor).missing
    log.write_bytes(b"three\n")
    assert texts(read(log, first.cursor)) == ["three"]


def test_of_two_copies_between_two_looks_the_second_is_read_where_the_first_has_nothing_new(log: Path) -> None:
    log.write_bytes(b"one\n")
    got = read(log)
    shutil.copy(log, log.with_name("job.out.2"))
    os.truncate(log, 0)
    append(log, b"two\n")
    shutil.copy(log, log.with_name("job.out.1"))
    os.truncate(log, 0)
    append(log, b"three\n")
    seen = []
    for _ in range(3):
        got = read(log, got.cursor)
        seen += [(line.text, line.number) for line in got.lines]
    assert seen == [("two", 1), ("three", 1)]
    assert (got.more, got.anew) == (False, False)


def test_of_several_rotations_between_two_looks_the_oldest_is_read_first(log: Path) -> None:
    log.write_bytes(b"one\n")
    got = read(log)
    append(log, b"two\n")
    log.rename(log.with_name("job.out.2"))
    log.with_name("job.out.1").write_bytes(b"three\n")
    log.write_bytes(b"four\n")
    seen = []
    for _ in range(10):
        got = read(log, got.cursor)
        seen += texts(got)
        if not got.more:
            break
    assert (seen, got.more) == (["two", "three", "four"], False)


def test_dated_rotations_follow_each_other_by_date(log: Path) -> None:
    log.write_bytes(b"one\n")
    got = read(log)
    log.rename(log.with_name("job.out-20260203"))
    for name, text in (("job.out-20260204", b"two\n"), ("job.out-20260205", b"three\n"), ("job.out", b"four\n")):
        log.with_name(name).write_bytes(text)
    seen = []
    for _ in range(4):
        got = read(log, got.cursor)
        seen += texts(got)
    assert seen == ["two", "three", "four"]


def test_a_log_that_was_emptied_and_not_copied_is_read_anew_and_says_so(log: Path) -> None:
    log.write_bytes(b"one\n")
    first = read(log)
    os.truncate(log, 0)
    append(log, b"two\n")
    log.with_name("job.out.1").write_bytes(b"another log\n")
    second = read(log, first.cursor)
    assert (texts(second), second.anew) == (["two"], True)
    assert not read(log, second.cursor).anew


def test_no_copy_is_looked_for_among_the_logs_of_others(log: Path) -> None:
    log.write_bytes(b"module load cuda\n")
    first = read(log)
    os.truncate(log, 0)
    for name in ("job.out0", "job.out.err", "job.output.1"):
        log.with_name(name).write_bytes(b"module load cuda\nnot of this job\n")
    assert texts(read(log, first.cursor)) == []


def test_a_copy_outside_the_roots_is_not_opened(log: Path, tmp_path: Path) -> None:
    log.write_bytes(b"one\n")
    first = read(log)
    (tmp_path / "secret").write_bytes(b"one\nsecret\n")
    log.with_name("job.out.1").symlink_to(tmp_path / "secret")
    os.mkfifo(log.with_name("job.out.2"))
    os.truncate(log, 0)
    assert texts(read(log, first.cursor)) == []


def test_another_file_that_was_given_the_inode_of_a_log_that_is_gone_is_not_taken_for_it(log: Path) -> None:
    log.write_bytes(b"one\n")
    first = read(log)
    log.rename(log.with_name("job.out.err"))  # as if it had been made with the same number
    log.with_name("job.out.err").write_bytes(b"error stream\nof another file\n")
    log.write_bytes(b"two\n")
    assert texts(read(log, first.cursor)) == ["two"]


def test_a_writer_that_does_not_notice_that_its_log_was_emptied_is_read_on_behind_the_hole(log: Path) -> None:
    with log.open("wb") as file:
        file.write(b"iteration 1\n" * 1_000_000)
        file.flush()
        first = read(log, max_bytes=20_000_000)
        cursor = first.cursor
        while first.more:
            first = read(log, cursor)
            cursor = first.cursor
        os.truncate(log, 0)
        file.write(b"iteration 2\n")
        file.flush()
        second = read(log, cursor)
        assert [text.strip("\0") for text in texts(second)] == ["iteration 2"]
        file.write(b"iteration 3\n")
        file.flush()
        assert texts(read(log, second.cursor)) == ["iteration 3"]


def test_a_hole_of_a_terabyte_costs_nothing_and_hides_nothing(log: Path) -> None:
    log.write_bytes(b"one\n")
    os.truncate(log, 2**40)
    first = read(log)
    second = read(log, first.cursor)
    assert (texts(first), second.more) == (["one"], False)
    append(log, b"two\n")
    assert [text.strip("\0") for text in texts(read(log, second.cursor))] == ["two"]


def test_a_file_truncated_in_place_is_read_from_its_start(log: Path) -> None:
    log.write_bytes(b"old 1\nold 2\n")
    first = read(log)
    os.truncate(log, 0)
    assert texts(read(log, first.cursor)) == []
    append(log, b"new\n")
    assert texts(read(log, first.cursor)) == ["new"]


def test_a_file_truncated_and_grown_past_the_old_place_is_read_from_its_start(log: Path) -> None:
    log.write_bytes(b"old line\n" * 10)
    first = read(log)
    os.truncate(log, 0)
    append(log, b"new line\n" * 50)
    assert texts(read(log, first.cursor)) == ["new line"] * 50


def test_a_second_attempt_with_the_same_long_head_is_noticed_by_what_stood_before_the_place(log: Path) -> None:
    head = b"module load cuda\n" * 200
    log.write_bytes(head + b"attempt 0 at 12:00\n" * 20)
    first = read(log)
    os.truncate(log, 0)
    append(log, head + b"attempt 1 at 13:00\n" * 40)
    assert len(read(log, first.cursor).lines) == 240


def test_a_second_attempt_that_appends_is_read_on(log: Path) -> None:
    log.write_bytes(b"attempt 0\n" * 300)
    first = read(log)
    append(log, b"attempt 1\n" * 300)
    second = read(log, first.cursor)
    assert texts(second) == ["attempt 1"] * 300
    assert second.lines[0].number == 301


def test_a_cursor_without_landmarks_is_trusted(log: Path) -> None:
    log.write_bytes(b"one\ntwo\n")
    assert texts(read(log, Cursor(inode=log.stat().st_ino, offset=4, line=1))) == ["two"]


def test_a_line_of_megabytes_is_cut_and_the_next_one_is_whole(log: Path) -> None:
    log.write_bytes(b"x" * 3_000_000 + b"\nafter\n")
    got = read(log)
    assert [(len(line.text), line.number) for line in got.lines] == [(LINE_LIMIT, 1), (5, 2)]


def test_a_line_longer_than_a_pass_is_given_out_once(log: Path) -> None:
    log.write_bytes(b"x" * 1_000_000 + b"\nafter\n")
    cursor, seen = Cursor(), []
    for _ in range(20):
        got = read(log, cursor, max_bytes=100_000)
        seen += [(line.text[:5], line.number) for line in got.lines]
        cursor = got.cursor
        if not got.more:
            break
    assert seen == [("xxxxx", 1), ("after", 2)]
    assert not got.more


def test_a_line_that_grows_beyond_the_limit_does_not_wait_for_its_end(log: Path) -> None:
    log.write_bytes(b"x" * (LINE_LIMIT + 1))
    first = read(log)
    assert [len(text) for text in texts(first)] == [LINE_LIMIT]
    append(log, b"y" * 100 + b"\nafter\n")
    assert texts(read(log, first.cursor)) == ["after"]


def test_a_huge_backlog_is_read_in_bounded_passes(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write_bytes(b"a line of thirty-two characters\n" * 30_000)
    asked: list[int] = []
    pread = os.pread

    def counting(descriptor: int, count: int, offset: int) -> bytes:
        asked.append(count)
        return pread(descriptor, count, offset)

    monkeypatch.setattr(os, "pread", counting)
    cursor, lines, passes = Cursor(), 0, 0
    while True:
        got = read(log, cursor, max_bytes=100_000)
        cursor, lines, passes = got.cursor, lines + len(got.lines), passes + 1
        assert max(asked) <= 100_000
        if not got.more:
            break
    assert (lines, passes) == (30_000, 10)


def test_a_log_of_nothing_but_short_lines_comes_in_bounded_answers(log: Path) -> None:
    log.write_bytes(b"x\n" * 250)
    cursor, sizes = Cursor(), []
    for _ in range(3):
        got = read_log(str(log), cursor, roots=[str(log.parent)], most_lines=100)
        cursor = got.cursor
        sizes.append((len(got.lines), got.more))
    assert sizes == [(100, True), (100, True), (50, False)]
    assert cursor.line == 250


def test_lines_that_a_parser_counts_are_neither_counted_nor_bounded(log: Path) -> None:
    log.write_bytes(b"before\n")
    before = read(log)
    append(log, b"x\n" * (MOST_LINES + 1))
    got = read_log(str(log), before.cursor, roots=[str(log.parent)], most_lines=None)
    assert (len(got.lines), got.more, got.cursor.line) == (MOST_LINES + 1, False, 1)
    parser = LogParser()
    parser.feed_bytes(got.read)
    assert parser.line == MOST_LINES + 2


def test_blank_lines_are_counted_and_not_given_out(log: Path) -> None:
    log.write_bytes(b"\n \n\t\n\r\n\0\0\nword\n")
    assert [(line.text, line.number) for line in read(log).lines] == [("word", 6)]


def test_binary_garbage_is_text_with_marks(log: Path) -> None:
    log.write_bytes(b"\xff\xfe\x00garbage\x80\n" + bytes(range(256)) + b"\nafter\n")
    got = read(log)
    assert texts(got)[-1] == "after"
    assert "garbage\ufffd" in texts(got)[0]


def test_windows_line_ends_leave_no_trace(log: Path) -> None:
    log.write_bytes(b"one\r\ntwo\r\n")
    assert texts(read(log)) == ["one", "two"]


def test_a_progress_bar_that_never_ends_its_line_is_followed(log: Path) -> None:
    log.write_bytes(b"start\n\r 1/100\r 2/100\r 3/1")
    first = read(log)
    assert [(line.text, line.number) for line in first.lines] == [("start", 1), (" 2/100", 2)]
    append(log, b"00\r 4/100\r")
    second = read(log, first.cursor)
    assert [(line.text, line.number) for line in second.lines] == [(" 3/100", 2)]
    append(log, b"\n done\n")
    assert [(line.text, line.number) for line in read(log, second.cursor).lines] == [(" 4/100", 2), (" done", 3)]


def test_what_is_printed_upon_a_bar_brings_the_bar_with_it(log: Path) -> None:
    log.write_bytes(b"\r 1%|a| 1/100\r 2%|a| 2/100\r       \r{'loss': 2}\n\r 3%|a| 3/100\r 4%|a| 4/100\nplain\rmore\n")
    lines = read(log).lines
    assert [line.text for line in lines] == [" 2%|a| 2/100\r{'loss': 2}", " 4%|a| 4/100", "more"]
    assert log.read_bytes()[lines[0].offset :].startswith(b"{'loss'")


def test_of_a_bar_with_a_megabyte_of_history_the_last_state_is_given_out(log: Path) -> None:
    log.write_bytes(b"".join(b"\r %d/100000" % n for n in range(100_000)) + b"\n")
    assert texts(read(log)) == [" 99999/100000"]


def test_an_unreadable_log_is_an_error_with_a_remedy(open_root: Path, unprivileged: Unprivileged) -> None:
    log = open_root / "job.out"
    log.write_bytes(b"one\n")
    cursor = read(log).cursor
    log.chmod(0o000)
    with unprivileged() as account:
        got = read(log, cursor)
    assert f"setfacl -m u:{account}:r" in got.remedy
    assert (got.missing, got.cursor, texts(got)) == (False, cursor, [])
    assert str(log) in got.error


def test_a_pipe_is_refused_without_waiting_for_a_writer(log: Path) -> None:
    os.mkfifo(log)
    got = read(log)
    assert "a pipe" in got.error
    assert got.remedy


def test_a_log_outside_the_roots_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (root / "job.out").symlink_to(tmp_path / "secret")
    got = read(root / "job.out")
    assert "outside" in got.error
    assert "RECOVERY_LOG_ROOTS" in got.remedy
    assert texts(got) == []


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_an_error_of_the_file_system_is_told_and_loses_nothing(
    number: int, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_bytes(b"one\n")

    def fail(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    cursor = Cursor(inode=log.stat().st_ino)
    monkeypatch.setattr(os, "pread", fail)
    got = read(log, cursor)
    assert os.strerror(number) in got.error
    assert "tried again" in got.remedy
    assert got.cursor == cursor


def test_a_cursor_fits_its_column(log: Path) -> None:
    log.write_bytes(b"x\n" * 10_000)
    assert 0 < len(read(log).cursor.head) <= 64


def test_the_end_of_a_log_can_be_read_whatever_lies_before_it(log: Path) -> None:
    log.write_bytes(b"first line\n" + b"x" * 1000 + b"\nlast whole line\nhalf a l")
    end = read_end(str(log), roots=[str(log.parent)], max_bytes=100)
    assert end is not None
    assert [line.text for line in lines_of(end)] == ["last whole line"]
    whole = read_end(str(log), roots=[str(log.parent)])
    assert whole is not None
    assert next(lines_of(whole)).text == "first line"
    assert read_end(str(log), roots=["/nowhere"]) is None
    assert read_end(str(log.parent / "none"), roots=[str(log.parent)]) is None
