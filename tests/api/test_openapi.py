"""The OpenAPI document: valid, whole, and true of what the API answers."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from recovery.api.urls import urlpatterns
from recovery.core.lifecycle import IncidentState
from recovery.models import Promotion
from recovery.pipeline import account
from tests.api.conftest import Api
from tests.api.test_incidents import whole
from tests.factories import (
    ago,
    make_attempt,
    make_incident,
    make_log_file,
    make_node,
    make_outbreak,
    make_policy,
    make_samples,
    make_strike,
    make_suspect,
    make_token,
)

Ask = Callable[[str], Api]

pytestmark = pytest.mark.django_db


@pytest.fixture
def document(api: Ask) -> Any:
    answer = api("viewer").get("openapi.json")
    assert answer.status == 200
    return answer.body


def operations(document: Any) -> dict[str, Any]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_it_is_openapi_3_1(document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    validate(document)


def test_it_is_made_without_a_warning() -> None:
    call_command("spectacular", validate=True, fail_on_warn=True, stdout=io.StringIO())


def test_it_knows_every_address(document: Any) -> None:
    known = {path.removeprefix("/api/v1/").replace("{id}", "<int:pk>") for path in document["paths"]}
    missing = {str(pattern.pattern) for pattern in urlpatterns if pattern.name != "api-no-such-address"} - known
    assert missing == {"openapi.json"}


def test_every_operation_says_what_it_does_and_what_it_needs(document: Any) -> None:
    for name, operation in operations(document).items():
        assert len(operation["summary"]) > 10, name
        assert "Needs " in operation["description"], name
        assert all(answer["description"] for answer in operation["responses"].values()), name
        assert ("429" in operation["responses"]) == (name != "GET /api/v1/health"), name


def test_every_parameter_is_explained(document: Any) -> None:
    plain = {"id", "kind", "failure_class", "outcome", "user", "phase", "action", "name", "limit", "offset", "account"}
    plain |= {"partition", "qos"}
    for name, operation in operations(document).items():
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description") or parameter["name"] in plain, (name, parameter["name"])


def test_states_can_be_chosen_from_a_list(document: Any) -> None:
    parameters = {each["name"]: each for each in operations(document)["GET /api/v1/incidents"]["parameters"]}
    assert set(parameters["state"]["schema"]["items"]["enum"]) == {state.value for state in IncidentState}


def test_a_decision_is_documented_with_examples_and_conflicts(document: Any) -> None:
    for verb in ("approve", "reject"):
        operation = operations(document)[f"POST /api/v1/recommendations/{{id}}/{verb}"]
        assert operation["requestBody"]["content"]["application/json"]["examples"]
        assert {"400", "401", "403", "404", "409"} <= set(operation["responses"])
    conflict = operation["responses"]["409"]["content"]["application/json"]
    assert {each["value"]["error"]["code"] for each in conflict["examples"].values()} == {
        "already_decided",
        "out_of_date",
    }


def test_the_examples_are_valid(document: Any) -> None:
    for name, operation in operations(document).items():
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        contents = [body["content"] for body in bodies if "content" in body]
        for content in (each["application/json"] for each in contents if "application/json" in each):
            for example in content.get("examples", {}).values():
                hold(document, content["schema"], example["value"], name)


def test_only_liveness_is_open(document: Any) -> None:
    opened = [name for name, operation in operations(document).items() if {} in operation["security"]]
    assert opened == ["GET /api/v1/health"]
    assert set(document["components"]["securitySchemes"]) == {"token", "session", "push"}


def hold(document: Any, schema: Any, value: Any, name: str) -> None:
    """`value` is what `schema` says."""
    whole_schema = {**schema, "components": document["components"]}
    problems = list(OAS31Validator(whole_schema).iter_errors(value))
    assert not problems, (name, [f"{list(each.path)}: {each.message}" for each in problems[:3]])


def test_answers_are_what_the_document_says(document: Any, api: Ask, admin: Any) -> None:
    incident = whole(make_incident(state=IncidentState.RESTORING))
    fresh = make_incident(state=IncidentState.DETECTED)
    closed = make_incident(state=IncidentState.CLOSED)
    log = make_log_file(attempt=make_attempt())
    make_samples(attempt=log.attempt, count=2, loss=None)
    make_node(cluster=incident.run.cluster)
    make_token(user=admin)
    outbreak = make_outbreak(incidents=[incident])
    make_suspect(cluster=incident.run.cluster)
    make_strike(incident=closed)
    promotion = Promotion.objects.create(rule="x", policy=make_policy(), reason="x", proposed_at=ago(0))
    account.keep_run(log.attempt.job.run_id, now=ago(0))
    ids = {
        "incidents": [incident.pk, fresh.pk, closed.pk],
        "recommendations": [incident.recommendations.values_list("pk", flat=True)[0]],
        "runs": [incident.run_id, log.attempt.job.run_id],
        "jobs": [incident.attempt.job_id],
        "attempts": [log.attempt_id],
        "clusters": [incident.run.cluster_id],
        "outbreaks": [outbreak.pk],
        "policies": [promotion.policy.number],
        "promotions": [promotion.pk],
    }
    for name, operation in operations(document).items():
        method, path = name.split()
        if method != "GET" or path.endswith((".csv", "audit/export")):
            continue
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        for pk in ids.get(path.split("/")[3], [0]) if "{id}" in path else [0]:
            answer = api("admin").get(path.removeprefix("/api/v1/").replace("{id}", str(pk)))
            assert answer.status == 200, (name, answer.body)
            hold(document, schema, answer.body, name)
