"""How the OpenAPI document is made from the views: their docstrings, what they require, and how they fail."""

from __future__ import annotations

import inspect
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry
from rest_framework import serializers

from recovery.access import Permission
from recovery.api.permissions import Access


class Problem(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="For programs: invalid, forbidden, not_found, out_of_date, …")
    message = serializers.CharField(help_text="For people: what is wrong and what to do.")
    # declared fields are taken out of the class, so this hides nothing
    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.CharField()), help_text="What is wrong with which parameter."
    )


class Failure(serializers.Serializer[Any]):
    """The one shape of every failure."""

    error = Problem()


FAILURES = {
    "400": "A parameter or the body is wrong; `fields` names what and how.",
    "401": "No token and no session, or one that is not valid.",
    "403": "The permission is missing; the message says who can give it. Or the CSRF token of a session is missing.",
    "404": "There is no such thing.",
    "429": "Too many requests; `Retry-After` says how many seconds to wait.",
}


class DeskSchema(AutoSchema):
    """The first paragraph of a view's (or its method's) docstring is the summary, the rest the description."""

    def _paragraphs(self) -> tuple[str, str]:
        method = inspect.getdoc(getattr(self.view, self.method.lower(), None)) if self._has_own_method() else None
        text = method or type(self.view).__doc__ or ""
        summary, _, rest = inspect.cleandoc(text).partition("\n\n")
        return " ".join(summary.split()), rest

    def _has_own_method(self) -> bool:
        return self.method.lower() in vars(type(self.view))

    def get_serializer_name(self, serializer: serializers.BaseSerializer[Any], direction: str) -> str:
        return type(serializer).__name__.removesuffix("Shape")

    def get_summary(self) -> str | None:
        return super().get_summary() or self._paragraphs()[0].rstrip(".")

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular drops the parent's parameters
        required = getattr(self.view, "required", None)
        if isinstance(required, Permission):
            need = f"Needs the permission `{required}` ({required.sentence})."
        else:
            need = f"Needs {required.value}." if isinstance(required, Access) else ""
        return "\n\n".join(part for part in (*self._paragraphs(), need) if part)

    def get_auth(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = super().get_auth()
        is_open = getattr(self.view, "required", None) is Access.OPEN
        return [{}] if is_open else found

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: ComponentRegistry
    ) -> dict[str, Any] | None:
        operation = super().get_operation(path, path_regex, path_prefix, method, registry)
        if operation is None:
            return None
        for status in self._failures(operation):
            operation["responses"].setdefault(status, self._failure(FAILURES[status]))
        for answer in operation["responses"].values():
            answer["description"] = answer["description"] or "What was asked for."
        operation["responses"] = dict(sorted(operation["responses"].items()))
        return operation

    def _failures(self, operation: dict[str, Any]) -> list[str]:
        required = getattr(self.view, "required", None)
        parameters = {parameter["in"] for parameter in operation.get("parameters", ())}
        return [
            status
            for status, applies in {
                "400": "query" in parameters or "requestBody" in operation,
                "401": required is not Access.OPEN,
                "403": isinstance(required, Permission) or self.method != "GET",
                "404": "path" in parameters,
                "429": bool(self.view.throttle_classes),
            }.items()
            if applies
        ]

    def _failure(self, description: str) -> dict[str, Any]:
        reference = self.resolve_serializer(Failure, "response").ref
        return {"description": description, "content": {"application/json": {"schema": reference}}}


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "recovery.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "rd_<prefix>_<secret>",
            "description": "An API token. It may do what both its scopes and its owner's role allow.",
        }


class PushTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "recovery.api.ingest.PushTokenAuthentication"
    name = "push"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "rdp_<prefix>_<secret>",
            "description": "A push token: for one job, one Slurm user's jobs or one cluster, and for nothing else.",
        }


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "recovery.api.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The session of the pages; whatever changes something needs the header X-CSRFToken too.",
        }
