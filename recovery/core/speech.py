"""How numbers read in sentences, everywhere the same: durations in two units at most, steps with thin spaces."""

from __future__ import annotations

from collections.abc import Iterable

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def duration(seconds: float) -> str:
    """ "2 m 10 s", "3 h", "0.4 s"; two units at most."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    left = round(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, rest = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
            left = rest
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts)


def steps(number: int | None) -> str:
    """A step or a number of steps: "18 400"; "unknown" where none was seen."""
    if number is None:
        return "unknown"
    return f"{number:,}".replace(",", "\u202f")  # narrow, and no line breaks in it


def tenths(number: float) -> str:
    """An amount with one decimal: "12.4", "1 204.0"; "below 0.1" where it is little, and not nothing."""
    return "below 0.1" if 0 < number < 0.05 else f"{number:,.1f}".replace(",", "\u202f")


def listed(names: Iterable[str]) -> str:
    """ "gpu-01", "gpu-01 and gpu-02", "gpu-01, gpu-02 and 3 others"."""
    items = list(names)
    if len(items) > 3:
        items = [*items[:2], f"{len(items) - 2} others"]
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1] if items else "")))


def counted(number: int, word: str) -> str:
    """ "1 cluster", "2 clusters"; for words that only take an s."""
    return f"{number} {word}{'' if number == 1 else 's'}"
