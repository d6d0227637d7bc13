"""Working on one row under its lease, so that a failure of one blocks no other and loses nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F

from recovery import audit
from recovery.access import SYSTEM
from recovery.models import Attempt, AuditChain, Cluster, Incident, Upkeep
from recovery.models.leased import POISONED, Leased
from recovery.pipeline.blind_spells import note_blindness
from recovery.pipeline.transition import LostRace
from recovery.slurm.base import SlurmClient

log = logging.getLogger(__name__)

DATABASE_AWAY = (OperationalError, InterfaceError)  # it was restarted, say: not the fault of the row
DATABASE_BACK = timedelta(seconds=2)

ClientFor = Callable[[Cluster], SlurmClient]
Clock = Callable[[], datetime]
Row = TypeVar("Row", bound=Leased)


def with_lease(model: type[Row], pk: int, look: Callable[[Row], datetime | None], *, clock: Clock) -> None:
    """Work on one row under its lease. An error pushes the row forward and is stored, so that it blocks no other."""
    row = model(pk=pk)
    if not row.take_lease(clock()):  # somebody else works on it, or it is gone
        return
    try:
        next_look = look(row)
    except LostRace:
        next_look = clock()
    except Exception as error:
        log.exception("Looking at %s %s failed", model.__name__, pk)
        row.give_back(next_look_at=failed(row, error, now=clock()))
        return
    if isinstance(row, Incident) and row.error:
        Incident.objects.filter(pk=row.pk).update(error="", failed_looks=0)
    row.give_back(next_look_at=next_look)


def failed(row: Leased, error: Exception, *, now: datetime) -> datetime:
    """Store that a look failed; when to try again."""
    if not connection.is_usable():
        connection.close()  # the next statement opens another
    _note_error(row, error, now=now)
    return now + (DATABASE_BACK if isinstance(error, DATABASE_AWAY) else POISONED)


def _note_error(row: Leased, error: Exception, *, now: datetime) -> None:
    kind = type(row).__name__.lower()
    why = f"{type(error).__name__}: {error}"[:500]
    with transaction.atomic():
        if isinstance(row, Incident | Upkeep | AuditChain):
            type(row)._default_manager.filter(pk=row.pk).update(error=why)
        if isinstance(row, Incident):
            Incident.objects.filter(pk=row.pk).update(failed_looks=F("failed_looks") + 1)
        if isinstance(row, Cluster):  # no observation, and the pages say why
            Cluster.objects.filter(pk=row.pk).update(error=why, tried_at=now)
        if isinstance(row, Attempt) and not isinstance(error, DATABASE_AWAY):
            _blind(row.pk, why, now=now)
        audit.record(f"{kind}.look_failed", actor=SYSTEM, at=now, subject_kind=kind, subject_id=row.pk, reason=why)


def _blind(pk: int, why: str, *, now: datetime) -> None:
    """What can't be looked at is not healthy. The next look is no mere glance, so that it says what it sees."""
    attempt = Attempt.objects.filter(pk=pk).only("blind_reason").first()
    if attempt is None:
        return
    was, attempt.blind_reason = attempt.blind_reason, f"Looking at it failed: {why}"[:300]
    remedy = f"It is tried again every {POISONED.seconds // 60} min. The worker's log says more."
    Attempt.objects.filter(pk=pk).update(blind_reason=attempt.blind_reason, blind_remedy=remedy, quiet_until=None)
    note_blindness(attempt, was, now)
