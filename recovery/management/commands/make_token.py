"""Make an API token for an account, or a push token for jobs, where no browser is at hand."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from recovery.access import Forbidden, Permission, actor_for
from recovery.api import push_tokens, tokens
from recovery.models import Cluster, Job


class Command(BaseCommand):
    help = (
        "Make a token in an account's name and print it, this once: an API token, which never gives more than the "
        "account's role, or with --push a push token, which only takes in what jobs say of themselves."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account")
        parser.add_argument("--name", required=True, help="what uses it, for whoever looks at the list of tokens")
        choices = [permission.value for permission in Permission]
        parser.add_argument("--scope", action="append", choices=choices, help="may be repeated (default: view)")
        parser.add_argument("--push", metavar="CLUSTER", help="make a push token for this cluster's jobs")
        parser.add_argument("--user", default="", help="with --push: only for jobs of this Slurm user")
        parser.add_argument("--job", default="", help="with --push: only for this job (Slurm's id, the newest of it)")
        parser.add_argument("--days", type=int, default=90, help="how long it is good for (default: 90)")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["account"]).first()
        if user is None:
            raise CommandError(f"There is no account {options['account']}: make it with set_account.")
        make = self._push_token if options["push"] else self._api_token
        if not options["push"] and (options["user"] or options["job"]):
            raise CommandError("--user and --job belong to a push token: name its cluster with --push.")
        if options["push"] and options["scope"]:
            raise CommandError("A push token has no scopes: leave out --scope.")
        try:
            text = make(user, options, datetime.now(UTC))
        except Forbidden as error:
            raise CommandError(str(error)) from error
        except tokens.Invalid as error:
            raise CommandError(" ".join(sentence for part in error.fields.values() for sentence in part)) from error
        self.stdout.write(text)

    def _api_token(self, user: User, options: dict[str, Any], now: datetime) -> str:
        _, text = tokens.make(
            actor=actor_for(user),
            name=options["name"],
            scopes=[Permission(scope) for scope in options["scope"] or ["view"]],
            expires_at=now + timedelta(days=options["days"]),
            now=now,
        )
        return text

    def _push_token(self, user: User, options: dict[str, Any], now: datetime) -> str:
        cluster = Cluster.objects.filter(name=options["push"]).first()
        if cluster is None:
            raise CommandError(f"There is no cluster {options['push']}: set_cluster makes one.")
        job = None
        if options["job"]:
            job = Job.objects.filter(cluster=cluster, job_id=options["job"]).order_by("-first_submitted_at").first()
            if job is None:
                raise CommandError(f"No job {options['job']} was seen on {cluster} yet.")
        _, text = push_tokens.make(
            actor=actor_for(user), name=options["name"], cluster=cluster, job=job, user=options["user"],
            expires_at=now + timedelta(days=options["days"]), now=now,
        )  # fmt: skip
        return text
