"""Sealing events into one chain, and verifying it.

An event is written as fast as its change, by many transactions at once, and a chain has one order. So events are
sealed afterwards, in the order of their ids, by one sealer at a time: every few seconds, and before each verification
or export. It seals only up to an id below which no event can appear any more: SQLite has one writer at a time, and on
PostgreSQL every statement that writes events holds a shared advisory lock until its transaction ends (a trigger sees to
that, before the statement takes an id), which the sealer takes alone for an instant.

What can't be found: a change of events that are not sealed yet, and a chain that somebody with every right on the
database computed anew as a whole, unless an anchor was kept elsewhere. Each whole round logs one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import OperationalError, connection, transaction

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.chain import FIELDS, Break, Link, follow, link
from recovery.models import AuditChain, Event, Seal
from recovery.pipeline.leasing import Clock, with_lease

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=10)  # so old an event may be before it is sealed
ROUND_EVERY = timedelta(hours=1)  # between the beginnings of two rounds of verification
SLICE = timedelta(seconds=2)  # so long one pass verifies; the next pass goes on
AT_ONCE = datetime(1970, 1, 1, tzinfo=UTC)
BATCH = 1000  # rows read, or sealed, at a time

# Shared by transactions that write events: recovery/migrations/0017_the_audit_chain.py says it to the database.
WRITERS_LOCK = 1_380_275_029
LOCK_WAIT_MS = 250  # writers that come meanwhile wait for no longer; PostgreSQL looks for deadlocks after 1000 ms

GoOn = Callable[[], bool]


# --- driven by the tick ----------------------------------------------------------------------------------------------


def due(now: datetime) -> list[int]:
    """The key of the row that drives it, where it is due. It is made where it is missing."""
    if not AuditChain.objects.exists():
        the_chain()
    return list(AuditChain.due(now).values_list("pk", flat=True))


def keep(pk: int, *, clock: Clock) -> None:
    """One pass, once at a time however many workers there are: seal, then go on verifying where that is due."""

    def look(row: AuditChain) -> datetime:
        began = clock()

        def go_on() -> bool:
            return clock() - began < SLICE

        seal(now=began, go_on=go_on)
        _go_on_verifying(now=began, go_on=go_on)
        AuditChain.objects.filter(pk=row.pk).update(error="")
        return clock() + EVERY

    with_lease(AuditChain, pk, look, clock=clock)


def the_chain(*, locked: bool = False) -> AuditChain:
    """The one row; locked for as long as the transaction lasts, where asked."""
    rows = AuditChain.objects.filter(name="events")
    rows = rows.select_for_update() if locked else rows
    found = rows.first()
    if found is None:
        AuditChain.objects.bulk_create([AuditChain(next_look_at=AT_ONCE)], ignore_conflicts=True)
        found = rows.get()
    return found


# --- sealing ---------------------------------------------------------------------------------------------------------


def seal(*, now: datetime, go_on: GoOn = lambda: True) -> int:
    """Seal what can be; how many events were. 0 also where writers can't be waited out: the next pass tries again."""
    settled = _settled_id()
    sealed = 0
    while settled is not None and go_on():
        count = _seal_batch(settled, now=now)
        sealed += count
        if count < BATCH:
            break
    return sealed


def _settled_id() -> int | None:
    """The newest event, when nobody is writing any: below its id none can appear. None: somebody writes for long."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            try:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}")
                    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [WRITERS_LOCK])
                    cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
            except OperationalError:
                return None
        return Event.objects.order_by("-pk").values_list("pk", flat=True).first()


def _seal_batch(settled: int, *, now: datetime) -> int:
    with transaction.atomic():
        chain = the_chain(locked=True)
        rows = Event.objects.filter(pk__gt=chain.sealed_id, pk__lte=settled).order_by("pk").values(*FIELDS)[:BATCH]
        number, digest, seals = chain.sealed_number, chain.sealed_digest, []
        for row in rows:
            number += 1
            digest = link(digest, number, row)
            seals.append(Seal(id=row["id"], number=number, digest=digest))
        if seals:
            Seal.objects.bulk_create(seals)
            AuditChain.objects.filter(pk=chain.pk).update(
                sealed_id=seals[-1].id, sealed_number=number, sealed_digest=digest, sealed_at=now
            )
    return len(seals)


# --- verifying -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Up to where the chain was followed, whether that is its end, and the first bad row."""

    here: Link
    whole: bool
    broken: Break | None


def head_of(chain: AuditChain) -> Link:
    return Link(chain.sealed_id, chain.sealed_number, chain.sealed_digest)


def base_of(chain: AuditChain) -> Link:
    """Where the chain begins: after the last event that was archived."""
    return Link(chain.base_id, chain.base_number, chain.base_digest)


def verify(*, now: datetime) -> Verdict:
    """Seal what can be, follow the whole chain, and store what was found."""
    seal(now=now)
    verdict = _follow(base_of(the_chain()), go_on=lambda: True)
    _store(verdict, began=now, now=now)
    return verdict


