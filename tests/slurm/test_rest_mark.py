"""Cheap polling: when "nothing has changed" is asked for, and when it is believed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recovery.slurm.base import SlurmUnreachable
from recovery.slurm.rest import FULL_EVERY_S, RestClient
from recovery.slurm.rest_auth import fixed_token
from recovery.slurm.rest_http import RestHttp
from tests.slurm.rest_server import Asked, Said, Server, error, recorded, whole

NOW = 1_790_000_000
UNCHANGED_26_05 = {"jobs": [], "last_update": {"set": True, "infinite": False, "number": 0}}


def dated(seconds: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": seconds}


class Clock:
    now = float(NOW)

    def __call__(self) -> float:
        return self.now


def client(server: Server, clock: Callable[[], float] | None = None) -> RestClient:
    return RestClient(RestHttp(server.url), token=fixed_token("a.b.c"), clock=clock or Clock())


def test_the_mark_is_the_controllers_time_of_the_picture(server: Server) -> None:
    server.says(whole(jobs=[], last_update=dated(NOW - 7)))
    picture = client(server).jobs_since("")
    assert (picture.jobs, picture.mark) == ([], f"{NOW - 7}@{NOW}")
    client(server).jobs_since(picture.mark)
    assert [asked.query for asked in server.asked] == ["", f"update_time={NOW - 7}"]


def test_no_change_keeps_the_mark_and_gives_no_jobs(server: Server) -> None:
    mark = f"{NOW - 7}@{NOW - 5}"
    for said in (whole(**UNCHANGED_26_05), Said(status=304, kind="")):
        server.says(said)
        picture = client(server).jobs_since(mark)
        assert (picture.jobs, picture.mark) == (None, mark)


@pytest.mark.parametrize(
    ("version", "date"),
    [("v0.0.40", f"uts{NOW - 7}"), ("v0.0.41", f"uts{NOW - 7}"), ("v0.0.42", f"{NOW - 7}"), ("v0.0.45", f"{NOW - 7}")],
)
def test_each_version_is_given_the_date_as_it_reads_it(server: Server, version: str, date: str) -> None:
    server.begin(serves=version)
    server.says(whole(**UNCHANGED_26_05))
    assert client(server).jobs_since(f"{NOW - 7}@{NOW - 5}").jobs is None
    assert [asked.query for asked in server.asked] == [f"update_time={date}"]


def test_a_server_that_reads_no_date_of_ours_is_asked_for_everything(server: Server) -> None:
    """What 24.11's v0.0.40 and v0.0.41 say to a bare number: Slurm's own words in a 422."""
    refused = error(9202, "Unable to convert Data type", status=422)
    server.script = lambda asked: refused if asked.query else whole(jobs=[], last_update=dated(NOW))
    picture = client(server).jobs_since(f"{NOW - 7}@{NOW - 5}")
    assert (picture.jobs, picture.mark) == ([], f"{NOW}@{NOW}")


def test_22_05_is_asked_for_its_time_before_its_jobs(server: Server) -> None:
    """Its list of jobs has no date, so the mark must be older than the list: what changes in between is told again."""
    server.begin(serves="v0.0.38")
    diag = whole(statistics={"req_time": NOW - 3})
    jobs = recorded("22.05", "v0.0.38", "jobs")
    server.script = lambda asked: diag if asked.path.endswith("/diag") else jobs
    picture = client(server).jobs_since("")
    assert [asked.path.rpartition("/")[2] for asked in server.asked] == ["diag", "jobs"]
    assert picture.mark == f"{NOW - 3}@{NOW}"


def test_23_02_says_in_a_warning_that_nothing_changed(server: Server) -> None:
    """Its list has no date; an empty one without that warning could mean either, and everything is asked for."""
    server.begin(serves="v0.0.39")
    diag, empty = whole(statistics={"req_time": NOW - 3}), {"description": "Zero jobs to dump"}
    unchanged = Said(
        body={"warnings": [{"description": f"No job changes since update_time={NOW - 7}"}, empty], "jobs": []}
    )
    server.script = lambda asked: diag if asked.path.endswith("/diag") else unchanged
    mark = f"{NOW - 7}@{NOW - 5}"
    picture = client(server).jobs_since(mark)
    assert (picture.jobs, picture.mark) == (None, mark)
    server.script = lambda asked: diag if asked.path.endswith("/diag") else Said(body={"warnings": [empty], "jobs": []})
    picture = client(server).jobs_since(mark)
    assert (picture.jobs, picture.mark) == ([], f"{NOW - 3}@{NOW}")


def test_a_clock_that_was_put_back_at_22_05_is_seen_at_once(server: Server) -> None:
    server.begin(serves="v0.0.38")
    diag, jobs = whole(statistics={"req_time": NOW - 60}), recorded("22.05", "v0.0.38", "jobs")
    server.script = lambda asked: diag if asked.path.endswith("/diag") else jobs
    picture = client(server).jobs_since(f"{NOW - 7}@{NOW - 5}")
    assert picture.jobs
    assert picture.mark == f"{NOW - 60}@{NOW}"
    assert [asked.query for asked in server.asked] == ["", ""]


def test_a_controller_without_a_time_is_no_answer(server: Server) -> None:
    server.begin(serves="v0.0.38")
    server.says(whole(statistics={}, jobs=[]))
    with pytest.raises(SlurmUnreachable, match="what time it is"):
        client(server).jobs_since("")


def test_an_answer_that_is_older_than_the_one_before_is_no_picture(server: Server) -> None:
    server.says(whole(jobs=[], last_update=dated(NOW - 8)))
    with pytest.raises(SlurmUnreachable, match="older than the picture before"):
        client(server).jobs_since(f"{NOW - 7}@{NOW - 5}")
    server.says(whole(jobs=[], last_update=dated(NOW - 7)))
    assert client(server).jobs_since(f"{NOW - 7}@{NOW - 5}").jobs == []


def test_304_to_a_question_for_everything_is_no_answer(server: Server) -> None:
    server.says(Said(status=304, kind=""))
    with pytest.raises(SlurmUnreachable):
        client(server).jobs_since("")


def test_a_dated_empty_list_is_the_truth(server: Server) -> None:
    """The last job was purged: an empty picture, asked for once more in full."""
    server.says(whole(jobs=[], last_update=dated(NOW)))
    assert client(server).jobs_since(f"{NOW - 7}@{NOW - 5}").jobs == []


def test_an_empty_list_without_a_word_about_its_date_is_asked_again_in_full(server: Server) -> None:
    server.begin(serves="v0.0.38")
    diag, empty = whole(statistics={"req_time": NOW}), whole(jobs=[])
    full = recorded("22.05", "v0.0.38", "jobs")

    def script(asked: Asked) -> Said:
        if asked.path.endswith("/diag"):
            return diag
        return empty if asked.query else full

    server.script = script
    assert client(server).jobs_since(f"{NOW - 7}@{NOW - 5}").jobs


@pytest.mark.parametrize(
    "mark",
    [
        *("", "0", "yesterday", f"{NOW}@", f"{NOW}@{NOW}@{NOW}", f"{NOW}&flags=x@{NOW}", "٣@٣", "9" * 40 + "@1"),
        f"{NOW}@{NOW - FULL_EVERY_S - 1}",  # too old: a controller whose clock was put back would say "no change"
        f"{NOW}@{NOW + 60}",  # our own clock was put back
    ],
)
def test_a_mark_that_can_not_be_used_asks_for_everything(server: Server, mark: str) -> None:
    server.says(whole(jobs=[], last_update=dated(NOW)))
    assert client(server).jobs_since(mark).jobs == []
    assert [asked.query for asked in server.asked] == [""]


def test_the_mark_lasts_as_long_as_nothing_changes_but_not_for_ever(server: Server) -> None:
    clock = Clock()
    server.script = lambda asked: (
        whole(**UNCHANGED_26_05) if asked.query else whole(jobs=[], last_update=dated(int(clock.now)))
    )
    asks = client(server, clock)
    mark = asks.jobs_since("").mark
    for _ in range(31):
        clock.now += 10
        mark = asks.jobs_since(mark).mark
    assert [asked.query for asked in server.asked].count("") == 2
