"""Messages on their way: signed, to the address that was meant, and nowhere else."""

from __future__ import annotations

import json
import smtplib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core import mail

from recovery.core.notices import Message
from recovery.notify import email, post, slack, webhook
from recovery.notify.base import Address, NotSent

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MESSAGE = Message(
    key="notice-7", kind="decision_needed", severity="decision", at=NOW.isoformat(), title="A decision is needed",
    lines=("llama-70b stopped: <!channel> & more. Requeue without gpu-02.",), path="/incidents/3/", cluster="alpha",
    incidents=(3,),
)  # fmt: skip


class Receiver:
    """A server on loopback that answers as it is told and keeps what it was sent."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = lambda request: reply(request, 204)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((self.path, dict(self.headers), body))
                receiver.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?team=a"


def reply(request: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


def to(receiver: Receiver, **fields: Any) -> Address:
    return Address(target=receiver.url, allow_private=True, desk="https://desk.example.org/", **fields)


# --- webhook ----------------------------------------------------------------------------------------------------------
def test_a_signature_is_that_of_the_specification() -> None:
    # the example of the Standard Webhooks specification 1.0
    body = b'{"event_type":"ping","data":{"success":true}}'
    signed = webhook.signature("whsec_plJ3nmyCDGBKInavdOK15jsl", key="msg_loFOjxBNrRLzqYUf", at="1731705121", body=body)
    assert signed == "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="


def test_a_webhook_arrives_whole_and_signed(receiver: Receiver) -> None:
    secret = webhook.new_secret()
    webhook.send(MESSAGE, to(receiver, secret=secret), now=NOW)
    ((path, headers, body),) = receiver.got
    assert path == "/hook?team=a"
    assert headers["Host"] == receiver.url.split("/")[2]
    assert headers["webhook-id"] == "notice-7"
    assert headers["webhook-signature"] == webhook.signature(
        secret, key="notice-7", at=headers["webhook-timestamp"], body=body
    )
    told = json.loads(body)
    assert told["type"] == "decision_needed"
    assert told["data"]["url"] == "https://desk.example.org/incidents/3/"
    assert told["data"]["incidents"] == [3]


def test_a_secret_that_is_none_is_named_and_nothing_is_sent(receiver: Receiver) -> None:
    with pytest.raises(NotSent, match="no base64"):
        webhook.send(MESSAGE, to(receiver, secret="whsec_???"), now=NOW)
    assert not receiver.got


# --- where it goes ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.1.2.3", "0.0.0.0", "[::ffff:127.0.0.1]",  # noqa: S104
     "[::ffff:10.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fc00::1]", "224.0.0.1", "100.64.0.1",
     "[::7f00:1]", "[fec0::1]", "[64:ff9b:1::7f00:1]", "[::ffff:0:7f00:1]"],
)  # fmt: skip
def test_addresses_within_the_site_are_refused_unless_allowed(host: str) -> None:
    with pytest.raises(NotSent, match="within the site") as caught:
        post.post(Address(target=f"http://{host}:9/x"), b"{}", headers={})
    assert caught.value.for_good


def test_a_name_with_one_address_inside_is_refused_whatever_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(2, 1, 6, "", ("93.184.215.14", 443)), (2, 1, 6, "", ("127.0.0.1", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(NotSent, match="within the site"):
        post.post(Address(target="https://hooks.example.org/x"), b"{}", headers={})


def test_it_goes_to_the_address_that_was_judged_whatever_the_name_says_a_moment_later(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, asked = receiver.server.server_port, []
    real = socket.getaddrinfo

    def look_up(host: str, *args: Any, **more: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1" if host == "hooks.example.org" else host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    post.post(Address(target=f"http://hooks.example.org:{port}/x", allow_private=True), b"{}", headers={})
    assert asked.count("hooks.example.org") == 1
    assert receiver.got[0][1]["Host"] == f"hooks.example.org:{port}"


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]", "[fd00:ec2::254]",
     "100.100.100.200", "168.63.129.16", "[::ffff:168.63.129.16]", "192.0.0.192"],
)  # fmt: skip
def test_where_machines_tell_their_secrets_nothing_is_posted_though_private_ones_are_allowed(host: str) -> None:
    with pytest.raises(NotSent, match="Never posted to") as caught:
        post.post(Address(target=f"http://{host}/latest", allow_private=True), b"{}", headers={})
    assert caught.value.for_good


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("http://user:pass@hooks.example.org/x", "user and a password"),
        ("http://hooks.example.org@127.0.0.1/x", "user and a password"),
        ("http://hooks.example.org:99999/x", "port"),
        ("http://hooks.example.org:0/x", "port 0"),
        ("http://hooks.example.org:x/", "port"),
        ("http://" + "a" * 70 + ".example.org/", "host"),
        ("http://hooks.example.org\\@127.0.0.1/", "characters"),
        ("http://hooks.example.org/\r\nHost: x", "characters"),
        ("http://hooks.example.org/ x", "characters"),
        ("http://[::1/x", "host"),
    ],
)
def test_an_address_that_means_two_things_is_refused_by_name(target: str, why: str) -> None:
    with pytest.raises(NotSent, match=why) as caught:
        post.post(Address(target=target, allow_private=True), b"{}", headers={})
    assert caught.value.for_good


def test_the_host_alone_is_shown_of_an_address() -> None:
    assert post.target_of("https://hooks.example.org/services/T0/SECRET?key=x").shown == "https://hooks.example.org/…"
    assert post.target_of("https://müller.example:8443/x").shown == "https://xn--mller-kva.example:8443/…"
    assert post.target_of("http://[2001:db8::1]:80/").shown == "http://[2001:db8::1]"


def test_an_answer_that_repeats_the_address_tells_nobody_of_it(receiver: Receiver) -> None:
    receiver.answer = lambda request: reply(request, 404, f"Cannot POST {request.path}".encode())
    with pytest.raises(NotSent) as caught:
        post.post(to(receiver), b"{}", headers={})
    assert "Cannot POST /…" in str(caught.value)
    assert "hook" not in str(caught.value)


@pytest.mark.parametrize("target", ["ftp://example.org/x", "example.org", "https://", "file:///etc/passwd"])
def test_what_is_no_web_address_is_refused(target: str) -> None:
    with pytest.raises(NotSent, match="https://"):
        post.post(Address(target=target, allow_private=True), b"{}", headers={})


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.answer = lambda request: reply(request, 307, Location=receiver.url)
    with pytest.raises(NotSent, match="redirect") as caught:
        post.post(to(receiver), b"{}", headers={})
    assert caught.value.for_good
    assert len(receiver.got) == 1


# --- what comes back --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("status", "for_good"), [(500, False), (404, False), (429, False), (410, True)])
def test_a_refusal_is_told_and_only_gone_is_for_good(receiver: Receiver, status: int, for_good: bool) -> None:
    receiver.answer = lambda request: reply(request, status, b"no  such\nteam")
    with pytest.raises(NotSent, match=f"answers {status}: no such team") as caught:
        post.post(to(receiver), b"{}", headers={})
    assert caught.value.for_good is for_good


def test_a_receiver_that_drips_or_floods_holds_nothing_up(receiver: Receiver) -> None:
    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        for _ in range(100):
            try:
                request.wfile.write(b"x")
                request.wfile.flush()
            except OSError:
                return
            time.sleep(0.05)

    receiver.answer = drip
    began = time.monotonic()
    with pytest.raises(NotSent, match="did not answer within"):
        post.post(to(receiver), b"{}", headers={}, timeout_s=0.5)
    assert time.monotonic() - began < 4
    receiver.answer = lambda request: reply(request, 200, b"y" * 5_000_000)
    post.post(to(receiver), b"{}", headers={})


def test_nobody_there_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(NotSent, match="can't be reached"):
        post.post(Address(target=f"http://127.0.0.1:{port}/", allow_private=True), b"{}", headers={})


# --- the other kinds --------------------------------------------------------------------------------------------------
def test_a_slack_message_escapes_what_jobs_and_people_wrote(receiver: Receiver) -> None:
    slack.send(MESSAGE, to(receiver), now=NOW)
    told = json.loads(receiver.got[0][2])
    assert "<!channel>" not in receiver.got[0][2].decode()
    title, lines, way = (block["text"]["text"] for block in told["blocks"])
    assert title == "*A decision is needed* · alpha"
    assert "&lt;!channel&gt; &amp; more" in lines
    assert way == "<https://desk.example.org/incidents/3/|Open in Recovery Desk>"
    assert told["text"] == f"{title}\n{lines}\n{way}"  # for receivers that show no blocks
    assert all(block["text"]["verbatim"] for block in told["blocks"])


@pytest.mark.parametrize("name", ["@channel", "@all x", "[here](https://evil.example)", "<https://evil.example|here>"])
def test_a_jobs_name_calls_nobody_and_makes_no_link(name: str) -> None:
    hostile = replace(MESSAGE, lines=(name,))
    told = json.dumps(slack.payload(hostile, Address(target="", desk="https://desk.example.org")), ensure_ascii=False)
    assert name not in told
    assert "@channel" not in told


def test_a_mail_has_one_line_as_its_subject_and_goes_to_each(settings: Any) -> None:
    address = Address(target="a@example.org, b@example.org", desk="https://desk.example.org")
    email.send(Message(**{**_fields(), "lines": ("two\nlines\r\nBcc: x@example.org",)}), address, now=NOW)
    (sent,) = mail.outbox
    assert sent.to == ["a@example.org", "b@example.org"]
    assert sent.subject == "A decision is needed [alpha]: two lines Bcc: x@example.org"
    assert "https://desk.example.org/incidents/3/" in sent.body


@pytest.mark.parametrize(
    ("error", "for_good"),
    [(smtplib.SMTPRecipientsRefused({"a@example.org": (550, b"no such user")}), True),
     (smtplib.SMTPRecipientsRefused({"a@example.org": (450, b"come back later")}), False),
     (smtplib.SMTPServerDisconnected("gone"), False), (OSError("x"), False)],
)  # fmt: skip
def test_a_mail_server_that_does_not_take_it_is_told(
    error: Exception, for_good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise error

    monkeypatch.setattr("django.core.mail.EmailMessage.send", refuse)
    with pytest.raises(NotSent, match="mail server") as caught:
        email.send(MESSAGE, Address(target="a@example.org"), now=NOW)
    assert caught.value.for_good is for_good


def _fields() -> dict[str, Any]:
    return {name: getattr(MESSAGE, name) for name in MESSAGE.__slots__}
