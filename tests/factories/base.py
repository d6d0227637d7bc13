"""What all factories share."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

from django.utils import timezone

numbers = itertools.count(1)  # one counter for all that must be unique


def ago(seconds: float) -> datetime:
    """The moment so many seconds before now."""
    return timezone.now() - timedelta(seconds=seconds)
