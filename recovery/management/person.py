"""Who sits at the command line, for the record."""

from __future__ import annotations

import getpass

from recovery.access import Actor, Permission


def at_the_command_line() -> Actor:
    """The system's name for the person. Whoever may run these commands may write the database anyway."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in a container
        name = "somebody"
    return Actor(kind="system", name=f"{name} at the command line", user_id=None, permissions=frozenset(Permission))
