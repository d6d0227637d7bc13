"""False alarms against delay as a threshold moves, as a picture: `python -m benchmarks curves` writes docs/images/.

The thresholds of recovery/core/detectors/limits.py were chosen on these curves; the chosen point is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.simulated.play import HangsOnly
from benchmarks.simulated.score import ADVICE, ALONE, DEFAULTS, HANGS, WITNESSED, Play, Tally, fleet
from recovery.core.detectors import Limits
from recovery.core.types import FindingKind

SEED = 6
HANG_JOBS, SLOW_JOBS = 1000, 150
FLOORS = (1200.0, 1500.0, 1800.0, 2100.0, 2700.0, 3600.0)  # where nothing else tells of it
LOWER = (300.0, 600.0, 900.0, 1200.0, 1500.0, 1800.0)  # where something does
LONGEST = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
FACTORS = (1.2, 1.35, 1.5, 1.75, 2.0)
SHARES = (0.5, 0.5, 0.95, 0.5)  # of the faults, whose delay a chart shows: a floor moves the middle, a factor the tail
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
WIDE, HIGH, LEFT, BELOW = 340, 260, 64, 52  # of one picture, in pixels


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    label: str
    delay_s: float  # from the fault to the finding, within which the chart's share of them is found
    false: float  # per 1000 job-days
    missed: float  # share
    chosen: bool


def run() -> dict[str, list[dict[str, object]]]:
    """Simulate all points, write the picture, and give the figures."""
    rows = {
        "minutes where nothing else says so": _hangs(
            [(f"{s / 60:g}", replace(DEFAULTS, hang_floor_s=s)) for s in FLOORS], SHARES[0], ALONE
        ),
        "minutes where something does": _hangs(
            [(f"{s / 60:g}", replace(DEFAULTS, hang_witnessed_s=s)) for s in LOWER], SHARES[1], WITNESSED
        ),
        "times the longest silence": _hangs(
            [(f"{k:g}", replace(DEFAULTS, hang_longest=k)) for k in LONGEST], SHARES[2], "hang"
        ),
        "times the usual step": _slow([(f"{k:g}", replace(DEFAULTS, slow_factor=k)) for k in FACTORS], SHARES[3]),
    }
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "thresholds.svg").write_text(picture(("Hangs", "Hangs", "Hangs", "Slowdowns"), rows))
    return {
        what: [{"at": p.label, "delay_s": p.delay_s, "false": p.false, "missed": p.missed} for p in points]
        for what, points in rows.items()
    }


Tried = list[tuple[str, Limits]]


def _hangs(tried: Tried, share: float, of: str) -> list[Point]:
    """`of`: the hangs whose delay is shown, a key of Tally.delays."""
    how = Play(seed=SEED, only=("", *HANGS), player=HangsOnly)
    tallies = fleet(how, HANG_JOBS, [limits for _, limits in tried])
    return [
        _point(tally, "hang", (FindingKind.HANG.value,), one, tally.delays[of], share)
        for tally, one in zip(tallies, tried, strict=True)
    ]


def _slow(tried: Tried, share: float) -> list[Point]:
    tallies = fleet(Play(seed=SEED, only=("", "slowdown")), SLOW_JOBS, [limits for _, limits in tried])
    return [
        _point(tally, "slowdown", ADVICE, one, tally.delays["slowdown"], share)
        for tally, one in zip(tallies, tried, strict=True)
    ]


def _point(
    tally: Tally, fault: str, kinds: Sequence[str], tried: tuple[str, Limits], shown: Sequence[float], share: float
) -> Point:
    delays, many = sorted(shown), tally.faults[fault]
    return Point(
        label=tried[0], chosen=tried[1] == DEFAULTS,
        delay_s=round(delays[int(share * (len(delays) - 1))]) if delays else 0.0,
        false=round(1000 * sum(tally.false[kind] for kind in kinds) / tally.days, 1),
        missed=round(1 - tally.found[fault] / many, 3) if many else 0.0,
    )  # fmt: skip


def picture(titles: Sequence[str], rows: dict[str, list[Point]]) -> str:
    """One small chart beside the other, in colours that can be read on light and dark ground."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE * len(rows)} {HIGH}" role="img" '
        'font-family="system-ui, sans-serif" font-size="11" fill="#6b7280">',
        "<title>False alarms per 1000 job-days against the delay, as one threshold moves</title>",
    ]
    for number, (title, (what, points)) in enumerate(zip(titles, rows.items(), strict=True)):
        chart = _chart(title, what, points, SHARES[number])
        parts.append(f'<g transform="translate({number * WIDE} 0)">{chart}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _chart(title: str, what: str, points: Sequence[Point], share: float) -> str:
    most_x = max((p.delay_s for p in points), default=1) * 1.1 / 60 or 1.0
    most_y = max((p.false for p in points), default=1) * 1.15 or 1.0

    def x(point: Point) -> float:
        return LEFT + point.delay_s / 60 / most_x * (WIDE - LEFT - 16)

    def y(point: Point) -> float:
        return HIGH - BELOW - point.false / most_y * (HIGH - BELOW - 34)

    line = " ".join(f"{x(p):.1f},{y(p):.1f}" for p in points)
    marks = "".join(
        f'<circle cx="{x(p):.1f}" cy="{y(p):.1f}" r="{6 if p.chosen else 3}" fill="{_colour(p)}"/>'
        f'<text x="{x(p) + 8:.1f}" y="{y(p) + (14 if number % 2 else -6):.1f}" fill="{_colour(p)}">{p.label}</text>'
        for number, p in enumerate(points)
    )
    bottom, right = HIGH - BELOW, WIDE - 16
    return (
        f'<text x="{LEFT}" y="18" font-size="13" font-weight="600">{title}: {what}</text>'
        f'<path d="M{LEFT} 30V{bottom}H{right}" fill="none" stroke="#9ca3af"/>'
        f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>'
        f'<text x="{LEFT - 6}" y="40" text-anchor="end">{most_y:.0f}</text>'
        f'<text x="{right}" y="{bottom + 16}" text-anchor="end">{most_x:.0f} min</text>'
        f'<text x="{LEFT}" y="{bottom + 16}">0</text>'
        f'<text x="{(LEFT + right) / 2:.0f}" y="{bottom + 34}" text-anchor="middle">{share:.0%} are found within</text>'
        f'<text transform="translate(18 {(30 + bottom) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        "false, per 1000 job-days</text>"
        f'<polyline points="{line}" fill="none" stroke="#3b82f6" stroke-width="1.5"/>{marks}'
    )


def _colour(point: Point) -> str:
    return "#d97706" if point.chosen else "#3b82f6"
