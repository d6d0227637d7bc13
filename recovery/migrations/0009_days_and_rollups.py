"""Samples get days, rollups and an end; checkpoints get an outlook.

PostgreSQL: the table of samples is divided by day. What is stored becomes the first part as it is, up to the end of the
last day in it: nothing is copied. SQLite keeps one table.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.utils import CursorWrapper
from django.db.migrations.state import ProjectState

TABLE = "recovery_sample"
DEFAULT = "recovery_sample_default"  # for what no part is there for
CONSTRAINTS = """
    SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = %s::regclass AND contype IN ('p', 'f') ORDER BY contype DESC
"""


class AddTimeIndex(migrations.AddIndex):
    """An index on `at`: on PostgreSQL BRIN, small and cheap, as rows are stored in about the order of their times."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return super().database_forwards(app_label, schema_editor, from_state, to_state)
        table = to_state.apps.get_model(app_label, self.model_name)._meta.db_table
        schema_editor.execute(f"CREATE INDEX {self.index.name} ON {table} USING brin (at)")
        return None


def drop_attempt_index(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """The primary key begins with the attempt: a second index of it only costs."""
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, TABLE)
    for name, its in found.items():
        if its["index"] and its["columns"] == ["attempt_id"] and not its["primary_key"] and not its["foreign_key"]:
            schema_editor.execute(f'DROP INDEX "{name}"')


def make_attempt_index(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    schema_editor.execute(f"CREATE INDEX {TABLE}_attempt_id ON {TABLE} (attempt_id)")


def divide(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor != "postgresql":
        return
    with schema_editor.connection.cursor() as cursor:
        before = f"{TABLE}_before"
        _replace(cursor, before, how="PARTITION BY RANGE (at)")
        cursor.execute(f"CREATE TABLE {DEFAULT} PARTITION OF {TABLE} DEFAULT")
        cursor.execute(f"SELECT max(at) FROM {before}")  # noqa: S608 - our own names
        last = cursor.fetchone()[0]
        if last is None:
            cursor.execute(f"DROP TABLE {before}")
            return
        end = max(last, datetime.now(UTC)).astimezone(UTC).date() + timedelta(days=1)
        part = f"{before}_{end:%Y%m%d}"  # its end is told by its name
        cursor.execute(f"ALTER TABLE {before} RENAME TO {part}")
        cursor.execute(
            f"ALTER TABLE {TABLE} ATTACH PARTITION {part} FOR VALUES FROM (MINVALUE) TO ('{end} 00:00:00+00')"
        )


def unite(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor != "postgresql":
        return
    with schema_editor.connection.cursor() as cursor:
        _replace(cursor, f"{TABLE}_divided", how="")
        cursor.execute(f"INSERT INTO {TABLE} SELECT * FROM {TABLE}_divided")  # noqa: S608 - our own names
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # else the table can't be changed until the commit
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        cursor.execute(f"DROP TABLE {TABLE}_divided")


def _replace(cursor: CursorWrapper, old: str, *, how: str) -> None:
    """An empty table in place of the stored one, which goes on under the name `old`; with the same keys."""
    run = cursor.execute
    run(f"ALTER TABLE {TABLE} RENAME TO {old}")
    run(CONSTRAINTS, [old])
    constraints = cursor.fetchall()
    run(f"CREATE TABLE {TABLE} (LIKE {old} INCLUDING DEFAULTS) {how}")
    for number, (name, definition) in enumerate(constraints):
        run(f'ALTER TABLE {old} RENAME CONSTRAINT "{name}" TO {old}_{number}')
        run(f'ALTER TABLE {TABLE} ADD CONSTRAINT "{name}" {definition}')


def note_what_is_due(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """What is stored already is rolled up like everything else, a little at a time."""
    ten_minutes = {
        "postgresql": "date_bin('10 minutes', at, '2000-01-01 00:00:00+00')",
        "sqlite": "substr(at, 1, 15) || '0:00'",
    }[schema_editor.connection.vendor]
    schema_editor.execute(
        f"INSERT INTO recovery_rollupdue (attempt_id, at, touched) "  # noqa: S608 - our own names
        f"SELECT DISTINCT attempt_id, {ten_minutes}, 0 FROM {TABLE}"
    )


class Migration(migrations.Migration):
    dependencies = [("recovery", "0008_accounting_that_is_silent")]

    operations = [
        migrations.CreateModel(
            name="MinuteRollup",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "attempt_id", "rank", "at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("rank", models.IntegerField()),
                ("at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                ("step", models.IntegerField()),
                ("samples", models.IntegerField()),
                ("loss", models.FloatField(blank=True, null=True)),
                ("throughput", models.FloatField(blank=True, null=True)),
                ("step_time_s", models.FloatField(blank=True, null=True)),
                ("tokens", models.FloatField(blank=True, null=True)),
                (
                    "attempt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="recovery.attempt",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="TenMinuteRollup",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "attempt_id", "rank", "at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("rank", models.IntegerField()),
                ("at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                ("step", models.IntegerField()),
                ("samples", models.IntegerField()),
                ("loss", models.FloatField(blank=True, null=True)),
                ("throughput", models.FloatField(blank=True, null=True)),
                ("step_time_s", models.FloatField(blank=True, null=True)),
                ("tokens", models.FloatField(blank=True, null=True)),
                (
                    "attempt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="recovery.attempt",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RollupDue",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "attempt_id", "at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.DateTimeField()),
                ("touched", models.IntegerField(default=0)),
                (
                    "attempt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="recovery.attempt",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Upkeep",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("next_look_at", models.DateTimeField(blank=True, db_index=True, null=True)),
                ("leased_until", models.DateTimeField(blank=True, null=True)),
                ("name", models.CharField(default="storage", max_length=20, unique=True)),
                ("at", models.DateTimeField(blank=True, null=True)),
                ("took_s", models.FloatField(blank=True, null=True)),
                ("done", models.JSONField(blank=True, default=dict)),
                ("error", models.TextField(blank=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Outlook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("free_bytes", models.BigIntegerField(blank=True, null=True)),
                ("quota_bytes", models.BigIntegerField(blank=True, null=True)),
                ("needs_bytes", models.BigIntegerField(blank=True, null=True)),
                ("keeps", models.IntegerField(blank=True, null=True)),
                ("next_step", models.IntegerField(blank=True, null=True)),
                ("next_at", models.DateTimeField(blank=True, null=True)),
                ("space_warning", models.CharField(blank=True, max_length=300)),
                ("space_remedy", models.CharField(blank=True, max_length=300)),
                ("rotation_warning", models.CharField(blank=True, max_length=300)),
                ("rotation_remedy", models.CharField(blank=True, max_length=300)),
                ("checked_at", models.DateTimeField()),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="outlook", to="recovery.run"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="checkpoint",
            name="changed_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="sample",
            name="tokens",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(drop_attempt_index, make_attempt_index)],
            state_operations=[
                migrations.AlterField(
                    model_name="sample",
                    name="attempt",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="samples",
                        to="recovery.attempt",
                    ),
                )
            ],
        ),
        migrations.RunPython(divide, unite),
        AddTimeIndex(model_name="sample", index=models.Index(fields=["at"], name="sample_by_time")),
        AddTimeIndex(model_name="minuterollup", index=models.Index(fields=["at"], name="minute_by_time")),
        AddTimeIndex(model_name="tenminuterollup", index=models.Index(fields=["at"], name="ten_minutes_by_time")),
        migrations.AddIndex(model_name="rollupdue", index=models.Index(fields=["at"], name="rollup_due_by_time")),
        migrations.RunPython(note_what_is_due, migrations.RunPython.noop),
    ]
