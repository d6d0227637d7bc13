"""Notices: written with the change, told once, grouped, tried again, and a dead channel is an alarm."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from recovery import audit
from recovery.access import SYSTEM, Actor, Permission
from recovery.core.lifecycle import IncidentState
from recovery.core.notices import GATHER
from recovery.core.policy import DEFAULT_RULES
from recovery.models import Channel, Delivery, Event, Incident, Notice
from recovery.notify.base import NotSent
from recovery.pipeline import channels, notices
from recovery.pipeline.transition import advance
from tests.factories import make_incident, make_outbreak, make_policy
from tests.pipeline.noticing import Post, ask, make_channel, run

ADMIN = Actor(kind="system", name="me", user_id=None, permissions=frozenset(Permission))
pytestmark = pytest.mark.django_db


def test_a_question_is_told_once_with_its_page(post: Post) -> None:
    make_channel()
    incident = ask()
    notices.route(now=timezone.now())
    assert not Delivery.objects.exists()  # it waits for others of the same outbreak
    run()
    run()
    (message,) = post.sent
    assert (message.kind, message.path, message.incidents) == (
        "decision_needed",
        f"/incidents/{incident.pk}/",
        (incident.pk,),
    )
    assert message.lines[0].endswith("Requeue without gpu-02, restoring step 840 (12 steps lost). 64 GPUs wait.")
    assert Channel.objects.get().good_at is not None


def test_what_was_rolled_back_is_not_told() -> None:
    with transaction.atomic():
        audit.record("automation.stopped", actor=SYSTEM, at=timezone.now(), subject_kind="desk", subject_id="all")
        transaction.set_rollback(True)
    assert not Notice.objects.exists()


def test_it_is_quiet_when_nothing_needs_a_person(post: Post) -> None:
    make_channel()
    incident = make_incident(state=IncidentState.AWAITING_CHECKPOINT)
    advance(incident, IncidentState.CLOSED, now=timezone.now(), why="The next checkpoint is complete.")
    run()
    assert post.sent == []
    assert Notice.objects.get().routed_at is not None


def test_cases_of_one_outbreak_become_one_message(post: Post) -> None:
    make_channel()
    outbreak = make_outbreak()
    for _ in range(7):
        ask(outbreak=outbreak)
    other = ask()
    run()
    together, alone = sorted(post.sent, key=lambda message: -len(message.incidents))
    assert len(together.incidents) == 7
    assert together.lines[-1] == "and 2 more"
    assert together.path == f"/outbreaks/{outbreak.pk}/"
    assert alone.incidents == (other.pk,)


def test_a_question_that_is_asked_anew_is_not_told_anew_but_an_escalation_is(post: Post) -> None:
    make_channel()
    incident = ask()
    run()
    advance(incident, IncidentState.DETECTED, now=timezone.now(), why="Another policy.")
    Incident.objects.filter(pk=incident.pk).update(state=IncidentState.RECOMMENDED)
    incident.refresh_from_db()
    advance(incident, IncidentState.AWAITING_DECISION, now=timezone.now(), why="The policy asks.")
    run()
    assert len(post.sent) == 1
    with transaction.atomic():
        audit.record_incident(
            incident, "recommendation.escalated", actor=SYSTEM, at=timezone.now(), reason="Nobody decided.", to=["chat"]
        )
    run()
    assert [message.kind for message in post.sent] == ["decision_needed", "escalated"]


def test_the_policy_routes_and_an_escalation_goes_where_it_says(post: Post) -> None:
    make_channel("night")
    make_channel("day")
    make_policy(rules={**DEFAULT_RULES, "notify": [{"to": ["day"], "classes": ["gpu_hardware"]}]})
    incident = ask()
    with transaction.atomic():
        audit.record_incident(incident, "recommendation.escalated", actor=SYSTEM, at=timezone.now(), to=["night"])
    run()
    told = {(row.channel.name, row.message["kind"]) for row in Delivery.objects.select_related("channel")}
    assert told == {("day", "decision_needed"), ("night", "escalated")}


def test_a_channel_that_is_off_is_told_nothing(post: Post) -> None:
    make_channel(enabled=False)
    ask()
    run()
    assert not Delivery.objects.exists()


def test_what_did_not_arrive_is_tried_again_and_seen(post: Post) -> None:
    channel = make_channel()
    ask()
    post.refuses = NotSent("chat.example.org answers 500.")
    first = timezone.now() + GATHER
    run(at=first)
    delivery = Delivery.objects.get()
    assert (delivery.tries, delivery.trouble, delivery.try_at) == (
        1, "chat.example.org answers 500.", first + timedelta(seconds=10),
    )  # fmt: skip
    channel.refresh_from_db()
    assert (channel.failing_since, channel.next_look_at) == (first, first + timedelta(seconds=10))
    run(at=first + timedelta(seconds=5))
    assert Delivery.objects.get().tries == 1
    post.refuses = None
    run(at=first + timedelta(seconds=11))
    delivery.refresh_from_db()
    channel.refresh_from_db()
    assert (delivery.tries, delivery.try_at, channel.failing_since, channel.trouble) == (2, None, None, "")
    assert [message.key for message in post.sent] == [delivery.key]


def test_a_channel_that_stays_dead_is_an_alarm_of_its_own_once_a_day(post: Post) -> None:
    make_channel()
    ask()
    post.refuses = NotSent("no answer")
    now = timezone.now() + GATHER
    for minute in range(30):
        run(at=now + timedelta(minutes=minute))
    told = Event.objects.get(verb="channel.failing")
    assert told.reason == "chat: no answer"
    assert Notice.objects.filter(kind="channel_failing").count() == 1


def test_what_can_never_arrive_is_given_up_at_once(post: Post) -> None:
    make_channel()
    ask()
    post.refuses = NotSent("410 gone", for_good=True)
    run()
    delivery = Delivery.objects.exclude(key__startswith="x").order_by("pk").first()
    assert delivery is not None
    assert (delivery.try_at, delivery.sent_at, delivery.tries) == (None, None, 1)
    assert Event.objects.filter(verb="channel.failing").count() == 1


def test_a_dead_channel_holds_no_other_up(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    make_channel("dead")
    alive = Post()
    monkeypatch.setitem(notices.SENDERS, "email", alive)
    Channel.objects.create(name="mail", kind="email", target="a@example.org", created_at=timezone.now())
    ask()
    post.refuses = NotSent("no answer")
    run()
    assert len(alive.sent) == 1


def test_a_checkpoint_in_danger_is_urgent_and_told_once_an_hour(post: Post) -> None:
    make_channel()
    incident = make_incident(danger_at=timezone.now(), danger="Checkpoint 800 is about to be rotated away.")
    run()
    run(at=timezone.now() + timedelta(minutes=30))
    assert [message.kind for message in post.sent] == ["checkpoint_in_danger"]
    assert post.sent[0].severity == "urgent"
    assert "Checkpoint 800 is about to be rotated away." in post.sent[0].lines
    run(at=timezone.now() + timedelta(hours=2))
    assert len(post.sent) == 2
    assert incident.pk


def test_two_routers_make_one_message(post: Post) -> None:
    make_channel()
    ask()
    waiting = list(Notice.objects.filter(routed_at=None))
    now = timezone.now() + GATHER
    run()
    routes = notices.Routes.now()
    notices._route_group(
        waiting, {row.pk: row for row in Incident.objects.all()}, routes, now=now
    )  # the other had read them before
    assert Delivery.objects.count() == 1


def test_where_nothing_waits_a_look_costs_two_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(2):
        notices.route(now=timezone.now())


def test_a_test_message_goes_to_its_channel(post: Post) -> None:
    channel = make_channel()
    channels.try_out(channel.pk, actor=ADMIN, now=timezone.now())
    run()
    assert post.sent[0].lines == ("me tries out the channel chat.",)
