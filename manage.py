#!/usr/bin/env python3
"""Django's command line for Recovery Desk."""

import os
import select
import signal
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery.settings")
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError, connection

    from recovery.origin import on_this_host, set_origin

    set_origin(on_this_host("manage.py"))
    try:
        execute_from_command_line(sys.argv)
        sys.stdout.flush()  # what is left would be written when Python ends, where nothing can be caught
    except BrokenPipeError:
        if _is_heard():
            raise
        # end as other programs do: Python would complain once more of what it can't write at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except DatabaseError:
        if _has_tables():
            raise
        sys.exit(
            f"The database {connection.settings_dict['NAME']} has no tables of Recovery Desk. Name the right one with "
            "DATABASE_URL or RECOVERY_DATA_DIR (a demo's: `. var/demo/environment`), or make them: "
            "python manage.py migrate"
        )


def _is_heard() -> bool:
    """Whether whoever reads the output is still there, unlike `head` after its lines: else another pipe broke."""
    output = select.poll()
    output.register(sys.stdout, 0)
    return not any(state & select.POLLERR for _, state in output.poll(0))


def _has_tables() -> bool:
    from django.db import DatabaseError, connection

    try:
        return "django_migrations" in connection.introspection.table_names()
    except DatabaseError:
        return True  # it can't be asked: what was raised says more


if __name__ == "__main__":
    main()
