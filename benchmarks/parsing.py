"""Reading and parsing logs, against Python just iterating over the same lines in the same run.

The same chatter with several shares of progress lines, one log of nothing but progress, and a backlog of 2 GB with the
memory that it takes. Rates are per second of one core's time. Each round reads a log that was never read before, as
following does; another of its kind was, as by a worker that has been running for a while.

What share is common follows from how often trainers report: not more than once in a second, with steps of 5 s and a
report at each of them every 5 s. Logs that are large enough for their reading to matter are large by what stands
between. With lines of 150 bytes and a report each second, 1 % progress is a log of 1.3 GB a day; 6 % is one of 200 MB a
day, or of 40 MB where steps take 5 s, and 10 % less: those are read in a second or two, a day of them. So 1 % is the
common log here, and the others stand beside it.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.timing import ROUNDS, Work, side_by_side
from recovery.core.logs import LogParser
from recovery.sources.cursor import Cursor
from recovery.sources.job_logs import read_log

LINES = 60_000
STEPS = 10_000  # of the log for other benchmarks
SHARES = {"chatter_only": 0.0, "common": 0.01, "six_percent_progress": 0.06, "ten_percent_progress": 0.1}
MEGABYTE = 1e6
BACKLOG = 2_000_000_000  # bytes
SAVE_EVERY = 200

_PROGRESS = (
    " [2026-01-11 09:{minute:02}:{second:02}.{micro:06}] iteration {step:8}/  500000 | consumed samples: {samples:12} |"
    " elapsed time per iteration (ms): {ms}.3 | throughput per GPU (TFLOP/s/GPU): 412.7 | learning rate: 3.0E-04 |"
    " global batch size:  1024 | lm loss: 2.1{micro:06}E+00 | loss scale: 1.0 | grad norm: 0.312 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)
_SAVED = "  successfully saved checkpoint from iteration {step:7} to /ckpt/llama-70b [ t 1/8, p 1/4 ]"
_WORDS = (  # noqa: SIM905 - as a text it can be read
    "the of a to and in is river moon seven quick brown mountain market letter window garden winter answer people "
    "little morning water paper story music yellow travel number evening table picture friend silver bridge"
).split()
_BUSES = ("1b000", "43000", "52000", "9d000", "a8000", "c3000", "d1000", "df000")  # of a node's eight GPUs
Line = Callable[[Callable[[int], int]], str]


def _prose(n: Callable[[int], int]) -> str:
    return f"sample {n(10_000)}: " + " ".join(_WORDS[n(len(_WORDS))] for _ in range(10 + n(14)))


def _bar(n: Callable[[int], int]) -> str:
    states = range(1 + n(40))
    bar = "Loading dataset shards: {0:3}%|{1:10}| {0}/100 [00:{0:02}<00:{2:02}, {3}.{4:02}it/s]"
    return "\r".join(bar.format(i, "█" * (i // 10), 60 - i, n(30), n(100)) for i in states)


def _channel(n: Callable[[int], int]) -> str:
    node = f"gpu-{n(100):02}:{10_000 + n(90_000)}:{10_000 + n(90_000)} [{n(8)}]"
    return f"{node} NCCL INFO Channel {n(32):02}/0 : {n(512)}[{n(8)}] -> {n(512)}[{n(8)}] via P2P/CUMEM/read"


def _communicator(n: Callable[[int], int]) -> str:
    node = f"gpu-{n(100):02}:{10_000 + n(90_000)}:{10_000 + n(90_000)} [{n(8)}]"
    place = f"rank {n(512)} nranks 512 cudaDev {n(8)} busId {_BUSES[n(8)]}"
    return f"{node} NCCL INFO comm 0x{n(2**46):x} {place} - Init START"


def _worker(n: Callable[[int], int]) -> str:
    when = f"2026-01-11 09:{n(60):02}:{n(60):02},{n(1000):03}"
    what = f"fetched shard-{n(10**6):06}.tar from /data/pile/train in 0.{n(1000):03} s (queue {n(64)})"
    return f"[rank{n(512)}]: {when} INFO data.loader: worker {n(16)} {what}"


def _memory(n: Callable[[int], int]) -> str:
    sizes = f"allocated {n(70)}.{n(100):02} GiB, reserved {n(80)}.{n(100):02} GiB, max {n(80)}.{n(100):02} GiB"
    return f"{n(512)}: [before microbatch {n(64)}] {sizes}"


def _gauges(n: Callable[[int], int]) -> str:
    gauges = f'"util": {n(100)}, "temp_c": {n(90)}, "power_w": {n(700)}.{n(10)}'
    return f'{{"ts": 17680{n(10**5):05}.{n(10**6):06}, "level": "INFO", "host": "gpu-{n(100):02}", {gauges}}}'


CHATTER: tuple[tuple[int, Line], ...] = (  # how often, and what
    (290, _channel),
    (5, _communicator),
    (180, _worker),
    (120, _memory),
    (
        80,
        lambda n: (
            f"    forward-backward ...............................: ({n(5000)}.{n(100):02}, {n(5000)}.{n(100):02})"
        ),
    ),
    (80, _gauges),
    (
        60,
        lambda n: (
            "/usr/lib/python3/torch/utils/checkpoint.py:464: FutureWarning: `torch.cpu.amp.autocast` is deprecated."
        ),
    ),
    (60, lambda n: "  with device_autocast_ctx, torch.cpu.amp.autocast(**ctx.cpu_autocast_kwargs):"),
    (40, _prose),
    (20, _bar),
)


def common_log(*, progress_share: float = SHARES["common"], lines: int = 0, seed: int = 1) -> str:
    """Chatter of ten kinds, among it the progress lines of Megatron's and what it says of its checkpoints.

    `lines`: LINES where it is 0.
    """
    chance = random.Random(seed)  # noqa: S311 - the same log in every run
    kinds = chance.choices([kind for _, kind in CHATTER], [share for share, _ in CHATTER], k=lines or LINES)
    made: list[str] = []
    step = 0
    for kind in kinds:
        if chance.random() >= progress_share:
            made.append(kind(chance.randrange))
            continue
        step += 1
        made += _reports(step, chance)
    return "\n".join(made) + "\n"


def _reports(step: int, chance: random.Random) -> list[str]:
    """The progress line of a step, and what is said of a checkpoint after it."""
    when = {"minute": step // 60 % 60, "second": step % 60, "micro": chance.randrange(10**6)}
    line = _PROGRESS.format(step=step, samples=step * 1024, ms=4000 + chance.randrange(1000), **when)
    return [line] if step % SAVE_EVERY else [line, _SAVED.format(step=step)]


def text() -> str:
    """A log of STEPS steps, each with three other lines behind it."""
    chance = random.Random(1)  # noqa: S311 - the same log in every run
    made: list[str] = []
    for step in range(1, STEPS + 1):
        made += _reports(step, chance) + [_worker(chance.randrange) for _ in range(3)]
    return "\n".join(made) + "\n"


def run() -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        return {
            **{name: _measure(Path(folder), share, LINES) for name, share in SHARES.items()},
            "progress_only": _measure(Path(folder), 1.0, LINES // 6),
            "backlog": _backlog(Path(folder) / "backlog.out"),
        }


def _measure(folder: Path, progress_share: float, lines: int) -> dict[str, float]:
    known, *logs = [folder / f"{seed}.out" for seed in range(1 + ROUNDS)]
    for seed, path in enumerate((known, *logs)):
        path.write_text(common_log(progress_share=progress_share, lines=lines, seed=seed), encoding="utf-8")
    follow(known)
    to_iterate, to_follow = iter(logs), iter(logs)
    works = {"iterate": Work(lambda: _iterate(next(to_iterate))), "follow": Work(lambda: follow(next(to_follow)))}
    timings = side_by_side(works, clock=time.process_time)
    iterate, followed = timings["iterate"], timings["follow"]
    megabytes = statistics.fmean(path.stat().st_size for path in logs) / MEGABYTE
    return {
        "megabytes": round(megabytes, 1),
        "lines": lines,
        "iterate_mb_per_s": round(megabytes / iterate.seconds, 1),
        "read_and_parse_mb_per_s": round(megabytes / followed.seconds, 1),
        "read_and_parse_us_per_line": round(followed.seconds * 1e6 / lines, 2),
        "share_of_iterating": round(iterate.seconds / followed.seconds, 2),
        "spread": round(max(iterate.spread, followed.spread), 2),
    }


def _backlog(path: Path) -> dict[str, float]:
    """Following a log of 2 GB from its start, in a process of its own: how long, and how much memory it takes."""
    piece = common_log(progress_share=0.001).encode()
    with path.open("wb") as file:
        for _ in range(1 + BACKLOG // len(piece)):
            file.write(piece)
    told = subprocess.run([sys.executable, "-m", __name__, str(path)], capture_output=True, check=True)
    path.unlink()
    return dict(json.loads(told.stdout))


def _follow_alone(path: Path) -> dict[str, float]:
    before = _most_memory_kb()
    began = time.process_time()
    follow(path)
    seconds = time.process_time() - began
    taken = _most_memory_kb() - before
    megabytes = path.stat().st_size / MEGABYTE
    return {
        "megabytes": round(megabytes),
        "seconds": round(seconds, 1),
        "mb_per_s": round(megabytes / seconds, 1),
        "memory_taken_mb": round(taken / 1024, 1),
    }


def _most_memory_kb() -> int:
    """The most that this process ever held (Linux); getrusage tells its parent's as well."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def _iterate(path: Path) -> int:
    with path.open(encoding="utf-8", newline="\n") as file:
        return sum(1 for line in file if line.strip())


def follow(path: Path) -> int:
    """As the pipeline does: from the stored place on, in bounded reads."""
    parser, cursor, found = LogParser(), Cursor(), 0
    while True:
        got = read_log(str(path), cursor, roots=[str(path.parent)], most_lines=None)
        found += len(parser.feed_bytes(got.read))
        cursor = replace(got.cursor, line=parser.line)
        if not got.more:
            return found


if __name__ == "__main__":
    print(json.dumps(_follow_alone(Path(sys.argv[1]))))
