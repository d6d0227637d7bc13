"""Live changes: one hub per process reads the event table, and each open stream has a queue.

The naive way, a poller per stream, holds one database connection per open tab. Here there is one connection for all,
and none while nobody listens. An event only says what changed; the page fetches the part that shows it, so a double
is harmless and a stream that can't keep up is told to fetch everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from django.db import connection

from recovery.access import Actor, Permission, Place
from recovery.models import Event
from recovery.selectors.scope import PRIVATE, places_of

T = TypeVar("T")
log = logging.getLogger(__name__)

POLL_S = 0.5
LOOK_BACK_S = 10.0  # ids are given before they become visible: a late commit may carry an id below one already sent
HEARTBEAT_S = 15.0  # proxies cut a silent stream
LIFE_S = 600.0  # then the browser comes again and is asked anew who it is
QUEUE = 200  # waiting changes of one stream; more and it is told to fetch everything
BATCH = 500  # changes that a resumed stream is told one by one


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One row of the event table, as much of it as a page needs to know what to fetch."""

    id: int
    kind: str
    subject: str
    incident: int | None
    verb: str
    place: Place | None = None  # of the incident

    def message(self) -> str:
        data = {"kind": self.kind, "subject": self.subject, "incident": self.incident, "verb": self.verb}
        return f"id: {self.id}\nevent: change\ndata: {json.dumps(data)}\n\n"


Fetch = Callable[[int, int], Sequence[Change]]
RESET = "event: reset\ndata: {}\n\n"


def newest_id() -> int:
    return Event.objects.order_by("-id").values_list("id", flat=True).first() or 0


def fetch_since(after: int, most: int) -> list[Change]:
    """At most so many changes with a greater id, oldest first."""
    rows = list(Event.objects.filter(pk__gt=after).order_by("id").only(*_COLUMNS)[:most])
    places = places_of({row.incident_id for row in rows if row.incident_id is not None})
    return [
        Change(
            id=row.pk, kind=row.subject_kind, subject=row.subject_id, incident=row.incident_id, verb=row.verb,
            place=places.get(row.incident_id or 0),
        )
        for row in rows
    ]  # fmt: skip


def may_hear(actor: Actor, change: Change) -> bool:
    """Whether a change is told to them: of an incident where they may see it; a log-in, say, only where all is seen."""
    if actor.sees_everything:
        return change.kind not in PRIVATE or actor.can(Permission.AUDIT_VIEW)
    if change.incident is not None:
        return change.place is not None and actor.can(Permission.VIEW, change.place)
    if change.kind == "cluster":
        return change.subject.isdecimal() and any(grant.touches(int(change.subject)) for grant in actor.grants or ())
    return change.kind in ("policy", "desk")


def ends(actor: Actor, change: Change) -> bool:
    """Whether it ended the sessions of that account: who hears is then asked anew who they are."""
    verbs = ("account.role_changed", "account.password_changed")
    return change.kind == "account" and change.subject == str(actor.user_id) and change.verb in verbs


def never(change: Change) -> bool:
    return False


_COLUMNS = ("id", "subject_kind", "subject_id", "incident_id", "verb")


def release_connection() -> None:
    """Close the connection of the thread that calls this: `connection.close` itself would be the importing thread's."""
    connection.close()


