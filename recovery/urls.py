"""Pages at the root, the REST API under /api/v1/."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("api/v1/", include("recovery.api.urls")),
    path("", include("dashboard.urls")),
]

handler403 = "dashboard.errors.forbidden"
handler404 = "dashboard.errors.not_found"
handler500 = "dashboard.errors.broken"
