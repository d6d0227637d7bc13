"""The audit trail and the policy's versions are append-only, and the database itself holds that.

Triggers refuse UPDATE and DELETE, row by row, whoever asks: ORM, admin shell or SQL prompt. PostgreSQL's TRUNCATE fires
no row trigger, so a statement trigger refuses it too; SQLite's REPLACE deletes without firing a delete trigger, so
a trigger refuses to insert over a row that exists. All of them raise django.db.IntegrityError.

SQLite: Django alters a table by making a new one and dropping the old, and the triggers go with the old one. So each
`migrate` ends with `complete` (recovery/apps.py), which makes what is missing; the system check recovery.W010 says
before it that something was.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

TABLES = ("recovery_event", "recovery_policyversion", "recovery_seal")  # those of later migrations too, once they exist

POSTGRESQL_FUNCTION = """
CREATE OR REPLACE FUNCTION recovery_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""
POSTGRESQL = {
    "no_change": (
        "CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION recovery_append_only()"
    ),
    "no_truncate": (
        "CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION recovery_append_only()"
    ),
}
SQLITE = {
    "no_update": (
        "CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table} "
        "BEGIN SELECT RAISE(ABORT, '{table} is append-only: UPDATE is refused'); END"
    ),
    "no_delete": (
        "CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} "
        "BEGIN SELECT RAISE(ABORT, '{table} is append-only: DELETE is refused'); END"
    ),
    "no_replace": (
        "CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "
        "WHEN EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id) "
        "BEGIN SELECT RAISE(ABORT, '{table} is append-only: REPLACE is refused'); END"
    ),
}


def create(connection: BaseDatabaseWrapper, *, only: Sequence[str] = TABLES) -> None:
    """Make every trigger anew, also where some are still there; of every append-only table, or `only` of these."""
    drop(connection, only=only)
    postgresql = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        if postgresql:
            cursor.execute(POSTGRESQL_FUNCTION)
        for table in _present(connection, only):
            for statement in (POSTGRESQL if postgresql else SQLITE).values():
                cursor.execute(statement.format(table=table))


def drop(connection: BaseDatabaseWrapper, *, only: Sequence[str] = TABLES) -> None:
    postgresql = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        for table in _present(connection, only):
            for name in POSTGRESQL if postgresql else SQLITE:
                cursor.execute(f"DROP TRIGGER IF EXISTS {table}_{name}" + (f" ON {table}" if postgresql else ""))


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Tables whose rows can be changed, as a trigger is missing or switched off."""
    postgresql = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        if postgresql:
            cursor.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')")
        else:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        there = {name for (name,) in cursor.fetchall()}
    kinds = POSTGRESQL if postgresql else SQLITE
    return [table for table in _present(connection, TABLES) if not {f"{table}_{kind}" for kind in kinds} <= there]


def complete(connection: BaseDatabaseWrapper) -> None:
    if tables := missing(connection):
        create(connection, only=tables)


def _present(connection: BaseDatabaseWrapper, only: Sequence[str]) -> list[str]:
    present = connection.introspection.table_names()
    return [table for table in only if table in present]


def make_triggers(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    create(schema_editor.connection)


def drop_triggers(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    drop(schema_editor.connection)
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION IF EXISTS recovery_append_only()")


class Migration(migrations.Migration):
    dependencies = [("recovery", "0001_first_tables")]

    operations = [migrations.RunPython(make_triggers, drop_triggers)]
