"""Who is told, of what, and whether it arrived. A notice is written with the change that it tells of."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from recovery.models.leased import Leased


class Channel(Leased):
    """One place to tell people: under its lease one worker delivers, one message at a time."""

    KINDS: ClassVar = [("webhook", "Webhook"), ("slack", "Slack-compatible"), ("email", "E-mail")]

    name = models.CharField(max_length=100, unique=True)  # what the policy's routes and escalations call it
    kind = models.CharField(max_length=20, choices=KINDS)
    target = models.CharField(max_length=1000)  # address to post to, or mail addresses with commas between
    secret = models.CharField(max_length=200, blank=True)  # a webhook is signed with it; shown once, never again
    allow_private = models.BooleanField(default=False)  # addresses within the site may be posted to
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    good_at = models.DateTimeField(null=True, blank=True)  # of the last delivery
    failing_since = models.DateTimeField(null=True, blank=True)  # None: the last try arrived, or none was made
    trouble = models.CharField(max_length=300, blank=True)  # of the last try; "" where it arrived

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Notice(models.Model):
    """Something that people may have to be told of: the outbox, written in the transaction of the change itself."""

    at = models.DateTimeField()
    kind = models.CharField(max_length=30)  # of recovery.core.notices.NoticeKind
    severity = models.CharField(max_length=20)  # of recovery.core.notices.Severity
    incident_id = models.BigIntegerField(null=True, blank=True)  # no foreign key: it outlives what it tells of
    cluster_id = models.BigIntegerField(null=True, blank=True)
    subject = models.CharField(max_length=300)
    channels = models.JSONField(default=list, blank=True)  # named in the change itself, as in an escalation
    routed_at = models.DateTimeField(null=True, blank=True)  # None: its deliveries were not made yet

    class Meta:
        ordering = ["pk"]
        indexes = [
            models.Index(fields=["at"], condition=Q(routed_at=None), name="notice_to_route"),
            models.Index(fields=["incident_id"], name="notice_by_incident"),
        ]

    def __str__(self) -> str:
        return self.subject


class Delivery(models.Model):
    """One message to one channel, tried until it arrives or is given up."""

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    key = models.CharField(max_length=100)  # what the receiver knows it by, the same at each try
    message = models.JSONField()  # recovery.core.notices.Message
    made_at = models.DateTimeField()
    try_at = models.DateTimeField(null=True, blank=True)  # None: it arrived, or was given up
    tries = models.IntegerField(default=0)
    sent_at = models.DateTimeField(null=True, blank=True)
    trouble = models.CharField(max_length=300, blank=True)  # of the last try

    class Meta:
        ordering = ["-made_at", "-pk"]
        constraints = [models.UniqueConstraint(fields=["channel", "key"], name="one_delivery_per_message")]
        indexes = [models.Index(fields=["channel", "try_at"], condition=~Q(try_at=None), name="delivery_due")]

    def __str__(self) -> str:
        return f"{self.key} to {self.channel}"
