"""Make an account, or change its roles or password."""

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

from recovery.management.person import at_the_command_line
from recovery.models import Membership
from recovery.models.access import Role
from recovery.pipeline import accounts, lock_out
from recovery.pipeline.invalid import Invalid


class Command(BaseCommand):
    help = "Make an account with a role, or change the roles or the password of one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--role", choices=[role.value for role in Role], help="needed for a new account")
        parser.add_argument(
            "--scope", default="all",
            help="for what the role is given: all (default), cluster=NAME, partition=NAME, account=NAME or user=NAME "
            "(a Slurm user, with the role owner); the last three also with @CLUSTER",
        )  # fmt: skip
        parser.add_argument(
            "--add", action="store_true", help="beside other roles for the same scope, not in their place"
        )
        parser.add_argument("--take", action="store_true", help="take the role for this scope instead of giving it")
        parser.add_argument("--password", action="store_true", help="give an existing account a new password")
        parser.add_argument(
            "--unlock", action="store_true", help="forget tries to log in that failed, so it can at once"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name, role = options["name"], options["role"]
        user = User.objects.filter(username=name).first()
        if user is None and role is None:
            raise CommandError(f"There is no account {name} yet: give it a role with --role.")
        if options["take"] and (user is None or role is None):
            raise CommandError("--take: name an account that there is, and the --role to take.")
        password = ask_password(name) if user is None or options["password"] else ""
        try:
            with transaction.atomic():
                user = _with_password(user, name, password)
                if role:
                    _change(user, Role(role), options)
                if options["unlock"]:
                    lock_out.unlock(user, actor=at_the_command_line(), now=datetime.now(UTC))
        except Invalid as problem:
            raise CommandError(" ".join(problem.errors)) from problem
        self.stdout.write(f"{name} is {roles_of(user)}.")


def _with_password(user: User | None, name: str, password: str) -> User:
    is_new = user is None
    user = user or User(username=name)
    if password:
        user.set_password(password)
        user.save()
        tell = accounts.made if is_new else accounts.password_changed
        tell(user, actor=at_the_command_line(), now=datetime.now(UTC))
    return user


def _change(user: User, role: Role, options: dict[str, Any]) -> None:
    actor, now = at_the_command_line(), datetime.now(UTC)
    reach = accounts.read_reach(options["scope"])
    if not options["take"]:
        accounts.give_role(user, role, reach, actor=actor, now=now, beside=options["add"])
        return
    row = Membership.objects.filter(
        user=user, role=role, scope=reach.scope, cluster=reach.cluster, name=reach.name
    ).first()
    if row is None:
        raise CommandError(f"{user.username} is not {role.value} for {options['scope']}: {roles_of(user)}.")
    accounts.take_role(row, actor=actor, now=now)


def roles_of(user: User) -> str:
    """ "administrator", "approver for partition gpu, viewer", "without a role"."""
    rows = Membership.objects.filter(user=user).select_related("cluster").order_by("pk")
    told = [row.get_role_display().lower() + (f" for {row.where}" if row.scope != "all" else "") for row in rows]
    return ", ".join(told) or "without a role"


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
