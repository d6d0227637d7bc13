"""Make an account, or change its role or password."""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from recovery import audit
from recovery.management.person import at_the_command_line
from recovery.models import Membership
from recovery.models.access import Role


class Command(BaseCommand):
    help = "Make an account with a role, or change the role or the password of one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--role", choices=[role.value for role in Role], help="needed for a new account")
        parser.add_argument("--password", action="store_true", help="give an existing account a new password")

    def handle(self, *args: Any, **options: Any) -> None:
        name, role = options["name"], options["role"]
        user = User.objects.filter(username=name).first()
        if user is None and role is None:
            raise CommandError(f"There is no account {name} yet: give it a role with --role.")
        password = ask_password(name) if user is None or options["password"] else ""
        with transaction.atomic():
            user = user or User(username=name)
            if password:
                user.set_password(password)
                user.save()
            if role:
                change_role(user, Role(role))
        self.stdout.write(f"{name} is {user.membership.get_role_display().lower()}.")


def change_role(user: User, role: Role) -> None:
    before = Membership.objects.filter(user=user).values_list("role", flat=True).first() or ""
    Membership.objects.update_or_create(user=user, defaults={"role": role})
    user.refresh_from_db()
    audit.record(
        "account.role_changed",
        actor=at_the_command_line(),
        at=datetime.now(UTC),
        subject_kind="account",
        subject_id=user.pk,
        old=before,
        new=role.value,
        reason=f"Account {user.username}",
    )


def ask_password(name: str) -> str:
    """Typed twice at a terminal; the first line of the input where there is none."""
    if sys.stdin.isatty():
        password = getpass.getpass(f"Password of {name}: ")
        if password != getpass.getpass("Once more: "):
            raise CommandError("The two differ: nothing was changed.")
    else:
        password = sys.stdin.readline().rstrip("\n")
    try:
        validate_password(password)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error
    return password
