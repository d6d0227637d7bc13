"""Notices when the world is against them: decided meanwhile, hostile, many, raced for, sent by workers that die."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Barrier, Thread

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from recovery import audit
from recovery.access import SYSTEM, Actor, Permission
from recovery.core.lifecycle import IncidentState
from recovery.core.notices import GATHER, Message, one_line
from recovery.core.policy import DEFAULT_RULES
from recovery.models import Channel, Cluster, Delivery, Incident, Notice
from recovery.notify.base import Address, NotSent
from recovery.pipeline import channels, notices
from recovery.pipeline.transition import advance
from tests.factories import make_cluster, make_incident, make_outbreak, make_policy
from tests.pipeline.noticing import Post, ask, make_channel, run

ADMIN = Actor(kind="system", name="me", user_id=None, permissions=frozenset(Permission))
pytestmark = pytest.mark.django_db


def test_what_was_decided_meanwhile_is_told_to_nobody(post: Post) -> None:
    make_channel()
    incident = ask()
    advance(incident, IncidentState.DETECTED, now=timezone.now(), why="The facts changed.")
    run()
    assert not Delivery.objects.exists()


def test_what_was_decided_while_it_could_not_be_sent_is_not_sent_any_more(post: Post) -> None:
    make_channel()
    incident = ask()
    post.refuses = NotSent("no answer")
    run()
    advance(incident, IncidentState.DETECTED, now=timezone.now(), why="The facts changed.")
    post.refuses = None
    run(at=timezone.now() + timedelta(hours=1))
    delivery = Delivery.objects.get()
    assert (delivery.sent_at, delivery.try_at, delivery.trouble) == (None, None, notices.SETTLED)
    assert not post.sent


def test_one_of_an_outbreak_that_was_told_holds_no_other_of_it_back(post: Post) -> None:
    make_channel()
    told, fresh = make_incident(), make_incident()
    make_outbreak(incidents=[told, fresh])
    for incident in (told, told, fresh):
        with transaction.atomic():
            audit.record_incident(incident, "incident.closed", actor=SYSTEM, at=timezone.now(), reason="Over.")
        if incident is told and Notice.objects.count() == 1:
            Notice.objects.update(routed_at=timezone.now())
    make_policy(rules={**DEFAULT_RULES, "notify": [{"to": ["chat"], "severity": "info"}]})
    run()
    assert [message.incidents for message in post.sent] == [(fresh.pk,)]


def test_hostile_names_stay_one_line_of_bounded_length(post: Post) -> None:
    make_channel()
    incident = ask()
    Incident.objects.filter(pk=incident.pk).update(headline="x\r\nBcc: a\u202egnp.exe " + "y" * 200)
    run()
    (line,) = post.sent[0].lines
    assert line.startswith("x Bcc: a gnp.exe yyy")
    assert len(one_line("z" * 10_000)) == 500


def test_a_notice_that_can_not_be_told_holds_up_no_other_and_no_tick(post: Post) -> None:
    make_channel()
    Notice.objects.create(at=timezone.now(), kind="of_a_later_release", severity="decision", subject="x")
    ask()
    run()
    assert [message.kind for message in post.sent] == ["decision_needed"]


def test_a_fault_of_ours_counts_as_a_try(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise UnicodeError("label too long")

    monkeypatch.setitem(notices.SENDERS, "slack", broken)
    make_channel()
    ask()
    run()
    delivery = Delivery.objects.get()
    assert (delivery.tries, delivery.trouble) == (1, "It could not be sent (UnicodeError).")
    assert delivery.try_at is not None


def test_a_delivery_that_is_made_while_the_channel_is_looked_at_is_not_forgotten(post: Post) -> None:
    """Its wake-up is the delivery itself: the end of that look can't overwrite it."""
    channel = make_channel()
    Channel.objects.update(next_look_at=None)
    channels.try_out(channel.pk, actor=ADMIN, now=timezone.now())
    Channel.objects.update(next_look_at=None)
    assert notices.due(timezone.now()) == [channel.pk]


