"""The page of channels: what is set up there, what it shows, and what it never shows."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from recovery.core.policy import DEFAULT_RULES
from recovery.models import Channel, Delivery, Event
from recovery.models.access import Role, Scope
from tests.access.people import make_person
from tests.dashboard.conftest import text_of
from tests.factories import ago, make_cluster, make_policy

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unknown_names")]
PAGE = "/notifications/"
SECRET_URL = "https://hooks.example.org/services/T0/VERYSECRET"


def make_channel(name: str = "chat", **fields: object) -> Channel:
    given = {"kind": "slack", "target": SECRET_URL, "created_at": timezone.now(), **fields}
    return Channel.objects.create(name=name, **given)


def trail() -> str:
    return json.dumps(list(Event.objects.values_list("reason", "data")))


def test_a_webhook_is_made_with_a_secret_that_is_shown_once(as_admin: Client) -> None:
    assert "Nobody is told of anything yet." in text_of(as_admin.get(PAGE))
    made = text_of(
        as_admin.post(
            "/channels/make/", {"name": "pager", "kind": "webhook", "target": "https://p.example/h/SECRETPATH"}
        )
    )
    secret = re.search(r"whsec_[\w+/=]{20,}", made)
    assert secret is not None
    assert secret[0] == Channel.objects.get().secret
    later = text_of(as_admin.get(PAGE))
    assert secret[0] not in later
    assert "https://p.example/…" in later
    assert "SECRETPATH" not in made + later + trail()
    assert secret[0] not in trail()
    assert Event.objects.get(subject_kind="channel").verb == "channel.added"


def test_a_secret_is_renewed_and_the_old_one_is_gone(as_admin: Client) -> None:
    channel = make_channel(kind="webhook", secret="whsec_b2xk")
    page = text_of(as_admin.post(f"/channels/{channel.pk}/renew/"))
    channel.refresh_from_db()
    assert channel.secret != "whsec_b2xk"
    assert channel.secret in page
    assert channel.secret not in trail()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": "a: b"}, "name: give 1 to 100"),
        ({"name": "taken"}, "name: there is a channel taken already"),
        ({"kind": "pigeon"}, "kind: choose one of"),
        ({"target": "ftp://x"}, "target: The address must begin with https://"),
        ({"target": "https://u:p@hooks.example.org/"}, "user and a password"),
        ({"kind": "email", "target": "nobody"}, "is no mail address; give NAME@HOST"),
        ({"kind": "email", "target": "a@example.org\nBcc: b@example.org"}, "is no mail address"),
        ({"kind": "email", "target": ","}, "target: give 1 to 20 mail addresses"),
    ],
)
def test_what_can_not_be_is_refused_by_field_and_stays_as_typed(
    given: dict[str, str], why: str, as_admin: Client
) -> None:
    make_channel("taken")
    typed = {"name": "new", "kind": "slack", "target": "https://hooks.example.org/x", **given}
    answer = as_admin.post("/channels/make/", typed)
    assert answer.status_code == 422
    assert why in text_of(answer).replace("&#x27;", "'")
    assert Channel.objects.count() == 1


def test_a_change_without_a_target_keeps_it_and_forgets_what_was_observed_before(as_admin: Client) -> None:
    channel = make_channel(failing_since=ago(3600), trouble="no answer", next_look_at=timezone.now())
    as_admin.post(f"/channels/{channel.pk}/change/", {"name": "night", "target": "", "enabled": "on"})
    channel.refresh_from_db()
    assert (channel.name, channel.target, channel.enabled) == ("night", SECRET_URL, True)
    assert (channel.failing_since, channel.trouble, channel.next_look_at) == (None, "", None)
    event = Event.objects.get(verb="channel.changed")
    assert event.data["before"]["name"] == "chat"
    assert "VERYSECRET" not in trail()


def test_what_waited_when_it_was_switched_off_is_old_news_when_it_is_on_again(as_admin: Client) -> None:
    channel = make_channel()
    as_admin.post(f"/channels/{channel.pk}/test/")
    as_admin.post(f"/channels/{channel.pk}/change/", {"name": "chat"})
    assert Delivery.objects.get().try_at is None
    page = text_of(as_admin.get(PAGE))
    assert "Not sent: the channel was switched off." in page
    assert as_admin.post(f"/channels/{channel.pk}/test/").status_code == 422  # off
    assert as_admin.post(f"/deliveries/{Delivery.objects.get().pk}/again/").status_code == 422


def test_a_test_is_queued_and_what_did_not_arrive_is_tried_again_by_hand(as_admin: Client) -> None:
    channel = make_channel(next_look_at=timezone.now() + timedelta(hours=1))
    as_admin.post(f"/channels/{channel.pk}/test/")
    delivery = Delivery.objects.get()
    Delivery.objects.update(try_at=None, tries=9, trouble="hooks.example.org answers 500.")
    page = text_of(as_admin.get(PAGE))
    assert "Given up" in page
    assert "hooks.example.org answers 500." in page
    as_admin.post(f"/deliveries/{delivery.pk}/again/")
    delivery.refresh_from_db()
    channel.refresh_from_db()
    assert delivery.try_at is not None
    assert channel.next_look_at is None  # its pause is over
    Delivery.objects.update(sent_at=timezone.now())
    assert "it has arrived" in text_of(as_admin.post(f"/deliveries/{delivery.pk}/again/"))


def test_a_channel_is_removed_with_what_it_had_waiting(as_admin: Client) -> None:
    channel = make_channel()
    as_admin.post(f"/channels/{channel.pk}/test/")
    as_admin.post(f"/channels/{channel.pk}/remove/")
    assert not Channel.objects.exists()
    assert not Delivery.objects.exists()
    assert Event.objects.filter(verb="channel.removed").count() == 1
    assert as_admin.post(f"/channels/{channel.pk}/remove/").status_code == 404


def test_a_dead_channel_is_on_every_page_of_those_who_can_do_something_about_it(clients: dict[str, Client]) -> None:
    make_channel("fresh", failing_since=ago(300), trouble="no answer")
    make_channel("off", failing_since=ago(3600), enabled=False)
    assert "has delivered nothing" not in text_of(clients["admin"].get("/"))
    make_channel("pager", failing_since=ago(3600), trouble="pager did not answer within 10 s.")
    for path in ("/", "/runs/", PAGE):
        page = text_of(clients["admin"].get(path))
        assert page.count("has delivered nothing") == 1
        assert "The channel pager has delivered nothing" in page
    assert "has delivered nothing" not in text_of(clients["operator"].get("/"))


def test_the_policy_page_says_who_is_told_and_which_names_lead_nowhere(as_viewer: Client) -> None:
    assert "Nobody is told of anything." in text_of(as_viewer.get("/policies/"))
    make_channel("chat")
    make_channel("night", enabled=False)
    make_policy(
        rules={
            **DEFAULT_RULES,
            "notify": [
                {"to": ["chat", "gone"], "severity": "warning"},
                {"to": ["night"], "classes": ["gpu_hardware"], "match": {"clusters": ["alpha"]}},
            ],
        }
    )
    page = text_of(as_viewer.get("/policies/"))
    assert "<strong>gone</strong>, but there is no such channel" in page
    assert "<strong>night</strong>, which is switched off" in page
    assert "VERYSECRET" not in page


@pytest.mark.parametrize(
    ("who", "status"), [("viewer", 403), ("outsider", 403), ("operator", 403), ("approver", 403), ("admin", 200)]
)
def test_the_page_is_for_those_who_may_set_channels_up(who: str, status: int, clients: dict[str, Client]) -> None:
    make_channel()
    answer = clients[who].get(PAGE)
    assert answer.status_code == status
    assert ("hooks.example.org" in text_of(answer)) == (status == 200)


def test_an_administrator_of_one_cluster_sets_up_none(client: Client) -> None:
    channel = make_channel()
    client.force_login(make_person(Role.ADMIN, Scope.CLUSTER, cluster=make_cluster()))
    assert client.get(PAGE).status_code == 403
    assert client.post("/channels/make/", {"name": "x", "kind": "slack", "target": SECRET_URL}).status_code == 403
    assert client.post(f"/channels/{channel.pk}/remove/").status_code == 404
    assert Channel.objects.count() == 1
