"""Template filters of the policy's pages."""

from __future__ import annotations

from django import template

from recovery.core.score import Share

register = template.Library()


@register.filter
def diff_line(line: str) -> str:
    """The class of one line of a unified diff."""
    if line.startswith(("@@", "---", "+++")):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "")


@register.filter
def share(value: Share) -> str:
    """ "18 of 20, 90 %"; nothing to tell where nothing is known."""
    if value.value is None:
        return "none yet"
    return f"{value.hits} of {value.of}, {value.value:.0%}".replace("%", "\u00a0%")


@register.filter
def interval(value: Share) -> str:
    """Between which shares the true one lies, at 95 %."""
    low, high = value.interval
    return f"{100 * low:.0f}–{100 * high:.0f}\u00a0%"
