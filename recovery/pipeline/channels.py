"""Setting channels up: each change an event, and no secret in it.

Whoever knows the address of a webhook may often post there, so events and answers show no more of it than the host.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from recovery import audit
from recovery.access import EVERYTHING, Actor, Permission, require
from recovery.core.notices import SEVERITY, TITLES, Message, NoticeKind
from recovery.models import Channel, Delivery
from recovery.notify.base import NotSent
from recovery.notify.post import refusal, target_of
from recovery.notify.webhook import new_secret
from recovery.pipeline.invalid import Invalid
from recovery.selectors import NotFound

MOST = 100  # channels
MOST_ADDRESSES = 20  # of one mail
NAME_MARKS = frozenset(" ._-")  # beside letters and digits
SWITCHED_OFF = "Not sent: the channel was switched off."


def make(
    *, name: str, kind: str, target: str, allow_private: bool = False, actor: Actor, now: datetime
) -> tuple[Channel, str]:
    """A new channel, and the secret of a webhook ("" for other kinds), which is shown this once. Raises Invalid."""
    require(actor, Permission.CHANNEL_MANAGE, EVERYTHING)
    if kind not in dict(Channel.KINDS):
        raise Invalid([f"kind: choose one of {', '.join(dict(Channel.KINDS))}."])
    secret = new_secret() if kind == "webhook" else ""
    channel = Channel(name=_name(name), kind=kind, allow_private=allow_private, secret=secret, created_at=now)
    channel.target = _target(kind, target)
    _refuse_inside(channel)
    with transaction.atomic():
        if Channel.objects.count() >= MOST:
            raise Invalid([f"name: there are {MOST} channels; remove one first."])
        _save(channel)
        _record("channel.added", channel, actor=actor, now=now)
    return channel, secret


def change(
    pk: int, *, name: str | None = None, target: str | None = None, allow_private: bool | None = None,
    enabled: bool | None = None, actor: Actor, now: datetime,
) -> Channel:  # fmt: skip
    """What is None stays as it is. Raises Invalid or NotFound."""
    if target is not None or allow_private is False:
        _refuse_change(pk, target, allow_private, actor=actor)
    with transaction.atomic():
        channel = _mine(pk, actor)
        old = shown(channel)
        if name is not None:
            channel.name = _name(name)
        if target is not None:
            channel.target = _target(channel.kind, target)
        if allow_private is not None:
            channel.allow_private = allow_private
        if enabled is not None and enabled is not channel.enabled:
            _switch(channel, on=enabled)
        if shown(channel) == old and target is None:
            return channel
        # what was observed is of how it was set up before
        channel.failing_since, channel.trouble, channel.next_look_at = None, "", None
        fields = ["name", "target", "allow_private", "enabled", "failing_since", "trouble", "next_look_at"]
        _save(channel, update_fields=fields)  # a worker may be writing the rest
        _record("channel.changed", channel, actor=actor, now=now, before=old)
    return channel


def _switch(channel: Channel, *, on: bool) -> None:
    """What waited for a channel that is off is old news when it is on again."""
    channel.enabled = on
    Delivery.objects.filter(channel=channel).exclude(try_at=None).update(try_at=None, trouble=SWITCHED_OFF)


def renew_secret(pk: int, *, actor: Actor, now: datetime) -> tuple[Channel, str]:
    """Another secret, shown this once; from now on nothing is signed with the one before."""
    with transaction.atomic():
        channel = _mine(pk, actor)
        if channel.kind != "webhook":
            raise Invalid([f"kind: {channel.name} is no webhook: only those are signed."])
        channel.secret = new_secret()
        channel.save(update_fields=["secret"])
        _record("channel.secret_renewed", channel, actor=actor, now=now)
    return channel, channel.secret


def remove(pk: int, *, actor: Actor, now: datetime) -> Channel:
    """With what it has waiting and what it sent. Routes that name it lead nowhere then: the policy page says so."""
    with transaction.atomic():
        channel = _mine(pk, actor)
        _record("channel.removed", channel, actor=actor, now=now)
        Channel.objects.filter(pk=pk).delete()
    return channel


def try_out(pk: int, *, actor: Actor, now: datetime) -> Delivery:
    """Put a test message into the channel's queue, and end its pause."""
    kind = NoticeKind.TEST
    with transaction.atomic():
        channel = _mine(pk, actor)
        if not channel.enabled:
            raise Invalid([f"enabled: {channel.name} is off; switch it on first."])
        message = Message(
            key=f"test-{channel.pk}-{now.timestamp():.6f}", kind=kind, severity=SEVERITY[kind], at=now.isoformat(),
            title=TITLES[kind], lines=(f"{actor.name} tries out the channel {channel.name}.",), path="/notifications/",
        )  # fmt: skip
        new = {"message": asdict(message), "made_at": now, "try_at": now}
        delivery, made = Delivery.objects.get_or_create(channel=channel, key=message.key, defaults=new)
        Channel.objects.filter(pk=pk).update(next_look_at=None)
        if made:
            _record("channel.tried_out", channel, actor=actor, now=now)
    return delivery


