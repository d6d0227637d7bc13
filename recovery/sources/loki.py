"""Kernel lines from Loki, or from what answers like it: `/loki/api/v1/query_range`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from recovery.sources.http_get import Server, Trouble, ask

DEFAULT_QUERY = '{job=~".+"} |= "NVRM: Xid"'
MOST_LINES = 1000  # in one answer


@dataclass(frozen=True, kw_only=True, slots=True)
class LokiLine:
    at: datetime
    node: str  # as the label says, "" where there is none
    text: str


def read_lines(sources: Mapping[str, str], *, since: datetime, until: datetime) -> tuple[list[LokiLine], bool]:
    """Lines between the two moments, oldest first, and whether there are more. Raises Trouble."""
    params = {
        "query": sources.get("loki_query") or DEFAULT_QUERY,
        "start": _nanoseconds(since),
        "end": _nanoseconds(until),
        "limit": str(MOST_LINES),
        "direction": "forward",
    }
    data = ask(Server.of("loki", sources), "/loki/api/v1/query_range", params=params)
    if not isinstance(data, dict) or data.get("resultType") != "streams" or not isinstance(data.get("result"), list):
        raise Trouble("Loki answers with something else than lines.", "Let loki_query select lines, not a metric.")
    lines = sorted(_lines(data["result"], sources.get("loki_node_label") or "host"), key=lambda line: line.at)
    return lines[:MOST_LINES], len(lines) >= MOST_LINES


def _nanoseconds(at: datetime) -> str:
    return f"{int(at.timestamp() * 1_000_000)}000"


def _lines(streams: list[Any], label: str) -> Iterator[LokiLine]:
    for stream in streams:
        try:
            labels, values = stream["stream"], stream["values"]
            node = str(labels.get(label) or "").partition(".")[0]
            for value in values[: MOST_LINES + 1]:
                at = datetime.fromtimestamp(int(value[0]) / 1e9, UTC)
                yield LokiLine(at=at, node=node, text=str(value[1]))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, OSError):
            continue