class Hub:
    """The one poller and its listeners. Lives in one event loop."""

    def __init__(
        self,
        *,
        fetch: Fetch = fetch_since,
        newest: Callable[[], int] = newest_id,
        release: Callable[[], None] = release_connection,
        poll_s: float = POLL_S,
        look_back_s: float = LOOK_BACK_S,
    ) -> None:
        self._fetch, self._newest, self._release = fetch, newest, release
        self._poll_s, self._look_back_s = poll_s, look_back_s
        self._queues: set[asyncio.Queue[Change | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._ready = asyncio.Event()
        self._marks: list[tuple[float, int]] = []  # (when, highest id seen then), oldest first
        self._sent: set[int] = set()

    @property
    def listeners(self) -> int:
        return len(self._queues)

    @property
    def polling(self) -> bool:
        return self._task is not None

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[asyncio.Queue[Change | None]]:
        """A queue that receives every change from now on; None in it means: fetch everything."""
        queue: asyncio.Queue[Change | None] = asyncio.Queue(maxsize=QUEUE)
        self._queues.add(queue)
        if self._task is None:
            self._ready.clear()
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="live")
            self._task = asyncio.create_task(self._run(self._thread))
        try:
            yield queue
        finally:
            self._queues.discard(queue)

    async def missed(self, after: int) -> Sequence[Change]:
        """What happened after that id until now, for a listener: from here on its queue tells, perhaps twice."""
        await self._ready.wait()
        return await self._ask(self._fetch, after, BATCH + 1)

    async def _ask(self, question: Callable[..., T], *arguments: int) -> T:
        """In the hub's one thread, which keeps the one connection."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, *arguments)

    async def _run(self, thread: ThreadPoolExecutor) -> None:
        """Poll while anybody listens; at the end the connection is given back."""
        self._marks, self._sent = [], set()
        try:
            while self._queues:
                try:
                    await self._poll()
                except Exception:
                    # the database may be away for a while: streams stay open and hear of it when it is back
                    log.exception("The live hub could not read the event table; it tries again.")
                    await self._ask(self._release)
                    await asyncio.sleep(4 * self._poll_s)
                await asyncio.sleep(self._poll_s)
        finally:
            self._task = None
            thread.submit(self._release)
            thread.shutdown(wait=False)

    async def _poll(self) -> None:
        now = monotonic()
        if not self._marks:
            self._marks = [(now, await self._ask(self._newest))]
            self._ready.set()
            return
        found = await self._ask(self._fetch, self._floor(now), BATCH + len(self._sent))
        fresh = [change for change in found if change.id not in self._sent]
        self._sent.update(change.id for change in fresh)
        if fresh:
            self._marks.append((now, max(self._marks[-1][1], found[-1].id)))
        for queue in self._queues:
            for change in fresh:
                self._put(queue, change)

    def _floor(self, now: float) -> int:
        """The highest id that was seen a few seconds ago: what lies above is read again, and what was sent dropped."""
        while len(self._marks) > 1 and self._marks[1][0] <= now - self._look_back_s:
            self._marks.pop(0)
        floor = self._marks[0][1]
        self._sent = {number for number in self._sent if number > floor}
        return floor

    @staticmethod
    def _put(queue: asyncio.Queue[Change | None], change: Change) -> None:
        if queue.full():
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(None)
            return
        queue.put_nowait(change)


_hubs: dict[int, Hub] = {}


def hub() -> Hub:
    """This process's hub. One per event loop, which in a server is one."""
    key = id(asyncio.get_running_loop())
    return _hubs.setdefault(key, Hub())


async def stream(
    here: Hub,
    after: int | None,
    *,
    hears: Callable[[Change], bool],
    over: Callable[[Change], bool] = never,
    heartbeat_s: float = HEARTBEAT_S,
    life_s: float = LIFE_S,
) -> AsyncGenerator[str, None]:
    """The body of one stream: what was missed since the id `after`, then changes, and a comment line when silent.

    Ends with its time, or with a change after which it is `over`; the browser comes again.
    """
    end = monotonic() + life_s
    async with here.listen() as queue:
        yield "retry: 2000\n\n"
        missed = await here.missed(after) if after is not None else ()
        if len(missed) > BATCH:
            yield RESET
        else:
            for change in filter(hears, missed):
                yield change.message()
        said = monotonic()  # what others hear doesn't keep this stream alive
        while monotonic() < end:
            try:
                told = await asyncio.wait_for(queue.get(), timeout=max(0.0, said + heartbeat_s - monotonic()))
            except TimeoutError:
                yield ": still here\n\n"
            else:
                if told is not None and over(told):
                    return
                if told is not None and not hears(told):
                    continue
                yield RESET if told is None else told.message()
            said = monotonic()
