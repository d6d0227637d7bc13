"""Looks at clusters and attempts: polls the one, reads on in the other and judges it.

Level-based: each look starts from what is stored and what the scheduler and the files show, never from a message.

Attempts are looked at in batches, with a number of statements that does not depend on how many there are: all leases
at once; a glance at those of which nothing is new (glance.py); the others are read, and what they say is stored in one
transaction (ingest.py); checkpoint folders are looked into and a judgement is made only where it could say something
else than the last one (judge.py). Each attempt fails by itself.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import Case, Q, QuerySet, Value, When

from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Incident, LogFile
from recovery.pipeline import push
from recovery.pipeline.alarms import alarms_are_due, look_for_alarms
from recovery.pipeline.beside import waits_to_be_judged
from recovery.pipeline.bulk import update_rows
from recovery.pipeline.glance import quiet_attempts
from recovery.pipeline.ingest import QUIET_FIELDS, positions, store_looks, superseded
from recovery.pipeline.judge import carry_on, holds, judge, site_digest
from recovery.pipeline.leasing import ClientFor, Clock, failed, with_lease
from recovery.pipeline.log_files import site_pattern
from recovery.pipeline.look_at_checkpoints import TRACKER, about_to_settle, folder_is_quiet, look_at_checkpoints
from recovery.pipeline.poll import poll_cluster
from recovery.pipeline.reading import Look, ReadSource, read_attempt
from recovery.pipeline.repair import enrich_attempt
from recovery.pipeline.sources import SOURCES
from recovery.pipeline.transition import LostRace

log = logging.getLogger(__name__)

BATCH = 100  # attempts that are looked at together
MOST_SIGNALS = 5000  # that are kept in memory before they are stored
READ_SHARE = 6  # of the lease: so long one attempt is read on in, and what is left waits for its next look
JUDGED_AFTER = timedelta(seconds=30)  # a failure that was kept with an open case is looked at so often until that ends
VANISHED = timedelta(hours=1)  # so long accounting is asked how a job ended that the controller forgot


def watch_cluster(pk: int, *, client_for: ClientFor, clock: Clock) -> None:
    """Poll one cluster, whatever the number of workers once at a time."""

    def look(cluster: Cluster) -> datetime:
        poll_cluster(cluster, client=client_for(cluster), now=clock())
        return clock() + timedelta(seconds=cluster.poll_interval_s)

    with_lease(Cluster, pk, look, clock=clock)


def batches_of(due: QuerySet[Attempt]) -> list[list[int]]:
    """Keys of the attempts in `due`, in its order, in batches for one worker each.

    One whose lease has run out is looked at alone: perhaps its holder died of it, or of its neighbour in the batch.
    """
    rows = list(due.values_list("pk", "leased_until"))
    alone = [[key] for key, leased_until in rows if leased_until is not None]
    keys = [key for key, leased_until in rows if leased_until is None]
    return [*(keys[start : start + BATCH] for start in range(0, len(keys), BATCH)), *alone]


def watch_attempt(pk: int, *, client_for: ClientFor, clock: Clock) -> None:
    """Read on in one attempt's log and checkpoints, and judge it."""
    watch_attempts([pk], client_for=client_for, clock=clock)


def watch_attempts(keys: Sequence[int], *, client_for: ClientFor, clock: Clock) -> None:
    """Look at those of `keys` that are due. One that fails is pushed forward, and blocks no other."""
    held, until = Attempt.take_leases(keys, clock())
    if not held:
        return
    try:
        _Batch(until=until, client_for=client_for, clock=clock).look_at(held)
    except Exception as error:
        log.exception("Looking at attempts %s failed", held)
        if len(held) == 1:
            next_look = failed(Attempt(pk=held[0]), error, now=clock())
            Attempt.give_back_all(held, until, next_look_at=next_look)
            return
        Attempt.give_back_all(held, until, next_look_at=clock())
        for key in held:
            watch_attempt(key, client_for=client_for, clock=clock)


@dataclass(slots=True)
class _Watched:
    """An attempt that needs more than a glance."""

    attempt: Attempt
    held: bool  # its last judgement did, before this look
    look: Look | None = None  # None: it has nothing to read (any more)


