"""Answers of slurmrestd with anything in the place of anything: a record or no answer, never another exception."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.slurm import rest_json
from recovery.slurm.base import SlurmError
from recovery.slurm.rest import RestClient
from recovery.slurm.rest_door import _versions
from recovery.slurm.rest_http import HttpAnswer, Request, RestHttp
from tests.slurm.rest_server import Said, recorded

EXAMPLES = 40
URL = "http://fuzzed.invalid"

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["RUNNING", "n[1-3]", "n[1-99999999]", "\ud800", "\0", "1:2", "12_3", "%j", "a" * 5000]),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["set", "infinite", "number", "errors", "jobs", "id", "error"]), inner, max_size=3
        ),
    ),
    max_leaves=5,
)


class Canned(RestHttp):
    """In the place of the network: one answer to everything."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(URL)
        self._said = (status, body)

    def send(self, request: Request, *, headers: object) -> HttpAnswer:
        status, body = self._said
        return HttpAnswer(status=status, content_type="application/json", body=body, tried=str(request))


CALLS: dict[str, tuple[str, Callable[[RestClient], object]]] = {
    "jobs": ("jobs", lambda client: client.jobs()),
    "jobs_since": ("jobs", lambda client: client.jobs_since("1@1")),
    "job": ("job_array", lambda client: client.job("3_1")),
    "nodes": ("nodes", lambda client: client.nodes()),
    "partitions": ("partitions", lambda client: client.partitions()),
    "reservations": ("reservations", lambda client: client.reservations()),
    "health": ("conf", lambda client: client.health()),
    "rights": ("user_root", lambda client: client.rights()),
    "attempts": (
        "attempts_failed_requeued",
        lambda client: client.attempts(["9"], since=datetime(2026, 1, 1, tzinfo=UTC)),
    ),
    "ended_between": (
        "ended",
        lambda client: client.ended_between(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
    ),
    "script": ("script", lambda client: client.batch_script("4")),
    "update": ("update_done", lambda client: client.hold("4")),
    "cancel": ("cancel_ended", lambda client: client.cancel("2")),
}
# The oldest shapes, the newest, and one between.
VERSIONS = (("22.05", "v0.0.38"), ("23.02", "v0.0.39"), ("24.11", "v0.0.41"), ("26.05", "v0.0.45"))


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to each value of a document, itself included."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:2]):  # the first two jobs are as good as all
            found += places(inner, (*path, number))
    return found


def document(said: Said) -> Any:
    return json.loads(said.data.decode(errors="replace"))


@pytest.mark.parametrize("call", CALLS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_one_wrong_value_anywhere(call: str, data: st.DataObject) -> None:
    name, run = CALLS[call]
    release, version = data.draw(st.sampled_from(VERSIONS[-1:] if name == "ended" else VERSIONS))
    said = recorded(release, version, name)
    if not said.data.startswith(b"{"):
        return  # 22.05 has no such call
    answer = document(said)
    place = data.draw(st.sampled_from(places(answer)))
    wrong = data.draw(anything)
    broken = _with(answer, place, wrong) if data.draw(st.booleans()) else _without(answer, place)
    _versions[URL] = version
    client = RestClient(Canned(said.status, json.dumps(broken).encode()), user="desk")
    with suppress(SlurmError):
        run(client)


def _with(value: Any, place: tuple[str | int, ...], wrong: Any) -> Any:
    if not place:
        return wrong
    value = copy.copy(value)
    value[place[0]] = _with(value[place[0]], place[1:], wrong)
    return value


def _without(value: Any, place: tuple[str | int, ...]) -> Any:
    if len(place) <= 1:
        value = copy.copy(value)
        if place:
            del value[place[0]]
        return value
    value = copy.copy(value)
    value[place[0]] = _without(value[place[0]], place[1:])
    return value


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    body=st.one_of(st.binary(max_size=200), anything.map(lambda value: json.dumps(value).encode())),
    status=st.sampled_from([200, 201, 304, 400, 401, 404, 500, 511]),
    kind=st.sampled_from(["application/json", "text/plain", "text/html", ""]),
)
def test_any_bytes_with_any_status(body: bytes, status: int, kind: str) -> None:
    answer = HttpAnswer(status=status, content_type=kind, body=body, tried="GET /")
    for look in (rest_json.check_access, rest_json.whole, rest_json.check_write):
        with suppress(SlurmError):
            look(answer)