def _go_on_verifying(*, now: datetime, go_on: GoOn) -> None:
    chain = the_chain()
    began = chain.round_began_at
    if began is None:
        last = max((at for at in (chain.verified_at, chain.bad_at) if at is not None), default=None)
        if last is not None and now - last < ROUND_EVERY and (chain.bad_id is not None or _newest_is_there(chain)):
            return
        began, here = now, base_of(chain)
    else:
        here = Link(chain.round_id, chain.round_number, chain.round_digest)
    verdict = _follow(here, go_on=go_on)
    if verdict.whole or verdict.broken:
        _store(verdict, began=began, now=now)
    else:
        here = verdict.here
        AuditChain.objects.filter(pk=chain.pk).update(
            round_began_at=began, round_id=here.id, round_number=here.number, round_digest=here.digest
        )


def _newest_is_there(chain: AuditChain) -> bool:
    """A quick look at the end of the chain, so that rows which were cut off it are missed within seconds."""
    head = chain.sealed_id
    if head == chain.base_id:
        return True
    return Seal.objects.filter(pk=head, digest=chain.sealed_digest).exists() and Event.objects.filter(pk=head).exists()


def _follow(here: Link, *, go_on: GoOn) -> Verdict:
    """Follow the chain from there until its end, a bad row, or until time is up.

    A bad row is looked at again while nobody seals or archives: a stretch that went meanwhile is no fault.
    """
    while True:
        here, broken, ended = _stretch(here, the_chain())
        if broken or ended:
            with transaction.atomic():
                chain = the_chain(locked=True)
                here, broken, ended = _stretch(here, chain)
                broken = broken or (_at_the_end(here, chain) if ended else None)
        if broken or ended or not go_on():
            return Verdict(here=here, whole=ended and broken is None, broken=broken)


def _stretch(here: Link, chain: AuditChain) -> tuple[Link, Break | None, bool]:
    """One batch; whether it reached the end of the chain."""
    base, head = base_of(chain), head_of(chain)
    if here.id < base.id:
        here = base
    seals = [
        Link(*row)
        for row in Seal.objects.filter(pk__gt=here.id, pk__lte=head.id).order_by("pk").values_list(
            "id", "number", "digest"
        )[:BATCH]
    ]  # fmt: skip
    ended = len(seals) < BATCH
    through = head.id if ended else seals[-1].id
    events = Event.objects.filter(pk__gt=here.id, pk__lte=through).order_by("pk").values(*FIELDS)[: BATCH + 1]
    here, broken = follow(here, events, seals)
    return here, broken, ended


def _at_the_end(here: Link, chain: AuditChain) -> Break | None:
    """What is wrong with a chain whose links hold one by one."""
    head = head_of(chain)
    if here != head:
        gone = head.number - here.number
        return Break(head.id, f"The newest {gone} sealed events, after {here.id}, are gone together with their seals.")
    if (beyond := Seal.objects.filter(pk__gt=head.id).order_by("pk").first()) is not None:
        return Break(beyond.pk, "It was sealed, but the chain is said to end before it: that was set back.")
    if chain.base_id and not _was_archived(chain):
        return Break(chain.base_id, "The chain begins after it, but no event says that it was archived.")
    return None


def _was_archived(chain: AuditChain) -> bool:
    event = Event.objects.filter(pk=chain.base_event_id or 0, verb="audit.archived").first()
    base = {"through": chain.base_id, "number": chain.base_number, "digest": chain.base_digest}
    return event is not None and base.items() <= event.data.items()


def _store(verdict: Verdict, *, began: datetime, now: datetime) -> None:
    """Keep what a round found. That a bad row is found (another one), or none any more, is an event."""
    with transaction.atomic():
        chain = the_chain(locked=True)
        rows = AuditChain.objects.filter(pk=chain.pk)
        if verdict.broken is None:
            here = verdict.here
            rows.update(
                verified_id=here.id, verified_at=began, round_began_at=None, bad_id=None, bad_reason="", bad_at=None
            )
            log.info("The audit trail is whole up to event %s; its anchor is %s:%s", here.id, here.id, here.digest)
            if chain.bad_id is not None:
                _record("audit.whole_again", chain.bad_id, "Nothing wrong was found any more.", now)
            return
        broken = verdict.broken
        rows.update(round_began_at=None, bad_id=broken.id, bad_reason=broken.reason, bad_at=now)
        log.error("The audit trail is broken at event %s. %s", broken.id, broken.reason)
        if chain.bad_id != broken.id:
            _record("audit.broken", broken.id, broken.reason, now)


def _record(verb: str, event_id: int, reason: str, now: datetime) -> None:
    audit.record(verb, actor=SYSTEM, at=now, subject_kind="audit", subject_id=event_id, reason=reason)
