from __future__ import annotations

from django.db import models


class Event(models.Model):
    """One change, append-only: audit trail and live feed at once. Triggers refuse update and deletion.

    `data` says who did it, to what, from what to what and why; the actor's name is kept beside the account.
    """

    at = models.DateTimeField(db_index=True)
    actor_kind = models.CharField(max_length=20)  # "user", "token", "system"
    actor_name = models.CharField(max_length=150)
    # of the request, task or command that it came of, which may leave several events; "" before there were any
    request_id = models.CharField(max_length=40, blank=True)
    origin = models.CharField(max_length=100, blank=True)  # from where: a client's address, or what ran on which host
    subject_kind = models.CharField(max_length=30)  # "incident", "action", "recommendation", "policy", "cluster", …
    subject_id = models.CharField(max_length=40)
    incident_id = models.BigIntegerField(
        null=True, blank=True, db_index=True
    )  # no foreign key: events outlive what they tell of
    verb = models.CharField(max_length=60)
    old = models.CharField(max_length=60, blank=True)
    new = models.CharField(max_length=60, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    data = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["subject_kind", "subject_id"], name="event_by_subject")]
