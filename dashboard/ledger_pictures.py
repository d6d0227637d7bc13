"""Where time went, drawn: one stacked bar, or one column for each day. Plain SVG; the same figures stand in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard import wording
from recovery.core.ledger import Category
from recovery.core.ledger.words import CATEGORY_WORDS, PICTURE_ORDER

WIDTH, HEIGHT = 1000.0, 100.0  # of the drawing; it is stretched to its place
LEAST = 1.5  # a share that is there can be seen
STRIP = 240  # columns of a strip
NO_TIME = mark_safe('<span class="unknown">no time</span>')

Rect = tuple[str, float, float, float, str]  # category, x, width, height, what it says on hover


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """One category of a bar: hover and table say the same."""

    category: Category
    label: str
    sentence: str
    seconds: float
    share: float


def shares(seconds: Mapping[Category, float]) -> list[Share]:
    """Those that are there, in the order in which they are drawn."""
    whole = sum(seconds.values())
    return [
        Share(
            category=category, label=CATEGORY_WORDS[category].label, sentence=CATEGORY_WORDS[category].sentence,
            seconds=seconds[category], share=seconds[category] / whole,
        )
        for category in PICTURE_ORDER if seconds[category] > 0
    ]  # fmt: skip


def bar(seconds: Mapping[Category, float]) -> SafeString:
    found = shares(seconds)
    if not found:
        return NO_TIME
    widths = [max(LEAST, part.share * WIDTH) for part in found]
    scale, x, parts = WIDTH / sum(widths), 0.0, []
    for part, width in zip(found, widths, strict=True):
        parts.append((part.category, round(x, 2), round(width * scale, 2), HEIGHT, _said(part)))
        x += width * scale
    return _svg("ledger-bar", WIDTH, "; ".join(_said(part) for part in found), parts)


def strip(pieces: Sequence[tuple[int, int, str]]) -> SafeString:
    """What a run did from moment to moment: each column what most of its time went into."""
    if not pieces:
        return NO_TIME
    begin, whole = pieces[0][0], pieces[-1][1] - pieces[0][0]
    columns: list[dict[str, int]] = [{} for _ in range(STRIP)]
    for start, end, category in pieces:
        first, last = (start - begin) * STRIP // whole, (end - begin - 1) * STRIP // whole
        for place in range(first, min(last, STRIP - 1) + 1):
            edge, until = begin + whole * place // STRIP, begin + whole * (place + 1) // STRIP
            held = min(end, until) - max(start, edge)
            columns[place][category] = columns[place].get(category, 0) + max(0, held)
    parts: list[Rect] = []
    width = WIDTH / STRIP
    for place, column in enumerate(columns):
        category = max(column, key=lambda name: column[name], default=Category.UNKNOWN.value)
        if parts and parts[-1][0] == category:
            parts[-1] = (category, parts[-1][1], round(parts[-1][2] + width, 2), HEIGHT, parts[-1][4])
        else:
            parts.append((category, round(place * width, 2), round(width, 2), HEIGHT, _label(category)))
    spoken = "From its first submission on: " + ", then ".join(_label(part[0]).lower() for part in parts[:12])
    return _svg("ledger-bar", WIDTH, spoken, parts)


def columns(days: Sequence[tuple[str, Mapping[Category, float]]]) -> SafeString:
    """One column for each day, as high as the wall time of all its runs; the highest fills the picture."""
    most = max((sum(seconds.values()) for _, seconds in days), default=0.0)
    if most <= 0:
        return mark_safe("")
    width, rects = WIDTH / len(days), []
    for place, (day, seconds) in enumerate(days):
        y = HEIGHT
        for part in shares(seconds):
            height = part.seconds / most * HEIGHT
            y -= height
            x, wide = round(place * width + width * 0.06, 2), round(width * 0.88, 2)
            rects.append((part.category, x, round(y, 3), wide, round(height, 3), f"{day}: {_said(part)}"))
    drawn = format_html_join(
        "", '<rect class="cat-{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>', rects
    )
    return format_html(
        '<svg class="ledger-days" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        WIDTH, HEIGHT, "Wall time by day and category; the same figures follow as a table.", drawn,
    )  # fmt: skip


def _svg(name: str, width: float, spoken: str, parts: Sequence[Rect]) -> SafeString:
    drawn = format_html_join(
        "", '<rect class="cat-{}" x="{}" y="0" width="{}" height="{}"><title>{}</title></rect>', parts
    )
    return format_html(
        '<svg class="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>',
        name, width, HEIGHT, spoken, drawn,
    )  # fmt: skip


def _label(category: str) -> str:
    return CATEGORY_WORDS[Category(category)].label


def _said(part: Share) -> str:
    return f"{part.label} {wording.duration(part.seconds)} ({percent(part.share)})"


def percent(share: float | None) -> str:
    """One decimal below 10 and near 100, so that a small loss is not rounded away."""
    if share is None:
        return "unknown"
    value = share * 100
    if 0 < value < 0.05:
        return "below 0.1 %"
    return f"{value:.1f} %" if value < 9.95 or 99 < value < 100 else f"{value:.0f} %"
