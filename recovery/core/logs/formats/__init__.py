"""Every trainer format that can be read. To add one: a module beside this file that defines `FORMAT`, and a test."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from recovery.core.logs.marks import Format


def _load() -> tuple[Format, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}").FORMAT for name in names)


FORMATS: tuple[Format, ...] = _load()
