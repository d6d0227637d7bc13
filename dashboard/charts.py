"""The run's figure: steps over time, one line per attempt, restores as drops, checkpoints, and the five moments.

Built with plotly, drawn by static/js/charts.js. Times are UTC here; the browser turns them into the reader's zone.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from dashboard import wording
from dashboard.reads.chart_data import AttemptData, RunData
from recovery.core.blindness import UNKNOWN_FORMAT
from recovery.core.types import CheckpointState, FindingKind

# The tokens of static/css/desk.css, which a figure can't read; a test holds the two together.
PALETTE: dict[str, dict[str, str]] = {
    "light": {
        "surface": "#ffffff", "text": "#161a22", "muted": "#586072", "line": "#e0e3e9", "line-strong": "#878f9f",
        "accent": "#2450c0", "critical": "#b3201a", "warning": "#855200", "ok": "#176a3a", "info": "#1a5f8c",
        "accent-soft": "#e9effc", "critical-soft": "#fcebea", "warning-soft": "#fbf1dd", "info-soft": "#e4f0f8",
    },
    "dark": {
        "surface": "#161a21", "text": "#e7eaf0", "muted": "#9ba5b6", "line": "#2a313d", "line-strong": "#6b7588",
        "accent": "#8fb0ff", "critical": "#ff958c", "warning": "#ecb65a", "ok": "#6fcf97", "info": "#7cc1ea",
        "accent-soft": "#1b2746", "critical-soft": "#3a1a1c", "warning-soft": "#33270f", "info-soft": "#132b3c",
    },
}  # fmt: skip

MOMENT_SYMBOLS = {
    "Detected": ("circle", "critical"),
    "Recommended": ("diamond", "warning"),
    "Acted": ("triangle-right", "accent"),
    "Restored": ("square", "info"),
    "Next checkpoint": ("triangle-up", "ok"),
}
CHECKPOINT_SYMBOLS = {
    CheckpointState.COMPLETE: ("triangle-up", "ok"),
    CheckpointState.ANNOUNCED: ("triangle-up-open", "ok"),
    CheckpointState.TORN: ("x", "critical"),
    CheckpointState.MISSING: ("triangle-down-open", "muted"),
    CheckpointState.UNKNOWN: ("triangle-left-open", "warning"),
}
LETTER_PX = 6.3  # of a label in a stretch; one that does not fit is left out
SIDES_PX = 80  # margins left and right of the plot
LANE = 0.87  # the moments stand above this share of the height, each kind in a row of its own


def headline(data: RunData) -> str:
    """What to see in the chart, as a sentence."""
    if data.last_step is None:
        return "No step was seen yet."
    lost = [drop for drop in (_lost(a, b) for a, b in pairwise(_with_steps(data))) if drop]
    attempts = wording.plural(len(data.attempts), "attempt")
    if lost:
        restarts = "a restart" if len(lost) == 1 else f"{len(lost)} restarts"
        return f"Step {wording.steps(data.last_step)} after {attempts}; {restarts} repeated {_steps(sum(lost))}."
    return f"Step {wording.steps(data.last_step)} after {attempts}; no step was repeated."


def nothing_to_draw(data: RunData) -> str:
    """Why a chart would be empty: what was looked for and what would have to be there; "" where it is not."""
    if not data.empty:
        return ""
    if (newest := data.newest) is None:
        return "No attempt had started in this time: there was no step to read."
    if newest.last_step is not None:
        return f"No step of this time is stored. The last of this attempt is step {wording.steps(newest.last_step)}."
    if newest.blind_reason:
        return f"No step was read in this time. {newest.blind_reason} {newest.blind_remedy}"
    files = ", ".join(f"{file.file} ({wording.plural(file.line, 'line')} read)" for file in data.looked_in)
    looked = f"Lines with progress were looked for in {files}." if files else "No log of it was read."
    return f"No step was read in this time. {looked} {UNKNOWN_FORMAT}"


def _steps(number: int) -> str:
    return wording.plural(number, "step")


def _with_steps(data: RunData) -> list[AttemptData]:
    return [a for a in data.attempts if a.attempt.last_step is not None]


def _lost(before: AttemptData, after: AttemptData) -> int:
    """Steps that were trained and then trained again."""
    restored = after.attempt.restored_step if after.attempt.restored_step is not None else after.attempt.first_step
    if restored is None or before.attempt.last_step is None:
        return 0
    return max(0, before.attempt.last_step - restored)


def run_figure(data: RunData, *, theme: str, width: int) -> go.Figure:
    """The whole figure for one theme, "light" or "dark", and a width in pixels."""
    colour = PALETTE[theme]
    figure = go.Figure()
    _steps_of_attempts(figure, data, colour)
    _drops(figure, data, colour)
    _checkpoints(figure, data, colour)
    panels = [name for name in ("throughput", "loss") if _any(data, name)]
    for number, name in enumerate(panels):
        _panel(figure, data, colour, field=name, axis=f"y{number + 2}")
    _moments(figure, data, colour)
    figure.update_layout(**_layout(data, colour, panels))
    _stretches(figure, data, colour, width=width)
    return figure


def _any(data: RunData, field: str) -> bool:
    return any(getattr(sample, field) is not None for _, sample in data.samples)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _steps_of_attempts(figure: go.Figure, data: RunData, colour: dict[str, str]) -> None:
    for number, attempt in enumerate(a for a in data.attempts if a.samples):
        figure.add_scatter(
            x=[_iso(s.at) for s in attempt.samples],
            y=[s.step for s in attempt.samples],
            mode="lines" if len(attempt.samples) > 1 else "markers",
            line={"color": colour["accent"], "width": 2},
            marker={"color": colour["accent"], "size": 5},
            name="step",
            legendgroup="step",
            showlegend=number == 0,
            hovertemplate="step %{y:,}<extra>" + attempt.name + "</extra>",
        )


def _drops(figure: go.Figure, data: RunData, colour: dict[str, str]) -> None:
    """From the last step before to the first one after: work that was done and lost."""
    drawn = [a for a in data.attempts if a.samples]
    first = True
    for before, after in pairwise(drawn):
        lost = _lost(before, after)
        if not lost or before.attempt.last_step is None:
            continue
        at, top = _iso(after.samples[0].at), before.attempt.last_step
        figure.add_scatter(
            x=[at, at],
            y=[top, top - lost],
            mode="lines",
            line={"color": colour["critical"], "width": 2, "dash": "dot"},
            name="steps lost",
            legendgroup="lost",
            showlegend=first,
            hovertemplate=f"{_steps(lost)} lost<extra></extra>",
        )
        first = False


def _checkpoints(figure: go.Figure, data: RunData, colour: dict[str, str]) -> None:
    for state, (symbol, tone) in CHECKPOINT_SYMBOLS.items():
        rows = [c for c in data.checkpoints if c.state == state]
        if not rows:
            continue
        figure.add_scatter(
            x=[_iso(c.completed_at or c.first_seen_at) for c in rows],
            y=[c.step for c in rows],
            mode="markers",
            marker={"symbol": symbol, "color": colour[tone], "size": 9, "line": {"width": 1.5, "color": colour[tone]}},
            name=f"checkpoint, {state.value}",
            hovertemplate=f"checkpoint %{{y:,}} {state.value}<extra></extra>",
        )


def _panel(figure: go.Figure, data: RunData, colour: dict[str, str], *, field: str, axis: str) -> None:
    for attempt in data.attempts:
        rows = [s for s in attempt.samples if getattr(s, field) is not None]
        if not rows:
            continue
        figure.add_scatter(
            x=[_iso(s.at) for s in rows],
            y=[getattr(s, field) for s in rows],
            yaxis=axis,
            mode="lines",
            line={"color": colour["line-strong"], "width": 1.5},
            name=field,
            showlegend=False,
            hovertemplate=f"{field} %{{y:.4g}}<extra></extra>",
        )


def _moments(figure: go.Figure, data: RunData, colour: dict[str, str]) -> None:
    """A lane on top: each moment's shape, with a thin line down through all panels."""
    for row, (label, (symbol, tone)) in enumerate(MOMENT_SYMBOLS.items()):
        rows = [m for m in data.moments if m.label == label]
        if not rows:
            continue
        figure.add_scatter(
            x=[_iso(m.at) for m in rows],
            y=[len(MOMENT_SYMBOLS) - row] * len(rows),
            yaxis="y9",
            mode="markers",
            marker={"symbol": symbol, "color": colour[tone], "size": 8},
            name=label.lower(),
            customdata=[m.incident_id for m in rows],
            hovertemplate=f"{label.lower()}, incident %{{customdata}}<extra></extra>",
        )
    for moment in data.moments:
        tone = MOMENT_SYMBOLS[moment.label][1]
        line = {"color": colour[tone], "width": 1}
        figure.add_shape(
            type="line", xref="x", yref="paper", x0=_iso(moment.at), x1=_iso(moment.at), y0=0, y1=1,
            line=line, opacity=0.45, layer="below",
        )  # fmt: skip