def test_a_dead_channel_with_many_waiting_is_tried_once_at_a_time(post: Post) -> None:
    channel = make_channel()
    now = timezone.now()
    for second in range(20):
        channels.try_out(channel.pk, actor=ADMIN, now=now + timedelta(microseconds=second))
    post.refuses = NotSent("no answer")
    for second in range(0, 3600, 30):
        run(at=now + timedelta(seconds=second))
    assert sum(Delivery.objects.values_list("tries", flat=True)) < 30  # of 120 looks
    channel.refresh_from_db()
    assert channel.next_look_at is not None
    assert channel.next_look_at <= now + timedelta(seconds=3600) + notices.LONGEST_PAUSE


def test_however_many_wait_they_are_sent_in_bounded_looks(post: Post) -> None:
    channel, now = make_channel(), timezone.now()
    message = {"kind": "test", "severity": "info", "at": now.isoformat(), "title": "x", "lines": [], "path": "/"}
    Delivery.objects.bulk_create(
        Delivery(
            channel=channel, key=str(n), message={**message, "key": str(n), "cluster": "", "incidents": []},
            made_at=now, try_at=now,
        )
        for n in range(2000)
    )  # fmt: skip
    run(at=now)
    assert len(post.sent) == notices.MOST_SENT
    assert notices.due(now) == [channel.pk]