class _Batch:
    """One look at attempts whose leases are ours `until` then."""

    def __init__(self, *, until: datetime, client_for: ClientFor, clock: Clock) -> None:
        self.client_for, self.clock, self.until = client_for, clock, until
        self.now = clock()
        self.site = site_digest()
        self.own = site_pattern()
        self._late = self.now + (until - self.now) / 2  # what is not begun by then is left to the next look
        self._next: dict[int, datetime | None] = {}  # of all that are dealt with
        self._read: set[int] = set()
        self._judged: list[Attempt] = []

    def look_at(self, keys: Sequence[int]) -> None:
        for quiet in quiet_attempts(keys, self.site, now=self.now):
            self._next[quiet.key] = self.now + timedelta(seconds=quiet.poll_interval_s)
            self._read |= {quiet.key} if quiet.has_logs else set()
        rest = [key for key in keys if key not in self._next]
        for some in self._readings(rest):
            self._store(some)
            for watched in some:
                self._guarded(watched.attempt, partial(self._conclude, watched))
        update_rows(self._judged, QUIET_FIELDS)
        self._give_back(keys)

    def _readings(self, keys: Sequence[int]) -> Iterator[list[_Watched]]:
        """Those of which something was read, and those that are judged without, in portions that memory can hold."""
        attempts = list(Attempt.objects.filter(pk__in=keys).select_related(*Attempt.related)) if keys else []
        over = superseded(attempts)
        reads = [attempt.pk for attempt in attempts if attempt.started_at is not None and attempt.pk not in over]
        known, wanted = positions(reads), [(source.read, source.wants(reads)) for source in SOURCES if reads]
        some: list[_Watched] = []
        signals = 0
        for attempt in attempts:
            watched = _Watched(attempt=attempt, held=holds(attempt, self.site, now=self.now))
            if attempt.pk in reads:
                sources = tuple(read for read, wants in wanted if attempt.pk in wants)
                self._guarded(attempt, partial(self._read_one, watched, known.get(attempt.pk, {}), sources))
            if attempt.pk in self._next:
                continue
            some.append(watched)
            signals += len(watched.look.signals) if watched.look is not None else 0
            if signals > MOST_SIGNALS:
                yield some
                some, signals = [], 0
        yield some

    def _read_one(self, watched: _Watched, known: Mapping[str, LogFile], sources: tuple[ReadSource, ...]) -> None:
        enough = self.clock() + (self.until - self.now) / READ_SHARE
        watched.look = read_attempt(
            watched.attempt, known, now=self.now, sources=sources, own=self.own, go_on=lambda: self.clock() < enough
        )
        carry_on(watched.look, held=watched.held, site=self.site, now=self.now)
        self._read.add(watched.attempt.pk)

    def _store(self, some: Sequence[_Watched]) -> None:
        """All together; where that fails each by itself, so that one that can't be stored keeps no other from it."""
        looks = [watched.look for watched in some if watched.look is not None]
        try:
            store_looks(looks, now=self.now)
        except Exception:
            log.exception("What was read of %s attempts could not be stored together", len(looks))
            for look in looks:
                self._guarded(look.attempt, partial(store_looks, [look], now=self.now))

    def _guarded(self, attempt: Attempt, work: Callable[[], None]) -> None:
        """Do it, unless the attempt is dealt with. An error is this attempt's own, and pushes it forward."""
        if attempt.pk in self._next:
            return
        if self.clock() > self._late:
            self._next[attempt.pk] = self.clock()
            return
        try:
            work()
        except LostRace:
            self._next[attempt.pk] = self.clock()
        except Exception as error:
            log.exception("Looking at attempt %s failed", attempt.pk)
            self._next[attempt.pk] = failed(attempt, error, now=self.clock())

    def _conclude(self, watched: _Watched) -> None:
        attempt, look, now = watched.attempt, watched.look, self.clock()
        if look is not None and look.more:
            self._next[attempt.pk] = now  # nothing is judged by half of what was written
            return
        ended = JobState(attempt.state).is_terminal
        looked = ended or not _folder_is_quiet(attempt, now=now)
        if looked:
            _look_at_checkpoints(attempt, now=now)
        if ended:
            enrich_attempt(attempt, client=self.client_for(attempt.job.cluster), now=now)
        if attempt.quiet_until is None or (look is None and not watched.held):
            incident = judge(attempt, look.blind_until if look else None, site=self.site, now=now)
            if incident is not None:
                if not looked:
                    _look_at_checkpoints(attempt, now=now)  # what is proposed rests on what is there now
                _wake(incident, now)
            self._judged.append(attempt)
        if alarms_are_due(attempt, now=now):
            look_for_alarms(attempt, now=now)
        self._next[attempt.pk] = _next_look_at_attempt(attempt, now=now)

    def _give_back(self, keys: Sequence[int]) -> None:
        """With one statement for all that are due at the same time, as most of them are."""
        together: dict[tuple[datetime | None, bool], list[int]] = defaultdict(list)
        for key in keys:
            together[self._next.get(key), key in self._read].append(key)
        for (next_look, read), some in together.items():
            fields: dict[str, Any] = {"read_at": self.now} if read else {}
            if next_look is None:  # one that was opened again since (beside.turn_to) is due: nothing else looks for it
                fields["next_look_at"] = Case(When(closed_at=None, then=Value(self.now)), default=None)
            Attempt.give_back_all(some, self.until, **{"next_look_at": next_look, **fields})


