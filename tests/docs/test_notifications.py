"""docs/notifications.md: its example verifies what is sent, its table is the code's, its routes are a policy's."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import yaml

from recovery.core.notices import SEVERITY, Message
from recovery.core.policy import DEFAULT_RULES
from recovery.core.policy.check import check_rules
from recovery.management.commands.set_channel import Command
from recovery.models import Channel
from recovery.notify import webhook
from recovery.notify.base import Address
from tests.docs import pages

TEXT = pages.read("docs/notifications.md")
BLOCKS = {block.language: block.text for block in pages.blocks(TEXT)}
SECRET = "whsec_plJ3nmyCDGBKInavdOK15jsl"


def verified() -> Callable[..., bool]:
    names: dict[str, Any] = {}
    exec(compile(BLOCKS["python"], "docs/notifications.md", "exec"), names)  # noqa: S102 - our own page
    found: Callable[..., bool] = names["verified"]
    return found


def signed(body: bytes, *, at: float, secret: str = SECRET) -> dict[str, str]:
    stamp = str(int(at))
    signature = webhook.signature(secret, key="notice-7", at=stamp, body=body)
    return {"webhook-id": "notice-7", "webhook-timestamp": stamp, "webhook-signature": signature}


def test_the_example_takes_what_is_signed_and_nothing_else() -> None:
    takes, now, body = verified(), time.time(), b'{"a": 1}'
    assert takes(SECRET, signed(body, at=now), body)
    assert not takes(SECRET, signed(body, at=now), body + b" ")
    assert not takes(SECRET, signed(body, at=now, secret=webhook.new_secret()), body)
    assert not takes(SECRET, signed(body, at=now - 3600), body)
    assert not takes(SECRET, {**signed(body, at=now), "webhook-id": "notice-8"}, body)


def test_the_body_is_as_shown() -> None:
    shown = json.loads(BLOCKS["json"])
    message = Message(
        key="x", kind="decision_needed", severity="decision", at=datetime.now(UTC).isoformat(), title="t", lines=("l",),
        path="/incidents/17/", cluster="alpha", incidents=(17,),
    )  # fmt: skip
    sent = json.loads(webhook.body_of(message, Address(target="", desk="https://desk.example.org")))
    assert sent.keys() == shown.keys()
    assert sent["data"].keys() == shown["data"].keys()
    assert sent["data"]["url"] == shown["data"]["url"]


def test_every_kind_stands_in_the_table_with_its_severity_and_every_channel_in_its() -> None:
    kinds, told = pages.tables(TEXT)
    assert [row["kind"].strip("`") for row in kinds] == [kind for kind, _ in Channel.KINDS]
    assert {row["type"].strip("`"): row["severity"] for row in told} == {str(k): str(s) for k, s in SEVERITY.items()}


def test_the_routes_are_those_of_a_policy() -> None:
    assert check_rules({**DEFAULT_RULES, **yaml.safe_load(BLOCKS["yaml"])}) == []


def test_the_commands_are_understood() -> None:
    lines = re.findall(r"^python manage\.py set_channel (.*?)(?: +#.*)?$", BLOCKS["sh"], flags=re.MULTILINE)
    assert len(lines) >= 5
    parser = Command().create_parser("manage.py", "set_channel")
    for line in lines:
        parser.parse_args(shlex.split(line))
