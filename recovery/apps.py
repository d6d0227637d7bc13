from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class RecoveryConfig(AppConfig):
    name = "recovery"
    verbose_name = "Recovery Desk"

    def ready(self) -> None:
        import_module("recovery.checks")  # registers them; it reads models, so it can't be imported earlier
