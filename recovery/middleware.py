"""Each request has an id: it stands in the events that the request leaves, and in its answer as X-Request-ID."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from recovery.origin import Origin, origin

HEADER = "X-Request-ID"


class OriginMiddleware:
    """Sync and async: a synchronous link in the chain would turn every stream into a thread."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        if self.is_async:
            return self._acall(request)
        with origin(client_address(request)) as here:
            return _marked(self.get_response(request), here)

    async def _acall(self, request: HttpRequest) -> HttpResponse:
        with origin(client_address(request)) as here:
            return _marked(await self.get_response(request), here)


def _marked(response: HttpResponse, here: Origin) -> HttpResponse:
    response.headers[HEADER] = here.request_id
    return response


def client_address(request: HttpRequest) -> str:
    """Whoever connected; behind our proxy the last address that it names, as whatever stands before can be made up."""
    told = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.SECURE_PROXY_SSL_HEADER else ""
    return told.rpartition(",")[2].strip() or request.META.get("REMOTE_ADDR") or ""
