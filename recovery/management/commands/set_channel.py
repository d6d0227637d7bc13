"""Make a channel by which people are told, or change one."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from recovery.access import Actor
from recovery.management.person import at_the_command_line
from recovery.models import Channel
from recovery.pipeline import channels
from recovery.pipeline.invalid import Invalid


class Command(BaseCommand):
    help = "Make a channel by which people are told, or change one. What is not given stays as it is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="what the policy's routes and escalations call it")
        kinds = [kind for kind, _ in Channel.KINDS]
        parser.add_argument("--kind", choices=kinds, help="needed for a new one; a channel's kind never changes")
        parser.add_argument(
            "--target", help="the address to post to, or mail addresses with commas between; - reads it from the input"
        )
        parser.add_argument("--rename", metavar="NAME", help="another name; the policy still names the old one")
        private = parser.add_mutually_exclusive_group()
        private.add_argument("--allow-private", action="store_true", help="addresses within the site may be posted to")
        private.add_argument("--refuse-private", action="store_true", help="they may not (default)")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--disable", action="store_true", help="send nothing by it; what waits is not sent any more")
        what.add_argument("--enable", action="store_true", help="send by it again")
        what.add_argument("--renew-secret", action="store_true", help="of a webhook: shown once, the old one is gone")
        what.add_argument("--test", action="store_true", help="have a worker send a test message")
        what.add_argument("--remove", action="store_true", help="forget it, with what it has waiting")

    def handle(self, *args: Any, **options: Any) -> None:
        channel = Channel.objects.filter(name=options["name"].strip()).first()
        if options["target"] == "-":
            options["target"] = input().strip()
        try:
            told = _set(channel, options, actor=at_the_command_line(), now=datetime.now(UTC))
        except Invalid as problem:
            raise CommandError(str(problem)) from problem
        self.stdout.write("\n".join(told))


def _set(channel: Channel | None, options: dict[str, Any], *, actor: Actor, now: datetime) -> list[str]:
    """What to tell of it. Raises Invalid."""
    name = options["name"].strip()
    if channel is None:
        if not options["kind"] or not options["target"]:
            raise CommandError(f"There is no channel {name!r} yet: give --kind and --target to make it.")
        made, secret = channels.make(
            name=name, kind=options["kind"], target=options["target"], allow_private=options["allow_private"],
            actor=actor, now=now,
        )  # fmt: skip
        return [f"{made.name} posts to {channels.shown_target(made)}.", *_secret(secret)]
    if options["kind"] not in (None, channel.kind):
        raise CommandError(f"{name} is of the kind {channel.kind}: --remove it first, or give another name.")
    if options["remove"]:
        channels.remove(channel.pk, actor=actor, now=now)
        return [f"{name} is removed, with what it had waiting."]
    private = True if options["allow_private"] else False if options["refuse_private"] else None
    enabled = True if options["enable"] else False if options["disable"] else None
    row = channels.change(
        channel.pk, name=options["rename"], target=options["target"], allow_private=private, enabled=enabled,
        actor=actor, now=now,
    )  # fmt: skip
    told = [f"{row.name} {'posts to' if row.enabled else 'is off; it would post to'} {channels.shown_target(row)}."]
    if options["renew_secret"]:
        told += _secret(channels.renew_secret(row.pk, actor=actor, now=now)[1])
    if options["test"]:
        channels.try_out(row.pk, actor=actor, now=now)
        told.append("A test is on its way at the next tick; the page Notifications says whether it arrives.")
    return told


def _secret(text: str) -> list[str]:
    return [f"Its secret, shown this once: {text}"] if text else []
