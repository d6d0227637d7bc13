"""Ledgers that sleep are looked at once more where the rules say something new of them: RULES of ledger_glance has
counted up, so each is kept anew. Those that are awake are looked at anyway.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations
from django.db.models import Q
from django.utils import timezone

NO_FAILURE = ("external_cancel", "completed", "not_a_failure")


def wake(apps: Any, schema_editor: Any) -> None:
    """Runs that were stopped on purpose, and those of which an attempt said that it starts from the beginning."""
    runs = apps.get_model("recovery", "Run").objects.using(schema_editor.connection.alias)
    stopped = Q(incidents__failure_class__in=NO_FAILURE) | Q(incidents__outcome="stopped_on_purpose")
    told = Q(jobs__attempts__fresh_start=True)
    ledgers = apps.get_model("recovery", "RunLedger").objects.using(schema_editor.connection.alias)
    ledgers.filter(next_look_at=None, run__in=runs.filter(stopped | told).values("pk")).update(
        next_look_at=timezone.now()
    )


class Migration(migrations.Migration):
    dependencies = [("recovery", "0014_undoing")]

    operations = [migrations.RunPython(wake, migrations.RunPython.noop)]
