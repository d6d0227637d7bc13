"""Which service answers to which word of RECOVERY_PROVIDER."""

from __future__ import annotations

from collections.abc import Callable

from recovery.core.opinion import ProviderSettings
from recovery.providers.base import Provider
from recovery.providers.nvrx import Nvrx
from recovery.providers.service import Service

PROVIDERS: dict[str, Callable[[ProviderSettings], Provider]] = {"http": Service, "nvrx": Nvrx}


def provider_for(settings: ProviderSettings) -> Provider:
    return PROVIDERS[settings.kind](settings)