def try_again(pk: int, *, actor: Actor, now: datetime) -> Delivery:
    """Send what did not arrive now rather than later, or once more after it was given up. Raises Invalid, NotFound."""
    require(actor, Permission.CHANNEL_MANAGE, EVERYTHING)
    with transaction.atomic():
        delivery = Delivery.objects.select_related("channel").filter(pk=pk).first()
        if delivery is None:
            raise NotFound(f"There is no delivery {pk}.")
        if not delivery.channel.enabled:
            raise Invalid([f"channel: {delivery.channel.name} is off; switch it on first."])
        if not Delivery.objects.filter(pk=pk, sent_at=None).update(try_at=now):
            raise Invalid(["delivery: it has arrived, so it is not sent again."])
        Channel.objects.filter(pk=delivery.channel_id).update(next_look_at=None)
        _record("channel.tried_again", delivery.channel, actor=actor, now=now, delivery=delivery.key)
    delivery.try_at = now
    return delivery


def shown(channel: Channel) -> dict[str, Any]:
    """What events and answers tell of it."""
    return {
        "name": channel.name, "kind": channel.kind, "target": shown_target(channel),
        "allow_private": channel.allow_private, "enabled": channel.enabled,
    }  # fmt: skip


def shown_target(channel: Channel) -> str:
    if channel.kind == "email":
        return channel.target
    try:
        return target_of(channel.target).shown
    except NotSent:
        return "no address"


def _mine(pk: int, actor: Actor) -> Channel:
    require(actor, Permission.CHANNEL_MANAGE, EVERYTHING)
    channel = Channel.objects.select_for_update().filter(pk=pk).first()
    if channel is None:
        raise NotFound(f"There is no channel {pk}.")
    return channel


def _name(text: str) -> str:
    name = text.strip()
    if not 0 < len(name) <= 100 or not all(char.isalnum() or char in NAME_MARKS for char in name):
        raise Invalid(["name: give 1 to 100 letters, digits, spaces and the marks . - _; the policy's routes name it."])
    return name


def _target(kind: str, text: str) -> str:
    target = text.strip()
    if not 0 < len(target) <= 1000:
        what = "mail addresses with commas between" if kind == "email" else "the address to post to, https://…"
        raise Invalid([f"target: give {what}, at most 1000 characters."])
    if kind == "email":
        return _mail_addresses(target)
    try:
        target_of(target)
    except NotSent as problem:
        raise Invalid([f"target: {problem}"]) from problem
    return target


def _refuse_change(pk: int, target: str | None, allow_private: bool | None, *, actor: Actor) -> None:
    """Before the change begins, as a name may take long to be looked up. What is kept as it was is not judged anew."""
    require(actor, Permission.CHANNEL_MANAGE, EVERYTHING)
    channel = Channel.objects.filter(pk=pk).first()
    if channel is None or (target is None and not channel.allow_private):
        return
    if target is not None:
        channel.target = _target(channel.kind, target)
    if allow_private is not None:
        channel.allow_private = allow_private
    _refuse_inside(channel)


def _refuse_inside(channel: Channel) -> None:
    """Judged again at each sending: a name may lead elsewhere by then."""
    if channel.kind == "email":
        return
    if why := refusal(channel.target, allow_private=channel.allow_private):
        raise Invalid([f"target: {why}"])


def _mail_addresses(text: str) -> str:
    addresses = [each.strip() for each in text.split(",") if each.strip()]
    if not 0 < len(addresses) <= MOST_ADDRESSES:
        raise Invalid([f"target: give 1 to {MOST_ADDRESSES} mail addresses with commas between."])
    for each in addresses:
        try:
            validate_email(each)
        except ValidationError as problem:
            raise Invalid([f"target: {each[:80]!r} is no mail address; give NAME@HOST."]) from problem
    return ", ".join(addresses)


def _save(channel: Channel, *, update_fields: list[str] | None = None) -> None:
    try:
        with transaction.atomic():
            channel.save(update_fields=update_fields)
    except IntegrityError as problem:
        raise Invalid([f"name: there is a channel {channel.name} already; give another."]) from problem


def _record(verb: str, channel: Channel, *, actor: Actor, now: datetime, **more: Any) -> None:
    audit.record(
        verb, actor=actor, at=now, subject_kind="channel", subject_id=channel.pk, reason=f"Channel {channel.name}",
        **shown(channel), **more,
    )  # fmt: skip
