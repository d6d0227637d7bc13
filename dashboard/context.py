"""What every page's shell shows."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from dashboard.reads import shell as reads
from recovery.access import Actor, Permission

THEMES = ("auto", "light", "dark")

# key of the icon and of the page's own mark, URL name, word; a phone has room for PRIMARY, the others are under More
NAVIGATION = (
    ("overview", "overview", "Overview"),
    ("incidents", "incidents", "Incidents"),
    ("runs", "runs", "Runs"),
    ("nodes", "nodes", "Nodes"),
    ("clusters", "clusters", "Clusters"),
    ("policies", "policies", "Policies"),
    ("reports", "reports", "Reports"),
    ("audit", "audit", "Audit"),
    ("admin", "admin", "Admin"),
)
PRIMARY = ("overview", "incidents", "runs", "reports")


def shell(request: HttpRequest) -> dict[str, Any]:
    """Lazy: a partial that draws no shell asks the database nothing."""
    theme = request.COOKIES.get("theme", "auto")
    return {
        "shell": SimpleLazyObject(lambda: _shell(request)),
        "navigation": NAVIGATION,
        "primary": PRIMARY,
        "theme": theme if theme in THEMES else "auto",
    }


def _shell(request: HttpRequest) -> reads.Shell | None:
    """None for everybody who may see nothing: then the shell is drawn without a word about clusters."""
    actor: Actor | None = getattr(request, "actor", None)
    if actor is None or not actor.can(Permission.VIEW):
        return None
    return reads.shell(str(request.session.get(reads.SESSION_KEY, "")), actor=actor, now=timezone.now())
