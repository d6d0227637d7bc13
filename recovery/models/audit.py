from __future__ import annotations

from django.db import models

from recovery.core.chain import GENESIS
from recovery.models.leased import Leased


class Seal(models.Model):
    """The link of one event in the chain (recovery/core/chain.py), append-only like the event itself."""

    id = models.BigIntegerField(primary_key=True)  # the event's; no foreign key: it must tell of an event that is gone
    number = models.BigIntegerField()  # from 1, without gaps, where ids have them
    digest = models.CharField(max_length=64)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"seal {self.number} of event {self.id}"


class AuditChain(Leased):
    """The one row that says how far the chain of events reaches, how far it was verified, and what was found wrong."""

    name = models.CharField(max_length=20, unique=True, default="events")
    # the newest link
    sealed_id = models.BigIntegerField(default=0)
    sealed_number = models.BigIntegerField(default=0)
    sealed_digest = models.CharField(max_length=64, default=GENESIS)
    sealed_at = models.DateTimeField(null=True, blank=True)
    # the last link whose event was archived, and the event that says so
    base_id = models.BigIntegerField(default=0)
    base_number = models.BigIntegerField(default=0)
    base_digest = models.CharField(max_length=64, default=GENESIS)
    base_event_id = models.BigIntegerField(null=True, blank=True)
    # a round of verification under way: where it stands
    round_id = models.BigIntegerField(default=0)
    round_number = models.BigIntegerField(default=0)
    round_digest = models.CharField(max_length=64, blank=True)
    round_began_at = models.DateTimeField(null=True, blank=True)
    # the last whole round that found nothing wrong; `verified_at` is when it began
    verified_id = models.BigIntegerField(null=True, blank=True)
    verified_at = models.DateTimeField(null=True, blank=True)
    # the first bad row that the last round found
    bad_id = models.BigIntegerField(null=True, blank=True)
    bad_reason = models.CharField(max_length=300, blank=True)
    bad_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)  # of the last pass; "" when it was good

    def __str__(self) -> str:
        return f"chain of {self.name} up to {self.sealed_id}"