def test_however_many_notices_are_routed_in_bounded_looks(
    post: Post, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    now = timezone.now()
    Notice.objects.bulk_create(Notice(at=now, kind="alarm", severity="warning", subject=str(n)) for n in range(2000))
    with django_assert_max_num_queries(6 + 3 * notices.MOST):
        notices.route(now=now + GATHER)
    assert Notice.objects.filter(routed_at=None).count() == 2000 - notices.MOST


def test_a_worker_that_dies_after_sending_sends_the_same_once_more(post: Post) -> None:
    """At least once: the receiver knows it by its key."""
    channel = make_channel()
    channels.try_out(channel.pk, actor=ADMIN, now=timezone.now())
    now = timezone.now()

    class Killed(BaseException):
        pass

    def send(message: Message, address: Address, *, now: datetime) -> None:
        post(message, address, now=now)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(notices.SENDERS, "slack", send)
        with pytest.raises(Killed):
            notices.deliver(channel.pk, clock=lambda: now)
    assert notices.due(now) == []  # its lease has to run out
    run(at=now + timedelta(minutes=5))
    run(at=now + timedelta(minutes=10))
    assert len(post.sent) == 2
    assert len({message.key for message in post.sent}) == 1


def test_a_clock_that_goes_back_delays_and_loses_nothing(post: Post) -> None:
    channel = make_channel()
    now = timezone.now()
    post.refuses = NotSent("no answer")
    channels.try_out(channel.pk, actor=ADMIN, now=now)
    run(at=now + timedelta(hours=1))  # ahead
    post.refuses = None
    run(at=now)
    assert not post.sent
    run(at=now + timedelta(hours=1, minutes=1))
    assert len(post.sent) == 1


def test_an_alarm_of_a_dead_channel_goes_to_the_others_and_to_the_page_of_channels(post: Post) -> None:
    make_channel("dead")
    other = Post()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(notices.SENDERS, "email", other)
        Channel.objects.create(name="mail", kind="email", target="a@example.org", created_at=timezone.now())
        post.refuses = NotSent("410 gone", for_good=True)
        ask()
        run()
        run(at=timezone.now() + timedelta(minutes=1))
    assert [(each.kind, each.path) for each in other.sent][1:] == [("channel_failing", "/notifications/")]
    assert not Delivery.objects.filter(channel__name="dead", message__kind="channel_failing").exists()


def test_an_outbreak_is_told_with_its_page_and_its_cluster(post: Post) -> None:
    make_channel()
    outbreak = make_outbreak(incidents=[make_incident()])
    with transaction.atomic():
        audit.record(
            "outbreak.opened", actor=SYSTEM, at=outbreak.opened_at, subject_kind="outbreak", subject_id=outbreak.pk,
            reason=outbreak.headline,
        )  # fmt: skip
    run()
    (message,) = post.sent
    assert (message.path, message.cluster) == (f"/outbreaks/{outbreak.pk}/", outbreak.cluster.name)


def trip(cluster: Cluster, *, why: str = "6 actions in the last hour, 6 are allowed.", at: datetime) -> None:
    with transaction.atomic():
        audit.record(
            "automation.tripped", actor=SYSTEM, at=at, subject_kind="cluster", subject_id=cluster.pk, reason=why
        )


def test_a_breaker_that_trips_is_told_with_what_tripped_it_where_and_where_it_is_asked(post: Post) -> None:
    make_channel()
    cluster = make_cluster(name="beta")
    trip(cluster, at=timezone.now())
    run()
    (message,) = post.sent
    assert (message.kind, message.severity, message.cluster) == ("breaker_tripped", "urgent", "beta")
    assert (message.lines, message.path) == (("6 actions in the last hour, 6 are allowed.",), "/approvals/")


def test_a_breaker_is_routed_as_its_cluster_and_severity_say(post: Post) -> None:
    make_channel("chat")
    make_channel("pager")
    routes = [
        {"to": ["pager"], "severity": "urgent", "match": {"clusters": ["beta"]}},
        {"to": ["chat"], "severity": "urgent", "match": {"clusters": ["alpha"]}},
    ]
    make_policy(rules={**DEFAULT_RULES, "notify": routes})
    trip(make_cluster(name="beta"), at=timezone.now())
    notices.route(now=timezone.now() + GATHER)
    assert [delivery.channel.name for delivery in Delivery.objects.all()] == ["pager"]


def test_a_breaker_that_flaps_is_told_once_an_hour_for_each_cluster(post: Post) -> None:
    make_channel()
    alpha, beta, began = make_cluster(name="alpha"), make_cluster(name="beta"), timezone.now()
    for _ in range(2):  # two workers at once
        trip(alpha, at=began)
    trip(beta, at=began)
    run(at=began + GATHER)
    trip(alpha, at=began + timedelta(minutes=30))  # it let one through meanwhile
    run(at=began + timedelta(minutes=31))
    assert sorted(message.cluster for message in post.sent) == ["alpha", "beta"]
    trip(alpha, at=began + timedelta(minutes=70))
    run(at=began + timedelta(minutes=71))
    assert [message.cluster for message in post.sent[2:]] == ["alpha"]


def test_a_channel_that_was_removed_or_renamed_in_between_is_no_fault(post: Post) -> None:
    gone, renamed = make_channel("gone"), make_channel("renamed")
    make_policy(rules={**DEFAULT_RULES, "notify": [{"to": ["gone", "renamed"]}]})
    ask()
    channels.remove(gone.pk, actor=ADMIN, now=timezone.now())
    channels.change(renamed.pk, name="night", actor=ADMIN, now=timezone.now())
    run()
    assert not Delivery.objects.exists()  # the policy page says that these names lead nowhere


def at_once(*work: Callable[[], None]) -> None:
    """All of it at the same moment, each with a connection of its own."""
    gate = Barrier(len(work))

    def run(each: Callable[[], None]) -> None:
        try:
            gate.wait(10)
            each()
        finally:
            connection.close()

    threads = [Thread(target=run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


@pytest.mark.django_db(transaction=True)
def test_routers_and_deliverers_that_race_send_each_message_once(post: Post) -> None:
    channel = make_channel()
    cases = [ask() for _ in range(5)]
    now = timezone.now() + GATHER
    at_once(*[lambda: notices.route(now=now)] * 3)
    assert Delivery.objects.count() == len(cases)
    at_once(*[lambda: notices.deliver(channel.pk, clock=lambda: now)] * 3)
    assert sorted(message.incidents for message in post.sent) == [(case.pk,) for case in cases]