def _folder_is_quiet(attempt: Attempt, *, now: datetime) -> bool:
    run = attempt.job.run
    if run.checkpoint_dir and attempt.started_at is not None and TRACKER not in attempt.places:
        return False  # what its tracker file names must be seen before this attempt saves
    return folder_is_quiet(run.checkpoint_dir, run.folder_mark, run.folder_read_at, now=now)


def _look_at_checkpoints(attempt: Attempt, *, now: datetime) -> None:
    """As the run's newest attempt that is still looked at, and no other: two looks must lie apart to prove anything.

    Components of a job and tasks of an array start in the same second.
    """
    if attempt.started_at is None:
        return
    later = Q(started_at__gt=attempt.started_at) | Q(started_at=attempt.started_at, pk__gt=attempt.pk)
    if not Attempt.objects.filter(later, job__run_id=attempt.job.run_id, closed_at=None).exists():
        look_at_checkpoints(attempt, now=now)


def _next_look_at_attempt(attempt: Attempt, *, now: datetime) -> datetime | None:
    """While it lives as often as its cluster is polled; once it has ended until its facts have settled."""
    vanished = attempt.job.vanished_at
    if vanished is not None and now - vanished > VANISHED:
        return _close(attempt, now=now)
    if not JobState(attempt.state).is_terminal:
        return now + timedelta(seconds=attempt.job.cluster.poll_interval_s)
    settled = (attempt.ended_at or attempt.seen_at) + timedelta(seconds=settings.SETTLE_S)
    if now <= settled or about_to_settle(attempt.job.run, now=now):
        return now + timedelta(seconds=min(2.0, attempt.job.cluster.poll_interval_s))
    if now <= settled + push.LAST_ROWS and push.unread(attempt).exists():
        return now  # what it pushed at its end is read before nobody looks any more
    if waits_to_be_judged(attempt):
        return now + JUDGED_AFTER
    return _close(attempt, now=now)


def _close(attempt: Attempt, *, now: datetime) -> datetime | None:
    """Look at it no more, unless its case turned to another execution meanwhile: then its failure is judged after."""
    Attempt.objects.filter(pk=attempt.pk).update(closed_at=now)
    if not waits_to_be_judged(attempt):
        return None
    Attempt.objects.filter(pk=attempt.pk).update(closed_at=None)
    return now + JUDGED_AFTER


def _wake(incident: Incident, now: datetime) -> None:
    """Look at the case now. Its own schedule stays where it is sooner, and where the last look failed."""
    Incident.objects.filter(pk=incident.pk, next_look_at__gt=now, error="").update(next_look_at=now)
