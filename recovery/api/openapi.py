"""The OpenAPI document, served."""

from __future__ import annotations

from drf_spectacular.views import SpectacularJSONAPIView

from recovery.api.base import DeskView
from recovery.api.permissions import Access


class OpenApiView(DeskView, SpectacularJSONAPIView):
    """Describe this API as OpenAPI 3.1."""

    required = Access.LOGGED_IN
