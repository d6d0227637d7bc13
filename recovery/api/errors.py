"""Every failure of the API in one shape: `{"error": {"code", "message", "fields"}}`.

`code` is for programs, `message` for people (what is wrong and what to do), `fields` names what is wrong with which
part of the input. Service functions raise their own exceptions; the table below says how each is answered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, TypedDict

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.core.signals import got_request_exception
from django.db import OperationalError
from django.http import Http404
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.response import Response

from recovery.access import Forbidden
from recovery.api.tokens import Invalid
from recovery.pipeline import invalid
from recovery.pipeline.decide import AlreadyDecided, Frozen, OutOfDate
from recovery.pipeline.transition import LostRace
from recovery.selectors import NotFound

log = logging.getLogger(__name__)


class Problem(TypedDict):
    code: str
    message: str
    fields: dict[str, list[str]]


ANSWERS: dict[type[Exception], tuple[HTTPStatus, str]] = {
    Forbidden: (HTTPStatus.FORBIDDEN, "forbidden"),
    PermissionDenied: (HTTPStatus.FORBIDDEN, "forbidden"),
    NotFound: (HTTPStatus.NOT_FOUND, "not_found"),
    OutOfDate: (HTTPStatus.CONFLICT, "out_of_date"),
    LostRace: (HTTPStatus.CONFLICT, "out_of_date"),
    AlreadyDecided: (HTTPStatus.CONFLICT, "already_decided"),
    Frozen: (HTTPStatus.CONFLICT, "frozen"),
}

UNAVAILABLE = "The database does not answer; nothing was changed. Try again in a moment."
BROKEN = "Something went wrong here; it stands in the server's log. Nothing was changed unless a later read shows it."


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """The answer to `error`; Django REST framework calls this for whatever a view raises."""
    for kind, (status, code) in ANSWERS.items():
        if isinstance(error, kind):
            return answer(status, code, str(error) or status.phrase)
    if isinstance(error, Invalid):
        return _invalid(error.fields)
    if isinstance(error, invalid.Invalid):
        return _invalid({name: [text] for name, _, text in (each.partition(": ") for each in error.errors)})
    if isinstance(error, ValidationError):
        return _invalid(dict(_flat(error.detail)))
    if isinstance(error, APIException):
        return _refused(error)
    if isinstance(error, ObjectDoesNotExist):
        noun = type(error).__qualname__.partition(".")[0].lower()
        return answer(HTTPStatus.NOT_FOUND, "not_found", f"There is no such {noun}.")
    if isinstance(error, Http404):
        return answer(HTTPStatus.NOT_FOUND, "not_found", "There is nothing at this address.")
    return _broken(error, context)


def answer(
    status: HTTPStatus, code: str, message: str, fields: dict[str, list[str]] | None = None, **headers: str
) -> Response:
    problem: Problem = {"code": code, "message": message, "fields": fields or {}}
    return Response({"error": problem}, status=status, headers=headers or None)


def _invalid(fields: dict[str, list[str]]) -> Response:
    sentences = [f"{name}: {text}" if name else text for name, texts in fields.items() for text in texts]
    return answer(HTTPStatus.BAD_REQUEST, "invalid", " ".join(sentences), {k: v for k, v in fields.items() if k})


def _flat(detail: Any, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Django REST framework's nested details as dotted paths; "" is the input as a whole."""
    if isinstance(detail, dict):
        for key, value in detail.items():
            below = "" if key == "non_field_errors" else str(key)
            yield from _flat(value, ".".join(part for part in (path, below) if part))
    elif isinstance(detail, list) and any(isinstance(each, dict | list) for each in detail):
        for index, value in enumerate(detail):
            yield from _flat(value, f"{path}.{index}" if path else str(index))
    else:
        yield path, [str(each) for each in (detail if isinstance(detail, list) else [detail])]


def _refused(error: APIException) -> Response:
    """What the framework itself refuses: no or a wrong log-in, an unknown method, a body that is no JSON, …"""
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = f"{wait:.0f}"
    code = error.get_codes()
    return answer(
        HTTPStatus(error.status_code), code if isinstance(code, str) else "invalid", str(error.detail), **headers
    )


def _broken(error: Exception, context: dict[str, Any]) -> Response:
    """Not foreseen: logged with its traceback, announced as Django does, told to the client without any detail."""
    request = context.get("request")
    log.error("%s in the API", type(error).__name__, exc_info=error)
    got_request_exception.send(sender=None, request=getattr(request, "_request", None))
    if isinstance(error, OperationalError):
        return answer(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", UNAVAILABLE)
    return answer(HTTPStatus.INTERNAL_SERVER_ERROR, "server_error", BROKEN)
