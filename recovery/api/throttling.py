"""A ceiling for scripts that run wild: settings.API_RATE requests for each token, account or address.

Tokens of one owner that have the same name count as one. Each web process keeps the count for itself, so several of
them allow a multiple. This is no defence against an attack; that belongs in front of the product.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from recovery.api.authentication import actor_of

if TYPE_CHECKING:
    from rest_framework.views import APIView


class ActorThrottle(SimpleRateThrottle):
    scope = "actor"

    def get_rate(self) -> str | None:
        return settings.API_RATE or None

    def get_cache_key(self, request: Request, view: APIView) -> str:
        actor = actor_of(request)
        who = self.get_ident(request) if actor.user_id is None else f"{actor.kind}-{actor.user_id}-{actor.name}"
        return self.cache_format % {"scope": self.scope, "ident": hashlib.sha256(who.encode()).hexdigest()}
