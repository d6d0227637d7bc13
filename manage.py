#!/usr/bin/env python3
"""Django's command line for Recovery Desk."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery.settings")
    from django.core.management import execute_from_command_line

    from recovery.origin import on_this_host, set_origin

    set_origin(on_this_host("manage.py"))
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
