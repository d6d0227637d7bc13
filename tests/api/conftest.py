"""What the tests of the API share: one way to ask, as whom one likes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

ACTORS = ("anonymous", "outsider", "viewer", "operator", "approver", "admin")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any
    headers: Any

    @property
    def error(self) -> Any:
        """The failure, whose shape is always the same."""
        assert set(self.body) == {"error"}
        assert set(self.body["error"]) == {"code", "message", "fields"}
        return self.body["error"]

    @property
    def rows(self) -> list[Any]:
        """The rows of a page."""
        assert self.status == 200, self.body
        rows: list[Any] = self.body["results"]
        return rows


@dataclass(frozen=True, slots=True)
class Api:
    """`api("viewer").get("incidents?open=true")`."""

    client: Client

    def ask(self, method: str, path: str, data: Any = None, **kwargs: Any) -> Answer:
        body = {"data": data, "content_type": "application/json"} if data is not None else {}
        found = getattr(self.client, method.lower())(f"/api/v1/{path}", **body, **kwargs)
        is_text = found.headers["Content-Type"].startswith(("text/csv", "application/x-ndjson"))
        return Answer(found.status_code, found.content.decode() if is_text else found.json(), found.headers)

    def get(self, path: str, **kwargs: Any) -> Answer:
        return self.ask("get", path, **kwargs)

    def post(self, path: str, data: Any, **kwargs: Any) -> Answer:
        return self.ask("post", path, data, **kwargs)


@pytest.fixture(autouse=True)
def _nobody_has_asked_yet() -> Iterator[None]:
    """The count of requests is kept in the process, and the same accounts come again in each test."""
    yield
    cache.clear()


@pytest.fixture
def api(clients: dict[str, Client]) -> Any:
    return lambda name: Api(clients[name])


def with_token(token: str) -> Api:
    """Whoever sends this token, without any session."""
    return Api(Client(headers={"authorization": f"Bearer {token}"}))
