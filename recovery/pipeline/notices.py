"""Beside the path: telling people. A notice is written with its change (recovery/audit.py); here it is routed and sent.

1. `route` takes the notices that have waited for others of their outbreak, and makes one message for each channel.
2. `deliver` sends what one channel has waiting, under that channel's lease, and tries again later what did not arrive.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from recovery import audit
from recovery.access import SYSTEM
from recovery.core.lifecycle import IncidentState
from recovery.core.notices import (
    AGAIN,
    DEAD,
    GATHER,
    SEVERITY,
    TITLES,
    TRIPPED_AGAIN,
    About,
    Message,
    NoticeKind,
    channels_for,
    one_line,
    retry_after,
)
from recovery.core.policy import DEFAULT_RULES, Traits
from recovery.core.types import FailureClass
from recovery.models import Channel, Cluster, Delivery, Incident, Notice, Outbreak
from recovery.notify import email, slack, webhook
from recovery.notify.base import Address, NotSent, Send
from recovery.pipeline.leasing import DATABASE_AWAY, Clock, with_lease
from recovery.pipeline.ruling import traits_of
from recovery.selectors import current_policy

log = logging.getLogger(__name__)

SENDERS: dict[str, Send] = {"webhook": webhook.send, "slack": slack.send, "email": email.send}
MOST = 500  # notices that are routed at a time
MOST_SENT = 50  # messages of one channel at a time; others wait for the next look
NAMED = 5  # cases that a message names; of more it says how many
KEPT = timedelta(days=90)  # notices and deliveries
FORGOTTEN = 50_000  # rows of each that one pass removes
ENDANGERED_AGAIN = timedelta(hours=1)
PAUSE, LONGEST_PAUSE = timedelta(seconds=10), timedelta(minutes=5)  # of a channel that failed, before it is tried again
# told only while the case still waits so: what was decided meanwhile needs nobody
WAITS: dict[str, IncidentState] = {
    NoticeKind.DECISION_NEEDED: IncidentState.AWAITING_DECISION,
    NoticeKind.PERSON_NEEDED: IncidentState.NEEDS_PERSON,
}
SETTLED = "Not sent: nobody is needed any more."


@dataclass(frozen=True, kw_only=True, slots=True)
class Routes:
    """What decides who is told: read once for all notices of a look."""

    rules: Mapping[str, Any]
    channels: Mapping[str, Channel]  # those that are on, by name

    @classmethod
    def now(cls) -> Routes:
        policy = current_policy()
        on = {channel.name: channel for channel in Channel.objects.filter(enabled=True)}
        return cls(rules=policy.rules if policy else DEFAULT_RULES, channels=on)


def due(now: datetime) -> list[int]:
    """Channels that have something to send now, and no pause. The deliveries say it: no wake-up can get lost."""
    waiting = Delivery.objects.filter(channel=OuterRef("pk"), try_at__lte=now)
    found = Channel.objects.filter(Q(leased_until=None) | Q(leased_until__lte=now), Exists(waiting), enabled=True)
    return list(found.exclude(next_look_at__gt=now).values_list("pk", flat=True))


def route(*, now: datetime) -> None:
    """Make the messages of what has waited long enough. Two queries where there is nothing."""
    _note_dangers(now=now)
    waiting = list(Notice.objects.filter(routed_at=None, at__lte=now - GATHER)[:MOST])
    if not waiting:
        return
    routes = Routes.now()
    incidents = {row.pk: row for row in _incidents(row.incident_id for row in waiting)}
    groups: dict[tuple[str, object], list[Notice]] = defaultdict(list)
    for notice in waiting:
        incident = incidents.get(notice.incident_id) if notice.incident_id else None
        groups[(notice.kind, _together(notice, incident))].append(notice)
    for notices in groups.values():
        try:
            _route_group(notices, incidents, routes, now=now)
        except DATABASE_AWAY:
            raise
        except Exception:  # one that can't be told must hold up no other, and no tick
            log.exception("Notice %s can't be told", notices[0].pk)


def _together(notice: Notice, incident: Incident | None) -> object:
    """What notices of one kind have in common that become one message."""
    if incident is not None and incident.outbreak_id is not None:
        return ("outbreak", incident.outbreak_id)
    if notice.kind == NoticeKind.BREAKER_TRIPPED:
        return ("cluster", notice.cluster_id)
    return notice.incident_id or ("notice", notice.pk)


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


def _route_group(
    notices: Sequence[Notice], incidents: Mapping[int, Incident], routes: Routes, *, now: datetime
) -> None:
    keys = [notice.pk for notice in notices]
    with transaction.atomic():
        if Notice.objects.filter(pk__in=keys, routed_at=None).update(routed_at=now) != len(keys):
            transaction.set_rollback(True)  # another router took some of them in this moment
            return
        if not routes.channels or _tripped_already(notices, now=now):
            return
        told = _told_already(notices, now=now)
        notices = [each for each in notices if each.incident_id not in told and _still_so(each, incidents)]
        if not notices:
            return
        found = (incidents.get(each.incident_id) for each in notices if each.incident_id is not None)
        cases = [incident for incident in found if incident is not None]
        names = _channels(notices[0], cases, routes, now=now)
        if not names:
            return
        message = _message(notices, cases)
        for name in names:
            channel = routes.channels[name]
            Delivery.objects.create(channel=channel, key=message.key, message=asdict(message), made_at=now, try_at=now)


def _still_so(notice: Notice, incidents: Mapping[int, Incident]) -> bool:
    incident = incidents.get(notice.incident_id) if notice.incident_id else None
    return incident is None or notice.kind not in WAITS or incident.state == WAITS[notice.kind]


def _told_already(notices: Sequence[Notice], *, now: datetime) -> set[int | None]:
    """Cases of which the same was told a moment ago: a policy that changes asks every open question anew."""
    kind, cases = notices[0].kind, {notice.incident_id for notice in notices if notice.incident_id is not None}
    if not cases or kind == NoticeKind.ESCALATED:
        return set()
    before = Notice.objects.filter(kind=kind, incident_id__in=cases, routed_at__gt=now - AGAIN)
    keys = [notice.pk for notice in notices]
    return set(before.exclude(pk__in=keys).order_by().values_list("incident_id", flat=True))


def _tripped_already(notices: Sequence[Notice], *, now: datetime) -> bool:
    """A breaker that lets one thing through and holds the next is still the same trouble."""
    kind, cluster = notices[0].kind, notices[0].cluster_id
    if kind != NoticeKind.BREAKER_TRIPPED:
        return False
    before = Notice.objects.filter(kind=kind, cluster_id=cluster, routed_at__gt=now - TRIPPED_AGAIN)
    keys = before.exclude(pk__in=[notice.pk for notice in notices]).values_list("pk", flat=True)
    return Delivery.objects.filter(key__in=[_key(pk) for pk in keys]).exists()


def _channels(notice: Notice, cases: Sequence[Incident], routes: Routes, *, now: datetime) -> list[str]:
    every = sorted(routes.channels)
    if notice.kind == NoticeKind.CHANNEL_FAILING:  # not by the one that it is about
        every = [name for name in every if routes.channels[name].failing_since is None]
    if notice.channels:
        return [name for name in dict.fromkeys(notice.channels) if name in every]
    incident = cases[0] if cases else None
    about = About(
        kind=NoticeKind(notice.kind),
        traits=traits_of(incident) if incident else Traits(cluster=_cluster_name(notice)),
        failure_class=FailureClass(incident.failure_class) if incident and incident.failure_class else None,
        confidence=(incident.confidence or 0.0) if incident else 1.0,
        at=now,
    )
    return channels_for(routes.rules, about, every=every)


def _outbreak(notice: Notice) -> Outbreak | None:
    """The one whose opening it tells of: both are of the same moment."""
    if notice.kind != NoticeKind.OUTBREAK:
        return None
    return Outbreak.objects.select_related("cluster").filter(opened_at=notice.at).first()


def _cluster_name(notice: Notice) -> str:
    outbreak = _outbreak(notice)
    if outbreak is not None:
        return outbreak.cluster.name
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
        key=_key(first.pk), kind=first.kind, severity=first.severity, at=first.at.isoformat(),
        title=TITLES[NoticeKind(first.kind)], lines=tuple(one_line(line) for line in lines), path=_path(first, cases),
        cluster=cases[0].run.cluster.name if cases else _cluster_name(first),
        incidents=tuple(row.pk for row in cases),
    )  # fmt: skip


def _key(pk: int) -> str:
    """Of the message whose first notice it is."""
    return f"notice-{pk}"


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
    outbreak = _outbreak(notice)
    if outbreak is not None:
        return f"/outbreaks/{outbreak.pk}/"
    if notice.kind == NoticeKind.CHANNEL_FAILING:
        return "/notifications/"
    if notice.kind == NoticeKind.CLUSTER_SILENT and notice.cluster_id is not None:
        return f"/clusters/{notice.cluster_id}/"
    if notice.kind == NoticeKind.BREAKER_TRIPPED:
        return "/approvals/"
    if notice.kind in (NoticeKind.RULE_DEMOTED, NoticeKind.PROMOTION_PROPOSED):
        return "/policies/"
    return "/"


# --- sending ---------------------------------------------------------------------------------------------------------
def deliver(pk: int, *, clock: Clock) -> None:
    """Send what one channel has waiting, the oldest first; the first that does not arrive ends the look."""
    within = timedelta(seconds=settings.LEASE_S / 4)  # the last of them has its time-out beyond

    def look(channel: Channel) -> datetime | None:
        began = clock()
        if not channel.enabled:
            return None
        for delivery in channel.deliveries.filter(try_at__lte=began).order_by("try_at", "pk")[:MOST_SENT]:
            if clock() - began > within:
                return None
            if not _send(channel, delivery, now=clock()):
                return _after_pause(channel, now=clock())
        return None

    with_lease(Channel, pk, look, clock=clock)


def _after_pause(channel: Channel, *, now: datetime) -> datetime:
    """When a channel that just failed is tried again, however much it has waiting: later, the longer it has failed."""
    failing = now - channel.failing_since if channel.failing_since else PAUSE
    return now + min(max(failing / 4, PAUSE), LONGEST_PAUSE)


def _send(channel: Channel, delivery: Delivery, *, now: datetime) -> bool:
    """False where it did not arrive."""
    message = Message.of(delivery.message)
    this = Delivery.objects.filter(pk=delivery.pk)
    if _settled(message):
        this.update(try_at=None, trouble=SETTLED)
        return True
    try:
        SENDERS[channel.kind](message, address_of(channel), now=now)
    except NotSent as failure:
        _failed(channel, delivery, failure, now=now)
        return False
    except Exception as error:  # whatever it is, it counts as a try: else it would be tried for ever
        log.exception("Delivery %s to %s failed", delivery.pk, channel)
        _failed(channel, delivery, NotSent(f"It could not be sent ({type(error).__name__})."), now=now)
        return False
    this.update(sent_at=now, try_at=None, trouble="", tries=delivery.tries + 1)
    channel.failing_since = None
    Channel.objects.filter(pk=channel.pk).update(good_at=now, failing_since=None, trouble="")
    return True


def _settled(message: Message) -> bool:
    """Whether nobody has to do any more what it asks for; it may have waited for hours."""
    state = WAITS.get(message.kind)
    if state is None or not message.incidents:
        return False
    return not Incident.objects.filter(pk__in=message.incidents, state=state).exists()


def _failed(channel: Channel, delivery: Delivery, failure: NotSent, *, now: datetime) -> None:
    tries, why = delivery.tries + 1, str(failure)[:300]
    wait = None if failure.for_good else retry_after(tries)
    Delivery.objects.filter(pk=delivery.pk).update(tries=tries, trouble=why, try_at=now + wait if wait else None)
    channel.failing_since, channel.trouble = channel.failing_since or now, why
    Channel.objects.filter(pk=channel.pk).update(failing_since=channel.failing_since, trouble=why)
    if channel.failing_since <= now - DEAD or failure.for_good:
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


def forget(*, now: datetime) -> int:
    """Remove what was told or given up long ago; how many rows."""
    before = now - KEPT
    notices = Notice.objects.filter(at__lt=before).order_by().values("pk")[:FORGOTTEN]
    deliveries = Delivery.objects.filter(made_at__lt=before, try_at=None).order_by().values("pk")[:FORGOTTEN]
    removed, _ = Notice.objects.filter(pk__in=notices).delete()
    return removed + Delivery.objects.filter(pk__in=deliveries).delete()[0]


def address_of(channel: Channel) -> Address:
    return Address(
        target=channel.target, secret=channel.secret, allow_private=channel.allow_private, desk=settings.ADDRESS,
        ca_file=settings.WEBHOOK_CA_FILE,
    )  # fmt: skip
