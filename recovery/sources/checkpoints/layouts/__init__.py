"""Every checkpoint layout that is known. To add one: a module beside this file that defines `LAYOUT`, and a test."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from recovery.sources.checkpoints.rules import Layout


def _load() -> tuple[Layout, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}").LAYOUT for name in names)


LAYOUTS: tuple[Layout, ...] = _load()
