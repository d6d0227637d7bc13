"""Invented log lines in the shapes that trainers print, and short ways to feed them."""

from __future__ import annotations

from collections.abc import Iterable

from recovery.core.logs import LogParser
from recovery.core.types import LogLine, Signal, SignalKind


def log_line(text: str, *, number: int = 1, offset: int = 0, file: str = "/logs/job.out") -> LogLine:
    return LogLine(text=text, file=file, number=number, offset=offset)


def numbered(texts: Iterable[str]) -> list[LogLine]:
    return [log_line(text, number=i + 1, offset=i * 1000) for i, text in enumerate(texts)]


def signals_of(*texts: str, parser: LogParser | None = None) -> list[Signal]:
    parser = parser or LogParser()
    return [signal for line in numbered(texts) for signal in parser.feed(line)]


def steps_of(*texts: str, parser: LogParser | None = None) -> list[int | None]:
    """The steps of all progress in `texts`."""
    return [s.step for s in signals_of(*texts, parser=parser) if s.kind is SignalKind.PROGRESS]


def megatron(
    step: int,
    *,
    total: int = 20000,
    stamp: str = "2026-02-03 04:05:06.700000",
    loss: str = " lm loss: 2.610000E+00 |",
    elapsed_ms: float = 4312.7,
    skipped: int = 0,
    nans: int = 0,
) -> str:
    bracket = f" [{stamp}]" if stamp else ""
    return (
        f"{bracket} iteration {step:8d}/{total:8d} | consumed samples: {step * 1024:12d} |"
        f" elapsed time per iteration (ms): {elapsed_ms:.1f} | throughput per GPU (TFLOP/s/GPU): 402.5 |"
        f" learning rate: 2.400000E-04 | global batch size:  1024 |{loss} loss scale: 1.0 | grad norm: 0.412 |"
        f" number of skipped iterations: {skipped:3d} | number of nan iterations: {nans:3d} |"
    )
