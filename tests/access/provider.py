"""A provider for log-ins on loopback: discovery, authorization codes bound to proof keys, signed tokens, its keys."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "desk", "not-so-secret"


@cache
def key(which: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Provider:
    """Lets whoever `person` says in, without asking. What stands in `lies` replaces claims of the token."""

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self.person: dict[str, Any] = {"sub": "u-17", "preferred_username": "mira", "groups": ["gpu-ops"]}
        self.lies: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.algorithm, self.signed_by = "RS256", "published"
        self.broken = False
        self._codes: dict[str, dict[str, str]] = {}

    def description(self) -> dict[str, Any]:
        ends = {
            "authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys",
            "userinfo_endpoint": "who", "end_session_endpoint": "leave",
        }  # fmt: skip
        return {"issuer": self.issuer} | {name: f"{self.issuer}/{path}" for name, path in ends.items()}

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser is sent back to."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self._codes[code] = asked
        return asked["redirect_uri"] + "?" + urlencode({"code": code, "state": asked["state"]})

    def token(self, given: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """None: the code, the client or the proof key is not the right one."""
        asked = self._codes.pop(given.get("code", ""), None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(given.get("code_verifier", "").encode()).digest())
        client = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if (
            asked is None
            or authorization != f"Basic {client}"
            or proof.decode().rstrip("=") != asked["code_challenge"]
            or given.get("redirect_uri") != asked["redirect_uri"]
        ):
            return None
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims = {name: value for name, value in {**claims, **self.person, **self.lies}.items() if value is not None}
        signer: Any = {"none": None, "HS256": CLIENT_SECRET * 4}.get(self.algorithm, key(self.signed_by))
        token = jwt.encode(claims, signer, algorithm=self.algorithm, headers={"kid": "one"})
        return {"access_token": "access", "token_type": "Bearer", "id_token": token}

    def keys(self) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key("published").public_key()))
        return {"keys": [{**public, "kid": "one", "use": "sig"}]}


class Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", self.provider.authorize(asked))
            self.end_headers()
        elif self.provider.broken:
            self._send(500, {})
        elif parts.path == "/.well-known/openid-configuration":
            self._send(200, self.provider.description())
        elif parts.path == "/keys":
            self._send(200, self.provider.keys())
        elif parts.path == "/who" and self.headers["Authorization"] == "Bearer access":
            self._send(200, {"sub": self.provider.person["sub"]} | self.provider.userinfo)
        else:
            self._send(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        given = {name: values[0] for name, values in parse_qs(body).items()}
        answer = self.provider.token(given, self.headers.get("Authorization", ""))
        self._send(200 if answer else 400, answer or {"error": "invalid_grant"})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def provider() -> Iterator[Provider]:
    handler = type("Bound", (Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    found = Provider(server.server_address[1])
    handler.provider = found  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
