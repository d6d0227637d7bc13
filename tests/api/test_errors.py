"""Whatever goes wrong, the answer has one shape, tells what to do, and tells nothing of the inside."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404
from django.test import Client
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rest_framework.exceptions import Throttled, ValidationError

from recovery.access import Forbidden
from recovery.api import errors, parsing
from recovery.api.tokens import Invalid
from recovery.models import Cluster, Incident
from recovery.pipeline.decide import AlreadyDecided, OutOfDate
from recovery.pipeline.transition import LostRace
from recovery.selectors import NotFound
from tests.api.conftest import Answer, Api, with_token
from tests.factories import make_incident, make_recommendation, make_run, make_token

Ask = Callable[[str], Api]

pytestmark = pytest.mark.django_db


def handled(error: Exception) -> Any:
    return errors.exception_handler(error, {})


# --- what the services raise


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Forbidden("no"), 403, "forbidden"),
        (PermissionDenied("no"), 403, "forbidden"),
        (NotFound("no"), 404, "not_found"),
        (OutOfDate("no"), 409, "out_of_date"),
        (LostRace("no"), 409, "out_of_date"),
        (AlreadyDecided("no"), 409, "already_decided"),
    ],
)
def test_what_a_service_raises_has_its_status_its_code_and_its_own_words(
    error: Exception, status: int, code: str
) -> None:
    response = handled(error)
    assert response.status_code == status
    assert response.data == {"error": {"code": code, "message": "no", "fields": {}}}


@pytest.mark.parametrize("error", [Http404(), Incident.DoesNotExist()])
def test_what_is_not_there_is_no_failure_of_the_server(error: Exception) -> None:
    assert handled(error).status_code == 404


def test_input_that_a_service_refuses_is_told_by_field() -> None:
    problem = handled(Invalid(name=["Give one."], scopes=["Too many.", "And unknown."])).data["error"]
    assert problem == {
        "code": "invalid",
        "message": "name: Give one. scopes: Too many. scopes: And unknown.",
        "fields": {"name": ["Give one."], "scopes": ["Too many.", "And unknown."]},
    }


@pytest.mark.parametrize(
    ("detail", "fields", "message"),
    [
        ({"a": ["x"]}, {"a": ["x"]}, "a: x"),
        ({"a": {"b": ["x"]}}, {"a.b": ["x"]}, "a.b: x"),
        ({"a": [{}, {"b": ["x"]}]}, {"a.1.b": ["x"]}, "a.1.b: x"),
        ({"non_field_errors": ["x"]}, {}, "x"),
        (["x"], {}, "x"),
        ("x", {}, "x"),
    ],
)
def test_nested_details_become_paths(detail: Any, fields: dict[str, list[str]], message: str) -> None:
    problem = handled(ValidationError(detail)).data["error"]
    assert (problem["fields"], problem["message"]) == (fields, message)


def test_who_must_wait_is_told_how_long() -> None:
    response = handled(Throttled(wait=12.4))
    assert (response.status_code, response.headers["Retry-After"]) == (429, "13")
    assert response.data["error"]["code"] == "throttled"


# --- what nobody foresaw


def broken(api: Ask, monkeypatch: pytest.MonkeyPatch, error: Exception) -> Answer:
    def fail(**kwargs: Any) -> None:
        raise error

    monkeypatch.setattr("recovery.selectors.incident_detail", fail)
    asks = api("viewer")
    asks.client.raise_request_exception = False
    return asks.get("incidents/1")


def test_a_fault_of_ours_is_logged_and_not_told(
    api: Ask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answer = broken(api, monkeypatch, KeyError("the secret of the inside"))
    assert (answer.status, answer.error["code"]) == (500, "server_error")
    assert "secret" not in answer.error["message"]
    record = next(each for each in caplog.records if each.name == errors.__name__)
    assert record.levelno == logging.ERROR
    assert record.exc_info
    assert "the secret of the inside" in str(record.exc_info[1])


def test_a_fault_is_announced_to_whoever_collects_faults(api: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**kwargs: Any) -> None:
        raise KeyError("inside")

    monkeypatch.setattr("recovery.selectors.incident_detail", fail)
    with pytest.raises(KeyError):  # the test client is such a collector
        api("viewer").get("incidents/1")


def test_a_database_that_does_not_answer_is_worth_another_try(api: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = broken(api, monkeypatch, OperationalError("connection to 10.0.0.7 refused"))
    assert (answer.status, answer.error["code"]) == (503, "unavailable")
    assert "10.0.0.7" not in answer.error["message"]
    assert "Try again" in answer.error["message"]


# --- what the framework refuses


@pytest.mark.parametrize("actor", ["anonymous", "viewer"])
@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete"])
@pytest.mark.parametrize("path", ["", "nothing", "incidents/", "incidents/x", "incidents/-1", "runs/1/2/3", "%00"])
def test_an_address_that_is_none_is_answered_in_the_same_shape(api: Ask, actor: str, method: str, path: str) -> None:
    answer = api(actor).ask(method, path)
    assert (answer.status, answer.error["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"), [("post", "incidents"), ("delete", "runs/1"), ("put", "tokens"), ("get", "tokens/1")]
)
def test_a_method_that_an_address_does_not_have(api: Ask, method: str, path: str) -> None:
    answer = api("admin").ask(method, path)
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
    assert answer.headers["Allow"]


def send(api: Api, body: bytes, content_type: str = "application/json") -> Answer:
    row = make_recommendation()
    path = f"/api/v1/recommendations/{row.pk}/approve"
    found = api.client.generic("POST", path, body, content_type=content_type)
    return Answer(found.status_code, found.json(), found.headers)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"hash=1",
        b'{"hash": NaN}',
        b'{"hash": Infinity}',
        b'\xff\xfe{"hash": 1}',
        b'{"hash": ' + b"1" * 5000 + b"}",
        b"[" * 60_000,
        b'{"a":' * 10_000,
    ],
    ids=["half", "form", "nan", "infinity", "not utf-8", "huge number", "deep list", "deep object"],
)
def test_a_body_that_is_no_json_is_refused(api: Ask, body: bytes) -> None:
    answer = send(api("approver"), body)
    assert (answer.status, answer.error["code"]) == (400, "parse_error")


@pytest.mark.parametrize("body", [b"null", b"[]", b'"hash"', b"7", b"true", b"[{}]"])
def test_json_that_is_no_object_is_refused(api: Ask, body: bytes) -> None:
    answer = send(api("approver"), body)
    assert (answer.status, answer.error["code"]) == (400, "invalid")


def test_a_body_may_not_be_large(api: Ask) -> None:
    body = json.dumps({"hash": "0" * 64, "comment": "x" * parsing.LARGEST_BODY}).encode()
    answer = send(api("approver"), body)
    assert (answer.status, answer.error["code"]) == (413, "too_large")


def test_forms_and_files_are_not_taken(api: Ask) -> None:
    answer = send(api("approver"), b"hash=0", "application/x-www-form-urlencoded")
    assert (answer.status, answer.error["code"]) == (415, "unsupported_media_type")


def test_only_json_is_spoken(api: Ask) -> None:
    answer = api("viewer").get("incidents", headers={"accept": "text/html"})
    assert (answer.status, answer.error["code"]) == (406, "not_acceptable")


def test_no_answer_may_be_kept_by_a_cache(api: Ask) -> None:
    for path in ("incidents", "incidents/404", "health", "nothing"):
        assert api("viewer").get(path).headers["Cache-Control"] == "no-store"


# --- whoever asks too often


def test_who_asks_too_often_must_wait(viewer: User, api: Ask, settings: Any) -> None:
    settings.API_RATE = "3/min"
    script, another = with_token(make_token(user=viewer, name="a")), with_token(make_token(user=viewer, name="b"))
    assert [script.get("me").status for _ in range(4)] == [200, 200, 200, 429]
    answer = script.get("me")
    assert answer.error["code"] == "throttled"
    assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert another.get("me").status == 200
    assert api("viewer").get("me").status == 200
    assert script.get("health").status == 200


def test_a_ceiling_can_be_left_out(viewer: User, settings: Any) -> None:
    settings.API_RATE = ""
    script = with_token(make_token(user=viewer))
    assert {script.get("me").status for _ in range(10)} == {200}


# --- anything at all

LISTS = ("incidents", "recommendations", "runs", "jobs", "attempts", "checkpoints", "clusters", "tokens")
PARAMETERS = (
    "state",
    "open",
    "run",
    "cluster",
    "user",
    "detected_after",
    "ordering",
    "limit",
    "offset",
    "job_id",
    "blind",
    "incident",
    "current",
    "name",
)
TEXT = st.one_of(st.text(max_size=30), st.integers().map(str), st.floats().map(str), st.datetimes().map(str))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noun=st.sampled_from(LISTS), query=st.dictionaries(st.sampled_from(PARAMETERS), TEXT, max_size=3))
@example(noun="incidents", query={"run": "1e400"})
@example(noun="incidents", query={"run": "9" * 400})
@example(noun="incidents", query={"user": "a\x00b"})
@example(noun="incidents", query={"detected_after": "0001-01-01T00:00:00+14:00"})
@example(noun="incidents", query={"detected_after": "9999-12-31T23:59:59-14:00"})
@example(noun="jobs", query={"job_id": "' OR 1=1 --"})
def test_no_parameter_breaks_a_list(api: Ask, noun: str, query: dict[str, str]) -> None:
    make_incident()
    answer = api("admin").get(noun, query_params=query)
    assert answer.status in (200, 400)
    if answer.status == 400:
        assert answer.error["message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(["recommendations/{}/approve", "recommendations/{}/reject", "tokens"]), body=JSON)
@example(path="tokens", body={"name": "x", "scopes": ["view"], "expires_at": "0001-01-01T00:00:00+14:00"})
@example(path="tokens", body={"name": "x", "scopes": ["view"], "expires_at": "9999-12-31T23:59:59-14:00"})
@example(path="tokens", body={"name": "\u0000", "scopes": ["view"]})
@example(path="tokens", body={"name": "\ud800", "scopes": ["view"]})
@example(path="tokens", body={"name": "x", "scopes": [{"a": []}]})
def test_no_body_breaks_a_verb(api: Ask, path: str, body: Any) -> None:
    row = make_recommendation()
    found = api("admin").client.generic(
        "POST", f"/api/v1/{path.format(row.pk)}", json.dumps(body), content_type="application/json"
    )
    assert found.status_code in (201, 400), found.content


def test_a_client_without_anything_gets_no_cookie(db: None) -> None:
    found = Client().get("/api/v1/incidents")
    assert not found.cookies


@pytest.mark.parametrize("path", ["incidents", "tokens", "recommendations/1/approve", "me"])
def test_what_there_is_stands_in_the_document_and_is_not_asked_by_options(api: Ask, path: str) -> None:
    answer = api("admin").ask("options", path)
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")


def test_head_answers_as_get_does_without_a_body(api: Ask) -> None:
    found = api("viewer").client.head("/api/v1/incidents")
    assert (found.status_code, found.content) == (200, b"")


WITH_A_CLUSTER = ("incidents", "runs", "jobs", "attempts", "recommendations", "reports", "reports.csv")


@pytest.mark.parametrize("path", WITH_A_CLUSTER)
def test_a_cluster_that_is_not_there_is_refused_with_those_that_are(path: str, api: Ask, db: None) -> None:
    make_run()
    names = ", ".join(Cluster.objects.order_by("name").values_list("name", flat=True))
    answer = api("viewer").get(f"{path}?cluster=hal")
    assert (answer.status, answer.error["fields"]) == (
        400, {"cluster": [f"There is no such cluster; choose from: {names}."]},
    )  # fmt: skip
    assert api("viewer").get(f"{path}?cluster={names}").status == 200


@pytest.mark.parametrize(
    ("query", "choice"),
    [
        ("reports?by=class", "failure_class"), ("incidents?state=x", "awaiting_decision"),
        ("incidents?kind=x", "crash"), ("incidents?outcome=x", "recovered"),
        ("incidents?failure_class=x", "checkpoint_incomplete"),
        ("jobs?state=x", "running"), ("attempts?phase=x", "training"), ("runs?state=x", "running"),
        ("checkpoints?state=x", "complete"), ("recommendations?action=x", "requeue"),
        ("incidents?ordering=x", "closed_at"),
    ],
)  # fmt: skip
def test_a_word_that_is_none_of_the_choices_is_refused_with_them(query: str, choice: str, api: Ask, db: None) -> None:
    answer = api("viewer").get(query)
    name = query.partition("?")[2].partition("=")[0]
    assert answer.status == 400
    assert [*answer.error["fields"]] == [name]
    assert choice in answer.error["fields"][name][0]
