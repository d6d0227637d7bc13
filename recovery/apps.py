from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.models.signals import post_migrate
from django.utils.module_loading import import_string

from recovery.core.diagnose.catalogue import CatalogueError, set_site_rules


class RecoveryConfig(AppConfig):
    name = "recovery"
    verbose_name = "Recovery Desk"

    def ready(self) -> None:
        import_module("recovery.checks")  # registers them; it reads models, so it can't be imported earlier
        import_module("recovery.sessions")  # listens for log-ins
        post_migrate.connect(guard_tables, sender=self)
        for backend in settings.AUTHENTICATION_BACKENDS:
            import_back_end(backend)
        if settings.SIGNATURES:
            read_site_rules(settings.SIGNATURES)


def guard_tables(using: str, **_: Any) -> None:
    """Append-only tables have their triggers after each `migrate`, whatever it or anybody did to them."""
    import_module("recovery.migrations.0002_append_only_events").complete(connections[using])


def import_back_end(path: str) -> None:
    """Else the first to log in would find that there is none."""
    try:
        import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"RECOVERY_AUTH_BACKENDS: {path} can't be imported ({error}): install its package, or correct the name."
        ) from error


def read_site_rules(path: str) -> None:
    """Take the site's own failure signatures into the catalogue; a wrong file stops the start."""
    try:
        set_site_rules(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ImproperlyConfigured(
            f"RECOVERY_SIGNATURES={path} can't be read ({error.strerror}): point it at a readable file."
        ) from error
    except (CatalogueError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"RECOVERY_SIGNATURES={path}: {error}") from error
