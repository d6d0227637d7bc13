"""Template tags of reports: pictures, shares, rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard import ledger_pictures, wording
from recovery.core import speech
from recovery.core.ledger.figures import HOUR
from recovery.core.ledger.spans import to_datetime
from recovery.core.ledger.summary import SECOND

register = template.Library()

register.filter("percent", ledger_pictures.percent)
register.simple_tag(ledger_pictures.bar, name="ledger_bar")
register.simple_tag(ledger_pictures.strip, name="ledger_strip")
register.simple_tag(ledger_pictures.columns, name="ledger_columns")


@register.filter
def shares(seconds: Mapping[Any, float]) -> list[ledger_pictures.Share]:
    return ledger_pictures.shares(seconds)


@register.filter
def of(seconds: Mapping[Any, float], category: Any) -> float:
    return seconds[category]


@register.filter
def hours(value: float | None) -> str:
    """A number of GPU-hours for a column that says so."""
    return "unknown" if value is None else speech.tenths(value)


@register.filter
def rate(value: float | None) -> str:
    """Two digits that count: 0.42, 3.1, 12; what is there never reads as nothing."""
    if value is None:
        return "unknown"
    if 0 < value < 0.005:
        return "below 0.01"
    return f"{value:,.{2 if value < 1 else 1 if value < 10 else 0}f}".replace(",", wording.THIN)


@register.filter
def end_of(pieces: Sequence[tuple[int, int, str]]) -> datetime:
    """The moment up to which the pieces of a run reach."""
    return to_datetime(pieces[-1][1])


@register.simple_tag
def swatch(category: str) -> SafeString:
    return format_html('<span class="swatch cat-{}" aria-hidden="true"></span>', category)


@register.filter
def us_hours(us: int) -> str:
    """GPU-microseconds as `hours` says them."""
    return hours(us / HOUR)


@register.filter
def us_seconds(us: int) -> float:
    return us / SECOND
