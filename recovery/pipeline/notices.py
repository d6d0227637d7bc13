"""Beside the path: telling people. A notice is written with its change (recovery/audit.py); here it is routed and sent.

1. `route` takes the notices that have waited for others of their outbreak, and makes one message for each channel.
2. `deliver` sends what one channel has waiting, under that channel's lease, and tries again later what did not arrive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.notices import (
    AGAIN,
    GATHER,
    SEVERITY,
    TITLES,
    About,
    Message,
    NoticeKind,
    channels_for,
    retry_after,
)
from recovery.core.policy import DEFAULT_RULES, Traits
from recovery.core.types import FailureClass
from recovery.models import Channel, Cluster, Delivery, Incident, Notice
from recovery.notify import email, slack, webhook
from recovery.notify.base import Address, NotSent, Send
from recovery.pipeline.leasing import Clock, with_lease
from recovery.pipeline.ruling import traits_of
from recovery.selectors import current_policy

SENDERS: dict[str, Send] = {"webhook": webhook.send, "slack": slack.send, "email": email.send}
MOST = 500  # notices that are routed at a time
NAMED = 5  # cases that a message names; of more it says how many
DEAD = timedelta(minutes=10)  # a channel that fails for so long is an alarm of its own
ENDANGERED_AGAIN = timedelta(hours=1)


def due(now: datetime) -> list[int]:
    """Channels that have something to send."""
    return list(Channel.due(now).filter(enabled=True).values_list("pk", flat=True))


def route(*, now: datetime) -> None:
    """Make the messages of what has waited long enough. Two queries where there is nothing."""
    _note_dangers(now=now)
    waiting = list(Notice.objects.filter(routed_at=None, at__lte=now - GATHER)[:MOST])
    if not waiting:
        return
    incidents = {row.pk: row for row in _incidents(row.incident_id for row in waiting)}
    groups: dict[tuple[str, object], list[Notice]] = defaultdict(list)
    for notice in waiting:
        incident = incidents.get(notice.incident_id) if notice.incident_id else None
        together = ("outbreak", incident.outbreak_id) if incident and incident.outbreak_id else notice.incident_id
        groups[(notice.kind, together or f"notice {notice.pk}")].append(notice)
    for notices in groups.values():
        _route_group(notices, [incidents[n.incident_id] for n in notices if n.incident_id in incidents], now=now)


def _incidents(keys: Iterable[int | None]) -> list[Incident]:
    rows = Incident.objects.filter(pk__in={key for key in keys if key is not None})
    return list(rows.select_related("run__cluster", "attempt__job").prefetch_related("recommendations"))


def _note_dangers(*, now: datetime) -> None:
    """A good checkpoint that is about to be destroyed has no event of its own: it is in the case."""
    for pk, danger in Incident.objects.exclude(danger_at=None).values_list("pk", "danger"):
        kind = NoticeKind.CHECKPOINT_IN_DANGER
        told = Notice.objects.filter(kind=kind, incident_id=pk, at__gt=now - ENDANGERED_AGAIN)
        if not told.exists():
            Notice.objects.create(
                at=now - GATHER, kind=kind, severity=SEVERITY[kind], incident_id=pk, subject=danger[:300]
            )


def _route_group(notices: Sequence[Notice], incidents: Sequence[Incident], *, now: datetime) -> None:
    first = notices[0]
    keys = [notice.pk for notice in notices]
    with transaction.atomic():
        if Notice.objects.filter(pk__in=keys, routed_at=None).update(routed_at=now) != len(keys):
            transaction.set_rollback(True)  # another router took some of them in this moment
            return
        if _told_already(first, now=now):
            return
        names = sorted(_channels(first, incidents, now=now))
        if not names:
            return
        message = _message(notices, incidents)
        for channel in Channel.objects.filter(name__in=names, enabled=True):
            Delivery.objects.create(channel=channel, key=message.key, message=asdict(message), made_at=now, try_at=now)
            Channel.objects.filter(pk=channel.pk).update(next_look_at=now)


def _told_already(notice: Notice, *, now: datetime) -> bool:
    """The same of the same case, a moment ago: a policy that changes asks every open question anew."""
    if notice.incident_id is None or notice.kind == NoticeKind.ESCALATED:
        return False
    before = Notice.objects.filter(kind=notice.kind, incident_id=notice.incident_id, pk__lt=notice.pk)
    return before.filter(routed_at__gt=now - AGAIN).exists()


def _channels(notice: Notice, incidents: Sequence[Incident], *, now: datetime) -> list[str]:
    every = list(Channel.objects.filter(enabled=True).values_list("name", flat=True))
    if notice.channels:
        return [name for name in notice.channels if name in every]
    policy = current_policy()
    incident = incidents[0] if incidents else None
    about = About(
        kind=NoticeKind(notice.kind),
        traits=traits_of(incident) if incident else Traits(cluster=_cluster_name(notice)),
        failure_class=FailureClass(incident.failure_class) if incident and incident.failure_class else None,
        confidence=(incident.confidence or 0.0) if incident else 1.0,
        at=now,
    )
    return channels_for(policy.rules if policy else DEFAULT_RULES, about, every=every)


def _cluster_name(notice: Notice) -> str:
    if notice.cluster_id is None:
        return ""
    return Cluster.objects.filter(pk=notice.cluster_id).values_list("name", flat=True).first() or ""


def _message(notices: Sequence[Notice], incidents: Sequence[Incident]) -> Message:
    first, cases = notices[0], list({row.pk: row for row in incidents}.values())
    lines = [_line(row) for row in cases[:NAMED]] or [first.subject]
    if len(cases) == 1 and first.subject and first.kind != NoticeKind.DECISION_NEEDED:
        lines.append(first.subject)
    if len(cases) > NAMED:
        lines.append(f"and {len(cases) - NAMED} more")
    return Message(
        key=f"notice-{first.pk}", kind=first.kind, severity=first.severity, at=first.at.isoformat(),
        title=TITLES[NoticeKind(first.kind)], lines=tuple(lines), path=_path(first, cases),
        cluster=cases[0].run.cluster.name if cases else _cluster_name(first),
        incidents=tuple(row.pk for row in cases),
    )  # fmt: skip


def _line(incident: Incident) -> str:
    asked = next((row for row in incident.recommendations.all() if row.superseded_at is None), None)
    what = incident.headline or incident.reason or f"{incident.run.name}: a fault was seen."
    cost = f" {asked.gpus_idle} GPUs wait." if asked is not None and asked.gpus_idle else ""
    return f"{what} {asked.headline}{cost}" if asked is not None else what


def _path(notice: Notice, cases: Sequence[Incident]) -> str:
    """The page where it is decided. Opening it decides nothing."""
    if len(cases) > 1 and cases[0].outbreak_id is not None:
        return f"/outbreaks/{cases[0].outbreak_id}/"
    if cases:
        return f"/incidents/{cases[0].pk}/"
    if notice.kind == NoticeKind.CLUSTER_SILENT and notice.cluster_id is not None:
        return f"/clusters/{notice.cluster_id}/"
    if notice.kind in (NoticeKind.RULE_DEMOTED, NoticeKind.PROMOTION_PROPOSED):
        return "/policies/"
    return "/"


# --- sending ---------------------------------------------------------------------------------------------------------
def deliver(pk: int, *, clock: Clock) -> None:
    """Send what one channel has waiting, the oldest first; the first that does not arrive ends the look."""

    def look(channel: Channel) -> datetime | None:
        for delivery in channel.deliveries.filter(try_at__lte=clock()).order_by("try_at", "pk"):
            if not _send(channel, delivery, now=clock()):
                break
        waiting = channel.deliveries.exclude(try_at=None).order_by("try_at").first()
        return waiting.try_at if waiting is not None else None

    with_lease(Channel, pk, look, clock=clock)


def _send(channel: Channel, delivery: Delivery, *, now: datetime) -> bool:
    message = Message.of(delivery.message)
    try:
        SENDERS[channel.kind](message, address_of(channel), now=now)
    except NotSent as failure:
        _failed(channel, delivery, failure, now=now)
        return False
    Delivery.objects.filter(pk=delivery.pk).update(sent_at=now, try_at=None, trouble="", tries=delivery.tries + 1)
    Channel.objects.filter(pk=channel.pk).update(good_at=now, failing_since=None, trouble="")
    return True


def _failed(channel: Channel, delivery: Delivery, failure: NotSent, *, now: datetime) -> None:
    tries, why = delivery.tries + 1, str(failure)[:300]
    wait = None if failure.for_good else retry_after(tries)
    Delivery.objects.filter(pk=delivery.pk).update(tries=tries, trouble=why, try_at=now + wait if wait else None)
    since = channel.failing_since or now
    Channel.objects.filter(pk=channel.pk).update(failing_since=since, trouble=why)
    if since <= now - DEAD < now or failure.for_good:
        _alarm(channel, why, now=now)


def _alarm(channel: Channel, why: str, *, now: datetime) -> None:
    """Told to the other channels, once a day at most; pages show it all the time."""
    subject = f"{channel.name}: {why}"
    told = Notice.objects.filter(kind=NoticeKind.CHANNEL_FAILING, subject__startswith=f"{channel.name}: ")
    if not told.filter(at__gt=now - timedelta(days=1)).exists():
        with transaction.atomic():
            audit.record(
                "channel.failing", actor=SYSTEM, at=now, subject_kind="channel", subject_id=channel.pk, reason=subject
            )


def address_of(channel: Channel) -> Address:
    return Address(
        target=channel.target, secret=channel.secret, allow_private=channel.allow_private, desk=settings.ADDRESS,
        ca_file=settings.WEBHOOK_CA_FILE,
    )  # fmt: skip


def try_out(channel: Channel, *, by: str, now: datetime) -> None:
    """Put a test message into the channel's queue."""
    kind = NoticeKind.TEST
    message = Message(
        key=f"test-{channel.pk}-{now.timestamp():.6f}", kind=kind, severity=SEVERITY[kind], at=now.isoformat(),
        title=TITLES[kind], lines=(f"{by} tries out the channel {channel.name}.",), path="/",
    )  # fmt: skip
    try:
        with transaction.atomic():
            Delivery.objects.create(channel=channel, key=message.key, message=asdict(message), made_at=now, try_at=now)
            Channel.objects.filter(pk=channel.pk).update(next_look_at=now)
    except IntegrityError:
        return  # pressed twice in the same microsecond