def _stretches(figure: go.Figure, data: RunData, colour: dict[str, str], *, width: int) -> None:
    """Waiting in the queue and standing still are stretches with a label, not gaps."""
    for attempt in data.attempts:
        row = attempt.attempt
        if row.submitted_at and attempt is not data.attempts[0]:
            until = row.started_at or data.end
            _stretch(figure, data, (row.submitted_at, until), "queued", colour["line"], colour["muted"], width)
        if row.started_at and (attempt.samples or row.ended_at is None):
            first = attempt.samples[0].at if attempt.samples else data.end
            label = "no step seen" if row.blind_reason and not attempt.samples else "start-up"
            _stretch(figure, data, (row.started_at, first), label, colour["info-soft"], colour["muted"], width)
    for incident in data.incidents:
        if incident.kind == FindingKind.UNDOING:
            continue
        later = [a.attempt.submitted_at for a in data.attempts if a.attempt.submitted_at > incident.failed_at]
        until = min(later, default=incident.closed_at or data.end)
        fill = colour["critical-soft"]
        label = _STRETCHES.get(FindingKind(incident.kind), "standing still")
        _stretch(figure, data, (incident.failed_at, until), label, fill, colour["muted"], width)


_STRETCHES = {FindingKind.SLOWDOWN: "slow", FindingKind.LIMIT_NEAR: "near its limit"}


