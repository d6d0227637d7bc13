"""Who may do what, as docs/access.md shows it: made from the table that the code goes by."""

from __future__ import annotations

from recovery.access import ROLE_PERMISSIONS, Permission
from recovery.models.access import Role


def table() -> str:
    """Markdown: a row for each permission, a column for each role."""
    labels = [role.label for role in Role]
    lines = ["| may | " + " | ".join(labels) + " |", "| --- |" + " --- |" * len(labels)]
    for permission in Permission:
        marks = [_mark(role, permission) for role in Role]
        lines.append(f"| {permission.sentence} (`{permission}`) | " + " | ".join(marks) + " |")
    return "\n".join(lines)


def _mark(role: Role, permission: Permission) -> str:
    if role is Role.OWNER and permission is Permission.DECIDE:
        return "where the policy says so"
    return "yes" if permission in ROLE_PERMISSIONS[role] else "–"
