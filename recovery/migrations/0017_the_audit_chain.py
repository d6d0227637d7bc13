"""Events are sealed into a chain (recovery/core/chain.py); those that a site has already are sealed here.

On PostgreSQL each statement that writes events takes a shared advisory lock before it takes an id, and holds it until its
transaction ends: whoever gets that lock alone knows that below the newest id no event can appear any more.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from recovery.core.chain import FIELDS, GENESIS, link

guards = import_module("recovery.migrations.0002_append_only_events")

WRITERS_LOCK = 1_380_275_029  # as in recovery/pipeline/audit_chain.py
BATCH = 1000
AT_ONCE = datetime(1970, 1, 1, tzinfo=UTC)
NOTE_WRITERS = f"""
CREATE OR REPLACE FUNCTION recovery_event_writer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({WRITERS_LOCK});
    RETURN NULL;
END $$;
CREATE TRIGGER recovery_event_writer BEFORE INSERT ON recovery_event
FOR EACH STATEMENT EXECUTE FUNCTION recovery_event_writer();
"""
FORGET_WRITERS = """
DROP TRIGGER IF EXISTS recovery_event_writer ON recovery_event;
DROP FUNCTION IF EXISTS recovery_event_writer();
"""


def note_writers(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(NOTE_WRITERS)


def forget_writers(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(FORGET_WRITERS)


def seal_what_is_there(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    events = apps.get_model("recovery", "Event")._default_manager
    seals = apps.get_model("recovery", "Seal")
    last, number, digest = 0, 0, GENESIS
    while rows := list(events.filter(pk__gt=last).order_by("pk").values(*FIELDS)[:BATCH]):
        made = []
        for row in rows:
            last, number = row["id"], number + 1
            digest = link(digest, number, row)
            made.append(seals(id=last, number=number, digest=digest))
        seals._default_manager.bulk_create(made)
    chain = apps.get_model("recovery", "AuditChain")._default_manager
    chain.create(sealed_id=last, sealed_number=number, sealed_digest=digest, next_look_at=AT_ONCE)


class Migration(migrations.Migration):
    dependencies = [
        ("recovery", "0016_failures_that_nobody_watched"),
    ]

    operations = [
        migrations.RunPython(migrations.RunPython.noop, guards.make_triggers),  # back: SQLite makes the table anew
        migrations.CreateModel(
            name="AuditChain",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("next_look_at", models.DateTimeField(blank=True, db_index=True, null=True)),
                ("leased_until", models.DateTimeField(blank=True, null=True)),
                ("name", models.CharField(default="events", max_length=20, unique=True)),
                ("sealed_id", models.BigIntegerField(default=0)),
                ("sealed_number", models.BigIntegerField(default=0)),
                (
                    "sealed_digest",
                    models.CharField(
                        default="0000000000000000000000000000000000000000000000000000000000000000", max_length=64
                    ),
                ),
                ("sealed_at", models.DateTimeField(blank=True, null=True)),
                ("base_id", models.BigIntegerField(default=0)),
                ("base_number", models.BigIntegerField(default=0)),
                (
                    "base_digest",
                    models.CharField(
                        default="0000000000000000000000000000000000000000000000000000000000000000", max_length=64
                    ),
                ),
                ("base_event_id", models.BigIntegerField(blank=True, null=True)),
                ("round_id", models.BigIntegerField(default=0)),
                ("round_number", models.BigIntegerField(default=0)),
                ("round_digest", models.CharField(blank=True, max_length=64)),
                ("round_began_at", models.DateTimeField(blank=True, null=True)),
                ("verified_id", models.BigIntegerField(blank=True, null=True)),
                ("verified_at", models.DateTimeField(blank=True, null=True)),
                ("bad_id", models.BigIntegerField(blank=True, null=True)),
                ("bad_reason", models.CharField(blank=True, max_length=300)),
                ("bad_at", models.DateTimeField(blank=True, null=True)),
                ("error", models.TextField(blank=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Seal",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("number", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.AddField(
            model_name="event",
            name="origin",
            field=models.CharField(blank=True, max_length=100),
        ),
        migrations.AddField(
            model_name="event",
            name="request_id",
            field=models.CharField(blank=True, max_length=40),
        ),
        migrations.RunPython(guards.make_triggers, migrations.RunPython.noop),
        migrations.RunPython(note_writers, forget_writers),
        migrations.RunPython(seal_what_is_there, migrations.RunPython.noop),
    ]