def _stretch(
    figure: go.Figure, data: RunData, span: tuple[datetime, datetime], label: str, fill: str, ink: str, width: int
) -> None:
    start, end = max(span[0], data.start), min(span[1], data.end)
    length, whole = (end - start).total_seconds(), (data.end - data.start).total_seconds()
    if length <= 0 or whole <= 0:
        return
    figure.add_shape(
        type="rect", xref="x", yref="y domain", x0=_iso(start), x1=_iso(end), y0=0, y1=1,
        fillcolor=fill, opacity=0.75, line={"width": 0}, layer="below",
    )  # fmt: skip
    text = f"{label} {wording.duration(length)}"
    if length / whole * (width - SIDES_PX) < len(text) * LETTER_PX:
        return
    figure.add_annotation(
        x=_iso(start + (end - start) / 2), y=0.02, yref="y domain", yanchor="bottom", showarrow=False,
        text=text, font={"color": ink, "size": 11},
    )  # fmt: skip


def _layout(data: RunData, colour: dict[str, str], panels: list[str]) -> dict[str, Any]:
    lowest = _domains(len(panels))
    axis = {"gridcolor": colour["line"], "linecolor": colour["line-strong"], "zeroline": False, "automargin": False}
    layout: dict[str, Any] = {
        "template": None,
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": colour["text"]},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 64, "r": 16, "t": 4, "b": 72},
        "separators": f".{wording.THIN}",
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "hoverlabel": {
            "bgcolor": colour["surface"],
            "bordercolor": colour["line-strong"],
            "font": {"color": colour["text"]},
        },
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "font": {"size": 11},
        },
        "dragmode": "zoom",
        "xaxis": {**axis, "type": "date", "range": [_iso(data.start), _iso(data.end)], "anchor": _anchor(panels)},
        "yaxis": {**axis, "domain": lowest[0], "title": {"text": "step", "font": {"size": 11}}, "tickformat": ","},
        "yaxis9": {
            "domain": [LANE + 0.01, 1],
            "range": [0, len(MOMENT_SYMBOLS) + 1],
            "visible": False,
            "fixedrange": True,
        },
    }
    for number, name in enumerate(panels):
        layout[f"yaxis{number + 2}"] = {
            **axis, "domain": lowest[number + 1], "title": {"text": name, "font": {"size": 11}}, "nticks": 4,
            "rangemode": "tozero" if name == "throughput" else "normal",
        }  # fmt: skip
    return layout


def _domains(panels: int) -> list[list[float]]:
    """Of the step panel first, then of those below it from top to bottom."""
    return {0: [[0, LANE]], 1: [[0.3, LANE], [0, 0.22]], 2: [[0.44, LANE], [0.24, 0.38], [0, 0.18]]}[panels]


def _anchor(panels: Iterable[str]) -> str:
    return f"y{len(list(panels)) + 1}" if panels else "y"
