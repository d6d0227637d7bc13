"""Make an API token for an account, where no browser is at hand."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from recovery.access import Forbidden, Permission, actor_for
from recovery.api import tokens


class Command(BaseCommand):
    help = "Make an API token for an account and print it, this once. It never gives more than the account's role."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account")
        parser.add_argument("--name", required=True, help="what uses it, for whoever looks at the list of tokens")
        choices = [permission.value for permission in Permission]
        parser.add_argument("--scope", action="append", choices=choices, help="may be repeated (default: view)")
        parser.add_argument("--days", type=int, default=90, help="how long it is good for (default: 90)")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["account"]).first()
        if user is None:
            raise CommandError(f"There is no account {options['account']}: make it with set_account.")
        now = datetime.now(UTC)
        try:
            _, text = tokens.make(
                actor=actor_for(user),
                name=options["name"],
                scopes=[Permission(scope) for scope in options["scope"] or ["view"]],
                expires_at=now + timedelta(days=options["days"]),
                now=now,
            )
        except Forbidden as error:
            raise CommandError(str(error)) from error
        except tokens.Invalid as error:
            raise CommandError(" ".join(sentence for part in error.fields.values() for sentence in part)) from error
        self.stdout.write(text)
