"""The hub of live changes: one poller, a queue per stream, nothing lost and nothing held."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connections
from django.test import AsyncClient

from dashboard import live
from dashboard.live import BATCH, QUEUE, RESET, Change, Hub, fetch_since, newest_id, stream
from recovery.access import Actor
from tests.factories import make_event, make_incident

T = TypeVar("T")
WITHIN_S = 5.0


def everything(_: Change) -> bool:
    return True


@dataclass
class Table:
    """Stands for the event table."""

    changes: list[Change] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    released: int = 0
    failing: bool = False

    def add(self, *numbers: int) -> None:
        self.changes += [
            Change(id=n, kind="incident", subject="7", incident=7, verb="incident.acting") for n in numbers
        ]

    def fetch(self, after: int, most: int) -> list[Change]:
        if self.failing:
            raise OSError("the database is away")
        self.asked.append(after)
        found = sorted((c for c in self.changes if c.id > after), key=lambda change: change.id)
        return found[:most]

    def newest(self) -> int:
        return max((c.id for c in self.changes), default=0)

    def release(self) -> None:
        self.released += 1

    def hub(self, **wishes: Any) -> Hub:
        return Hub(fetch=self.fetch, newest=self.newest, release=self.release, poll_s=0.005, **wishes)


def run(work: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own: this one may belong to the event loop of a browser already."""

    async def bounded() -> T:
        try:
            return await asyncio.wait_for(work, WITHIN_S)
        finally:
            await sync_to_async(connections.close_all)()

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, bounded()).result()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


async def next_id(queue: asyncio.Queue[Change | None]) -> int | None:
    told = await asyncio.wait_for(queue.get(), WITHIN_S)
    return None if told is None else told.id


async def changes_of(body: AsyncGenerator[str, None], count: int) -> list[str]:
    """The next messages other than the greeting and heartbeats."""
    found: list[str] = []
    while len(found) < count:
        text = await asyncio.wait_for(anext(body), WITHIN_S)
        if not text.startswith((":", "retry")):
            found.append(text)
    return found


def test_every_listener_hears_of_a_change_and_one_poller_asks() -> None:
    async def work() -> None:
        table = Table()
        table.add(1)
        hub = table.hub()
        async with hub.listen() as one, hub.listen() as two:
            await hub.missed(1)
            table.add(2)
            assert [await next_id(one), await next_id(two)] == [2, 2]
            assert hub.listeners == 2
        await until(lambda: not hub.polling)

    run(work())


def test_nobody_listening_means_no_polling_and_the_connection_is_given_back() -> None:
    async def work() -> None:
        table = Table()
        hub = table.hub()
        assert hub.listeners == 0
        async with hub.listen():
            await hub.missed(0)
            assert hub.polling
        await until(lambda: not hub.polling)
        await until(lambda: table.released == 1)
        async with hub.listen() as again:  # and it starts anew
            await hub.missed(0)
            table.add(1)
            assert await next_id(again) == 1

    run(work())


def test_a_change_is_told_once_although_it_is_read_again() -> None:
    async def work() -> None:
        table = Table()
        hub = table.hub(look_back_s=60)
        async with hub.listen() as queue:
            await hub.missed(0)
            table.add(1, 2)
            assert [await next_id(queue), await next_id(queue)] == [1, 2]
            asked = len(table.asked)
            await until(lambda: len(table.asked) > asked + 3)
            assert set(table.asked) == {0}  # read from the same place each time
            assert queue.empty()

    run(work())


def test_an_id_that_becomes_visible_late_is_still_told() -> None:
    async def work() -> None:
        table = Table()
        hub = table.hub(look_back_s=60)
        async with hub.listen() as queue:
            await hub.missed(0)
            table.add(12)
            assert await next_id(queue) == 12
            table.add(11)  # its transaction was given its id first and committed last
            assert await next_id(queue) == 11

    run(work())


def test_the_hub_forgets_what_is_old() -> None:
    async def work() -> None:
        table = Table()
        hub = table.hub(look_back_s=0.02)
        async with hub.listen() as queue:
            await hub.missed(0)
            for number in range(1, 6):
                table.add(number)
                assert await next_id(queue) == number
            await until(lambda: table.asked[-1] >= 4)

    run(work())


