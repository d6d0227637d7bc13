"""What the database drives: rows that say when to look at them next, and who is looking now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q

POISONED = timedelta(minutes=2)  # a case that failed to be worked on is pushed forward, so that it blocks no other


class Leased(models.Model):
    """A row that one worker at a time works on.

    `next_look_at` is the next moment at which something can change; None: nothing is due. A lease that its holder
    did not give back runs out by itself, so a killed worker loses nothing.
    """

    next_look_at = models.DateTimeField(null=True, blank=True, db_index=True)
    leased_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    @classmethod
    def due(cls, now: datetime) -> models.QuerySet[Self]:
        free = Q(leased_until=None) | Q(leased_until__lte=now)
        return cls._default_manager.filter(free, next_look_at__lte=now).order_by("next_look_at")

    # what is read together with the row under its lease
    related: ClassVar[tuple[str, ...]] = ()

    def take_lease(self, now: datetime) -> bool:
        """True where this caller, and nobody else, may work on the row until the lease ends. Only `pk` must be set."""
        until = now + timedelta(seconds=settings.LEASE_S)
        free = Q(leased_until=None) | Q(leased_until__lte=now)
        taken = type(self)._default_manager.filter(free, pk=self.pk).update(leased_until=until) == 1
        if taken:
            self.refresh_from_db(from_queryset=type(self)._default_manager.select_related(*self.related))
        return taken

    def give_back(self, *, next_look_at: datetime | None) -> None:
        """End the lease, if it is still ours, and say when to look again."""
        type(self)._default_manager.filter(pk=self.pk, leased_until=self.leased_until).update(
            leased_until=None, next_look_at=next_look_at
        )

    @classmethod
    def take_leases(cls, keys: Sequence[int], now: datetime) -> tuple[list[int], datetime]:
        """Those of `keys` that are due and that this caller alone may work on, and until when; three statements.

        Where a lease has run out, its holder may have died of this very row: should that happen again, the row is not
        due before it has waited like one that failed.
        """
        until = now + timedelta(seconds=settings.LEASE_S)
        free = Q(leased_until=None) | Q(leased_until__lte=now)
        with transaction.atomic():
            due = cls._default_manager.filter(free, pk__in=keys, next_look_at__lte=now)
            held = dict(due.select_for_update(skip_locked=True).values_list("pk", "leased_until"))
            rows = cls._default_manager.filter(pk__in=held)
            rows.update(leased_until=until)
            ran_out = [key for key, before in held.items() if before is not None]
            if ran_out:
                rows.filter(pk__in=ran_out).update(next_look_at=now + POISONED)
        return [key for key in keys if key in held], until

    @classmethod
    def give_back_all(
        cls, keys: Sequence[int], until: datetime, *, next_look_at: datetime | None, **fields: Any
    ) -> None:
        """End the leases of `keys` that are still those until `until`, and say when to look again."""
        held = cls._default_manager.filter(pk__in=keys, leased_until=until)
        held.update(leased_until=None, next_look_at=next_look_at, **fields)
