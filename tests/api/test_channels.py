"""Channels over the API: made, changed, tried out, removed; no secret in any answer but the first."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from recovery.access import Permission
from recovery.models import Channel, Delivery, Event
from recovery.models.access import Role, Scope
from tests.access.people import make_person
from tests.api.conftest import Api, with_token
from tests.factories import make_cluster, make_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unknown_names")]
HOOK = {"name": "pager", "kind": "webhook", "target": "https://pager.example.org/h/VERYSECRET"}


def test_a_channel_from_its_making_to_its_end(api: Callable[[str], Api]) -> None:
    admin = api("admin")
    made = admin.post("channels", HOOK)
    assert made.status == 201
    secret, pk = made.body.pop("secret"), made.body["id"]
    assert secret.startswith("whsec_")
    (row,) = admin.get("channels").rows
    assert row == made.body
    assert (row["target"], row["state"], row["enabled"]) == ("https://pager.example.org/…", "untried", True)
    changed = admin.ask("patch", f"channels/{pk}", {"allow_private": True})
    assert (changed.status, changed.body["allow_private"], changed.body["name"]) == (200, True, "pager")
    tried = admin.post(f"channels/{pk}/test", {})
    assert (tried.status, tried.body["state"], tried.body["kind"]) == (202, "waiting", "test")
    Delivery.objects.update(try_at=None, tries=10, trouble="no answer")
    (sent,) = admin.get("deliveries?channel=pager").rows
    assert (sent["state"], sent["trouble"], sent["tries"]) == ("given_up", "no answer", 10)
    assert admin.get("deliveries?channel=other").rows == []
    again = admin.post(f"deliveries/{sent['id']}/again", {})
    assert (again.status, again.body["state"]) == (202, "retrying")
    renewed = admin.post(f"channels/{pk}/secret", {})
    assert renewed.body["secret"] not in ("", secret)
    off = admin.ask("patch", f"channels/{pk}", {"enabled": False})
    assert off.body["state"] == "off"
    gone = admin.ask("delete", f"channels/{pk}")
    assert gone.status == 200
    assert not Channel.objects.exists()
    everything = str([row, changed.body, tried.body, sent, off.body, gone.body, *Event.objects.values_list("data")])
    assert "VERYSECRET" not in everything
    assert "whsec_" not in everything


@pytest.mark.parametrize(
    ("given", "field"),
    [({"name": "x\ny"}, "name"), ({"kind": "fax"}, "kind"), ({"target": "http://a@b/"}, "target"),
     ({"target": ""}, "target"), ({"target": "http://10.1.2.3/x"}, "target")],
)  # fmt: skip
def test_what_is_wrong_is_told_by_field(given: dict[str, str], field: str, api: Callable[[str], Api]) -> None:
    answer = api("admin").post("channels", {**HOOK, **given})
    assert answer.status == 400
    assert list(answer.error["fields"]) == [field]
    assert not Channel.objects.exists()


def test_an_address_within_the_site_is_kept_while_it_is_allowed(api: Callable[[str], Api]) -> None:
    admin = api("admin")
    made = admin.post("channels", {**HOOK, "target": "http://127.0.0.1:9/x", "allow_private": True})
    assert made.status == 201
    one = f"channels/{made.body['id']}"
    assert admin.ask("patch", one, {"name": "night", "enabled": False}).status == 200
    refused = admin.ask("patch", one, {"allow_private": False})
    assert list(refused.error["fields"]) == ["target"]
    assert Channel.objects.get().allow_private
    moved = admin.ask("patch", one, {"allow_private": False, "target": HOOK["target"]})
    assert (moved.status, moved.body["allow_private"]) == (200, False)


def test_a_name_that_leads_inside_is_refused_and_one_that_nobody_knows_yet_is_not(
    api: Callable[[str], Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api("admin").post("channels", HOOK).status == 201
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("10.1.2.3", 443))])
    refused = api("admin").post("channels", {**HOOK, "name": "other"})
    assert "pager.example.org is at 10.1.2.3, an address within the site" in str(refused.error["fields"]["target"])
    assert Channel.objects.count() == 1


def test_only_a_webhook_has_a_secret_to_renew(api: Callable[[str], Api]) -> None:
    channel = Channel.objects.create(name="m", kind="email", target="a@example.org", created_at=timezone.now())
    assert list(api("admin").post(f"channels/{channel.pk}/secret", {}).error["fields"]) == ["kind"]


def test_a_token_with_that_scope_alone_sees_them_and_one_of_another_cluster_does_not(admin: User) -> None:
    Channel.objects.create(name="m", kind="email", target="a@example.org", created_at=timezone.now())
    assert len(with_token(make_token(user=admin, scopes=[Permission.CHANNEL_MANAGE])).get("channels").rows) == 1
    elsewhere = make_person(Role.ADMIN, Scope.CLUSTER, cluster=make_cluster())
    assert with_token(make_token(user=elsewhere)).get("channels").rows == []
    assert with_token(make_token(user=elsewhere)).get("deliveries").rows == []
    assert with_token(make_token(user=elsewhere)).post("channels", HOOK).status == 403


def test_who_may_not_see_channels_does_not_read_of_them_in_the_trail(api: Callable[[str], Api]) -> None:
    api("admin").post("channels", {"name": "team", "kind": "email", "target": "mira@example.org"})
    assert [row["verb"] for row in api("admin").get("events").rows] == ["channel.added"]
    assert api("viewer").get("events").rows == []