def test_more_changes_than_fit_into_one_look_all_arrive() -> None:
    async def work() -> None:
        table = Table()
        hub = table.hub(look_back_s=60)
        async with hub.listen() as queue:
            await hub.missed(0)
            seen: list[int | None] = []
            for first in range(1, 3 * BATCH, QUEUE // 2):
                table.add(*range(first, first + QUEUE // 2))
                seen += [await next_id(queue) for _ in range(QUEUE // 2)]
            assert seen == sorted(number for number in seen if number is not None)
            assert len(seen) > 2 * BATCH

    run(work())


def test_a_listener_that_does_not_keep_up_is_told_to_fetch_everything() -> None:
    async def work() -> None:
        table = Table()
        hub = table.hub()
        async with hub.listen() as slow:
            await hub.missed(0)
            table.add(*range(1, QUEUE + 50))
            await until(lambda: len(table.asked) > 3)
            told = [slow.get_nowait() for _ in range(slow.qsize())]
            assert told[0] is None
            assert len(told) <= QUEUE

    run(work())


def test_a_database_that_goes_away_closes_no_stream(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        table = Table()
        hub = table.hub()
        async with hub.listen() as queue:
            await hub.missed(0)
            table.failing = True
            await until(lambda: table.released > 0)
            table.failing = False
            table.add(1)
            assert await next_id(queue) == 1

    run(work())
    assert "could not read the event table" in caplog.text


def test_a_stream_says_what_changed_with_the_id_to_resume_from() -> None:
    async def work() -> None:
        table = Table()
        hub = table.hub()
        body = stream(hub, None, hears=everything)
        assert await anext(body) == "retry: 2000\n\n"
        waiting = asyncio.ensure_future(changes_of(body, 1))
        await hub.missed(0)
        table.add(5)
        (message,) = await waiting
        head, kind, data = message.strip().split("\n")
        assert (head, kind) == ("id: 5", "event: change")
        assert json.loads(data.removeprefix("data: ")) == {
            "kind": "incident", "subject": "7", "incident": 7, "verb": "incident.acting",
        }  # fmt: skip
        await body.aclose()
        assert hub.listeners == 0

    run(work())


def test_a_resumed_stream_begins_with_what_was_missed() -> None:
    async def work() -> None:
        table = Table()
        table.add(1, 2, 3)
        body = stream(table.hub(), 1, hears=everything)
        assert [m.split("\n")[0] for m in await changes_of(body, 2)] == ["id: 2", "id: 3"]
        await body.aclose()

    run(work())


@pytest.mark.parametrize(
    ("kind", "subject", "verb", "ended"),
    [
        ("account", "7", "account.role_changed", True),
        ("account", "7", "account.password_changed", True),
        ("account", "7", "account.logged_in", False),
        ("account", "8", "account.role_changed", False),
        ("incident", "7", "incident.acting", False),
    ],
)
def test_a_stream_ends_with_the_sessions_of_its_account(kind: str, subject: str, verb: str, ended: bool) -> None:
    """Who hears is then asked anew who they are, and told nothing more before."""
    mine = Actor(kind="user", name="ada", user_id=7, permissions=frozenset())

    async def work() -> None:
        table = Table()
        body = stream(table.hub(), 0, hears=everything, over=partial(live.ends, mine))

        async def happens() -> None:
            while not table.asked:
                await asyncio.sleep(0)
            table.changes += [Change(id=1, kind=kind, subject=subject, incident=None, verb=verb)]
            table.add(2)

        happening = asyncio.create_task(happens())
        told: list[str] = []
        async for text in body:
            told += [text.split("\n")[0]] if text.startswith("id") else []
            if "id: 2" in told:
                break
        assert told == ([] if ended else ["id: 1", "id: 2"])
        await happening
        await body.aclose()

    run(work())


def test_too_much_missed_is_one_word() -> None:
    async def work() -> None:
        table = Table()
        table.add(*range(1, BATCH + 3))
        body = stream(table.hub(), 0, hears=everything)
        assert await changes_of(body, 1) == [RESET]
        await body.aclose()

    run(work())


def test_a_silent_stream_says_that_it_lives_and_ends_in_time() -> None:
    async def work() -> None:
        table = Table()
        told = [text async for text in stream(table.hub(), None, hears=everything, heartbeat_s=0.02, life_s=0.1)]
        assert told[1:] == [": still here\n\n"] * (len(told) - 1)
        assert len(told) > 2

    run(work())


@pytest.mark.django_db
def test_the_table_is_read_by_id_and_no_further_than_asked() -> None:
    incident = make_incident()
    events = [make_event(incident=incident) for _ in range(3)]
    found = fetch_since(events[0].pk, 10)
    assert [change.id for change in found] == [events[1].pk, events[2].pk]
    assert found[0].incident == incident.pk
    assert len(fetch_since(0, 2)) == 2
    assert newest_id() == events[2].pk


@pytest.mark.django_db
def test_an_empty_table_has_no_newest_change() -> None:
    assert newest_id() == 0


# --- the view


def ask(user: User | None, **headers: str) -> Any:
    """The answer to one request, whose browser goes away after the first line."""

    async def work() -> Any:
        client = AsyncClient()
        if user is not None:
            await client.aforce_login(user)
        response: Any = await client.get("/live/", headers=headers)
        if response.streaming:
            parts = aiter(response)
            response.first = await anext(parts)
            waiting = asyncio.ensure_future(anext(parts))
            for _ in range(10):
                await asyncio.sleep(0)  # so that it waits for a change by now
            waiting.cancel()  # as the server does when the browser has gone
            await until(lambda: not live.hub().polling)
            assert live.hub().listeners == 0
        return response

    return run(work())


@pytest.mark.django_db(transaction=True)
def test_the_stream_is_not_cached_not_buffered_and_greets(viewer: User) -> None:
    response = ask(viewer)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/event-stream"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Accel-Buffering"] == "no"
    assert response.first == b"retry: 2000\n\n"


@pytest.mark.django_db(transaction=True)
def test_nobody_streams_without_a_role(outsider: User) -> None:
    assert ask(None).status_code == 401
    assert ask(outsider).status_code == 403


@pytest.mark.django_db(transaction=True)
def test_a_stream_can_only_be_read(viewer: User) -> None:
    async def work() -> int:
        client = AsyncClient()
        await client.aforce_login(viewer)
        return (await client.post("/live/")).status_code

    assert run(work()) == 405


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("told", ["", "abc", "-1", "9" * 40])
def test_a_wrong_last_id_is_no_id(told: str, viewer: User) -> None:
    assert ask(viewer, **{"Last-Event-ID": told}).status_code == 200
