"""What people should know of attempts that go on."""

from __future__ import annotations

from django.db.models import F, QuerySet

from recovery.models import Alarm


def alarms() -> QuerySet[Alarm]:
    """All that were raised: those that hold first, then the newest."""
    rows = Alarm.objects.select_related("run__cluster", "attempt__job")
    return rows.order_by(F("ended_at").desc(nulls_first=True), "-raised_at", "-pk")


def holding() -> QuerySet[Alarm]:
    """Those that hold now, the oldest first: a row keeps its place."""
    return alarms().filter(ended_at=None).order_by("raised_at", "pk")
