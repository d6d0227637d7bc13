"""The whole way: a real worker and a real Redis deliver a signed webhook; a mail server on loopback takes a mail."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.mail.backends.smtp import EmailBackend
from django.db import transaction
from django.utils import timezone

from recovery import audit
from recovery.access import SYSTEM
from recovery.celery import app
from recovery.core.notices import GATHER
from recovery.demo.processes import wait_until
from recovery.models import Channel, Delivery
from recovery.notify import email, webhook
from recovery.notify.base import Address, NotSent
from tests.notify.test_sending import MESSAGE, NOW, Receiver
from tests.services import StartWorker


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.mark.redis
def test_a_worker_delivers_a_signed_webhook(start_worker: StartWorker, redis_server: str, receiver: Receiver) -> None:
    secret = webhook.new_secret()
    Channel.objects.create(
        name="pager", kind="webhook", target=receiver.url, secret=secret, allow_private=True, created_at=timezone.now()
    )
    with transaction.atomic():
        at = timezone.now() - GATHER - timedelta(seconds=1)
        audit.record(
            "automation.stopped", actor=SYSTEM, at=at, subject_kind="site", subject_id=1, reason="The fabric is down."
        )
    start_worker(concurrency=1, RECOVERY_ADDRESS="https://desk.example.org")
    with app.connection_for_write(redis_server) as broker:
        app.send_task("recovery.tick", connection=broker)
    assert wait_until(lambda: Delivery.objects.exclude(sent_at=None).exists(), timeout_s=20)
    ((_, headers, body),) = receiver.got
    key, stamp = headers["webhook-id"], headers["webhook-timestamp"]
    assert headers["webhook-signature"] == webhook.signature(secret, key=key, at=stamp, body=body)
    assert b"The fabric is down." in body
    assert b'"url": "https://desk.example.org/"' in body
    assert Channel.objects.get().good_at is not None


class MailServer:
    """Says what SMTP wants to hear, and keeps what it was sent; `refuses`: its answer to each recipient."""

    def __init__(self, *, refuses: bytes = b"") -> None:
        self.said: list[bytes] = []
        self.refuses = refuses
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        connection, _ = self.socket.accept()
        with connection, connection.makefile("rwb") as stream:
            data = False

            def tell(line: bytes) -> None:
                stream.write(line + b"\r\n")
                stream.flush()

            tell(b"220 loopback")
            for line in stream:
                self.said.append(line.rstrip(b"\r\n"))
                if data:
                    data = line != b".\r\n"
                    if not data:
                        tell(b"250 taken")
                    continue
                word = line[:4].upper()
                data = word == b"DATA"
                tell(
                    {b"DATA": b"354 go on", b"QUIT": b"221 bye", b"RCPT": self.refuses or b"250 ok"}.get(
                        word, b"250 ok"
                    )
                )
                if word == b"QUIT":
                    return


def by(server: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = EmailBackend(host="127.0.0.1", port=server.port, username="", password="", use_tls=False, timeout=5)
    monkeypatch.setattr(email, "get_connection", lambda **_: backend)


def test_a_mail_arrives_at_a_server_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    server = MailServer()
    by(server, monkeypatch)
    email.send(MESSAGE, Address(target="a@example.org, b@example.org", desk="https://desk.example.org"), now=NOW)
    server.thread.join(5)
    assert sum(line.upper().startswith(b"RCPT TO:") for line in server.said) == 2
    assert b"Auto-Submitted: auto-generated" in server.said
    assert b"https://desk.example.org/incidents/3/" in server.said
    server.socket.close()


@pytest.mark.parametrize(("answer", "for_good"), [(b"550 no such user", True), (b"450 come back later", False)])
def test_a_refusal_for_now_is_not_one_for_good(answer: bytes, for_good: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    server = MailServer(refuses=answer)
    by(server, monkeypatch)
    with pytest.raises(NotSent, match="takes none of") as caught:
        email.send(MESSAGE, Address(target="a@example.org"), now=NOW)
    assert caught.value.for_good is for_good
    server.thread.join(5)
    server.socket.close()
