"""Small logs in the shape of each trainer, written for this project, with what is to be read in them.

`<format>/<case>.log` stands beside `<case>.toml`: a title, and `signals`, one text per signal in the order in which
they come: line, kind, rule, then what it carries. Failures are left out; `tests/corpus` is about those. The folder
`none` holds logs that must give nothing at all.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from recovery.core.types import LogLine, Signal, SignalKind

FOLDER = Path(__file__).parent
CASES = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("*/*.log"))


def lines_of(case: str) -> list[LogLine]:
    """The lines as the log reader gives them: a carriage return doesn't end one."""
    texts = (FOLDER / f"{case}.log").read_bytes().decode().split("\n")
    return [LogLine(text=text, file=case, number=i + 1, offset=i) for i, text in enumerate(texts) if text]


def expected_of(case: str) -> list[str]:
    table = tomllib.loads((FOLDER / f"{case}.toml").read_text(encoding="utf-8"))
    assert table["title"]
    return list(table["signals"])


def written(signals: list[Signal]) -> list[str]:
    """Signals as the corpus writes them."""
    return [_written(signal) for signal in signals if signal.kind is not SignalKind.FAILURE]


def _written(signal: Signal) -> str:
    names = ("step", "loss", "throughput", "step_time_s", "tokens", "path", "rank")
    values = {name: getattr(signal, name) for name in names}
    shown = [f"{name}={_short(value)}" for name, value in values.items() if value not in (None, "")]
    return " ".join([str(signal.line), signal.kind.value, signal.rule, *shown])


def _short(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
