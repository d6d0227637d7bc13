"""Reading and parsing a log, against Python just iterating over the same lines in the same run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.timing import timed
from recovery.core.logs import LogParser
from recovery.core.types import LogLine
from recovery.sources.job_logs import Cursor, read_log

STEPS = 10_000
MEGABYTE = 1e6
PROGRESS = (
    " [2026-01-11 09:{minute:02}:{second:02}] iteration {step:8}/  500000 | consumed samples: {samples:12} |"
    " elapsed time per iteration (ms): 5012.3 | throughput per GPU (TFLOP/s/GPU): 412.7 | learning rate: 3.0E-04 |"
    " global batch size:  1024 | lm loss: 2.104512E+00 | loss scale: 1.0 | grad norm: 0.312 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)
CHATTER = "{rank}: INFO:nemo:rank {rank} step {step} allocated 61.2 GiB, reserved 70.4 GiB, cache hit 0.93"


def text() -> str:
    """One progress line of Megatron's, then three of other things, as often as there are steps."""
    lines = []
    for step in range(1, STEPS + 1):
        when = {"minute": step // 60 % 60, "second": step % 60}
        lines.append(PROGRESS.format(step=step, samples=step * 1024, **when))
        lines += [CHATTER.format(rank=rank, step=step) for rank in range(3)]
        if step % 500 == 0:
            lines.append(f"  successfully saved checkpoint from iteration {step:7} to /ckpt/llama-70b [ t 1/8, p 1/4 ]")
    return "\n".join(lines) + "\n"


def run() -> dict[str, float]:
    content = text()
    megabytes = len(content.encode()) / MEGABYTE
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.out"
        path.write_text(content, encoding="utf-8")
        lines = [
            LogLine(text=line, file=str(path), number=number, offset=0)
            for number, line in enumerate(content.splitlines(), start=1)
        ]
        plain = timed(lambda: _iterate(path))
        parsed = timed(lambda: _parse(lines))
        followed = timed(lambda: follow(path))
    return {
        "megabytes": round(megabytes, 1),
        "lines": len(lines),
        "iterate_mb_per_s": round(megabytes / plain.seconds, 1),
        "parse_mb_per_s": round(megabytes / parsed.seconds, 1),
        "read_and_parse_mb_per_s": round(megabytes / followed.seconds, 1),
        "read_and_parse_times_iterate": round(followed.seconds / plain.seconds, 1),
        "spread": round(max(plain.spread, parsed.spread, followed.spread), 2),
    }


def _iterate(path: Path) -> int:
    with path.open(encoding="utf-8") as file:
        return sum(1 for line in file if line.strip())


def _parse(lines: list[LogLine]) -> int:
    parser = LogParser()
    return sum(len(parser.feed(line)) for line in lines)


def follow(path: Path) -> int:
    """As the pipeline does: from the stored place on, in bounded reads."""
    parser, cursor, found = LogParser(), Cursor(), 0
    while True:
        got = read_log(str(path), cursor, roots=[str(path.parent)])
        found += sum(len(parser.feed(line)) for line in got.lines)
        cursor = got.cursor
        if not got.more:
            return found
