"""The few line icons of the shell, drawn on a 20 × 20 grid; they take the colour of the text around them."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

_PATHS = {
    "overview": "M3 3h6v8H3zM11 3h6v4h-6zM11 9h6v8h-6zM3 13h6v4H3z",
    "incidents": "M10 3 18 17H2zM10 8v4M10 14.2v.6",
    "approvals": "M4 4h12v12H4zM7 10l2.2 2.2L13.5 8",
    "runs": "M2.5 15.5 7 9l3.5 3.5L17.5 4M13.5 4h4v4",
    "nodes": "M3 3.5h14v5H3zM3 11.5h14v5H3zM6 6h.5M6 14h.5M9.5 6H14M9.5 14H14",
    "clusters": "M7 2.5h6v4.5H7zM2.5 13h6v4.5h-6zM11.5 13h6v4.5h-6zM10 7v3M5.5 13v-3h9v3",
    "policies": "M5 2.5h7l3.5 3.5v11.5h-10.5zM12 2.5V6h3.5M7.5 10h5M7.5 13.5h5",
    "reports": "M3 17h14M5 14V9M9 14V4M13 14v-3M16.5 14V7",
    "more": "M4.5 10h.6M9.7 10h.6M14.9 10h.6",
    "audit": "M10 3a7 7 0 1 0 7 7M10 6v4l3 2M13 3h4v4",
    "admin": "M3 6h8M15 6h2M3 14h2M9 14h8M13 4v4M7 12v4",
    "search": "M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM13 13l4 4",
    "theme": "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
    "user": "M10 3.5a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4zM3.5 17c.6-3.6 3-5.2 6.5-5.2s5.9 1.6 6.5 5.2",
    "help": "M10 2.8a7.2 7.2 0 1 0 0 14.4 7.2 7.2 0 0 0 0-14.4zM7.8 8a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.6M10 13.9v.4",
}


def svg(name: str) -> SafeString:
    """Decoration only: hidden from screen readers, the word stands beside it."""
    return format_html(
        '<svg class="icon" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true" focusable="false">'
        '<path d="{}" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" '
        'stroke-linejoin="round"/></svg>',
        mark_safe(_PATHS[name]),  # noqa: S308 - a constant of this file
    )
