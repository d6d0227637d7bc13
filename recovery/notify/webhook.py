"""A webhook, signed as the Standard Webhooks specification 1.0 says: id, time and body, HMAC-SHA256 of all three."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from datetime import datetime

from recovery.core.notices import Message
from recovery.notify.base import Address, NotSent, link
from recovery.notify.post import post

PREFIX = "whsec_"  # of the secret, as the specification writes it
SECRET_BYTES = 24  # it asks for 24 to 64


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def send(message: Message, address: Address, *, now: datetime) -> None:
    """Raises NotSent."""
    body = body_of(message, address)
    at = str(int(now.timestamp()))
    headers = {
        "webhook-id": message.key,
        "webhook-timestamp": at,
        "webhook-signature": signature(address.secret, key=message.key, at=at, body=body),
    }
    post(address, body, headers=headers)


def body_of(message: Message, address: Address) -> bytes:
    """As the specification proposes: a type, a time, and the data."""
    return json.dumps(
        {
            "type": message.kind,
            "timestamp": message.at,
            "data": {
                "severity": message.severity,
                "title": message.title,
                "lines": list(message.lines),
                "cluster": message.cluster,
                "incidents": list(message.incidents),
                "url": link(message, address),
            },
        },
        ensure_ascii=False,
    ).encode()


def signature(secret: str, *, key: str, at: str, body: bytes) -> str:
    """Raises NotSent for a secret that is none."""
    try:
        raw = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise NotSent("The secret of this channel is no base64; make a new one.", for_good=True) from error
    digest = hmac.new(raw, f"{key}.{at}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()
