"""Facts of invented attempts, built with as few words as a test needs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from recovery.core.detectors import Limits
from recovery.core.logs import LogParser
from recovery.core.types import (
    AttemptFacts,
    CheckpointFact,
    CheckpointState,
    Evidence,
    Finding,
    FindingKind,
    JobState,
    LogLine,
    NodeEvent,
    NodeState,
    PastFailure,
    Phase,
    Role,
    Sample,
    Signal,
    SignalKind,
)

START = datetime(2026, 1, 11, 9, 0, tzinfo=UTC)
LIMITS = Limits(hang_floor_s=300, first_step_s=1800, saving_s=900)
NODES = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")


def at(seconds: float) -> datetime:
    """So many seconds after the attempt's start."""
    return START + timedelta(seconds=seconds)


def samples(count: int, *, every_s: float = 40, first_step: int = 10, stride: int = 10, **fields: Any) -> list[Sample]:
    """Reports at a steady pace, the first one `every_s` after the start."""
    return [
        Sample(at=at(every_s * (i + 1)), step=first_step + stride * i, **{"loss": 2.5, **fields}) for i in range(count)
    ]


def attempt(*, now_s: float = 4000, **fields: Any) -> AttemptFacts:
    """A running attempt on four nodes, seen at `now_s`; samples fill in last step and time of progress."""
    reports = tuple(fields.pop("samples", ()))
    defaults: dict[str, Any] = {
        "now": at(now_s),
        "seen_at": at(now_s),
        "state": JobState.RUNNING,
        "nodes": NODES,
        "started_at": START,
        "phase": Phase.TRAINING if reports else Phase.STARTING,
        "samples": reports,
        "last_progress_at": reports[-1].at if reports else None,
        "last_step": reports[-1].step if reports else None,
    }
    values: dict[str, Any] = {**defaults, **fields}
    lists: dict[str, Any] = {key: tuple(v) for key, v in values.items() if isinstance(v, list)}
    return AttemptFacts(**{**values, **lists})


def ended(state: JobState = JobState.FAILED, **fields: Any) -> AttemptFacts:
    """An attempt that ended at its 1000th second, with exit code 1."""
    return attempt(**{"state": state, "ended_at": at(1000), "now_s": 1030, "exit_code": 1, **fields})


def read(lines: Iterable[str], *, file: str = "job.log", nodes: tuple[str, ...] = NODES) -> tuple[Signal, ...]:
    """The signals of a log, by the product's own parser."""
    parser = LogParser(nodes=nodes)
    found: list[Signal] = []
    for number, text in enumerate(lines, start=1):
        found += parser.feed(LogLine(text=text, file=file, number=number, offset=number * 100))
    return tuple(found)


def mark(kind: SignalKind, line: int, *, file: str = "job.log", **fields: Any) -> Signal:
    """One signal that is no failure."""
    return Signal(kind=kind, file=file, line=line, offset=line * 100, text="", rule="test.mark", **fields)


def crash(facts: AttemptFacts) -> Finding:
    return Finding(
        kind=FindingKind.CRASH,
        since=facts.ended_at or facts.now,
        reason="Slurm says that the job failed.",
        confidence=0.99,
        evidence=(Evidence(text="failed", source="scheduler", role=Role.CONFIRMATION, rule="state.failed"),),
    )


def hang(facts: AttemptFacts) -> Finding:
    return Finding(kind=FindingKind.HANG, since=facts.now, reason="No progress for 10 m.", confidence=0.85)


def event(node: str, text: str, seconds: float = 990, state: NodeState = NodeState.UNKNOWN) -> NodeEvent:
    return NodeEvent(at=at(seconds), node=node, text=text, state=state)


def checkpoints(*complete: int, torn: tuple[int, ...] = ()) -> tuple[CheckpointFact, ...]:
    found = [CheckpointFact(step=s, state=CheckpointState.COMPLETE, path=f"/ckpt/iter_{s:07d}") for s in complete]
    found += [CheckpointFact(step=s, state=CheckpointState.TORN, path=f"/ckpt/iter_{s:07d}") for s in torn]
    return tuple(sorted(found, key=lambda c: c.step))


def past(failure_class: Any, *, step: int | None = 400, hours_ago: float = 1, **fields: Any) -> PastFailure:
    return PastFailure(
        at=at(1000) - timedelta(hours=hours_ago),
        failure_class=failure_class,
        step=step,
        **{"acted": True, **fields},
    )


def traceback(last: str, *, rank: int | None = None) -> list[str]:
    """A Python traceback that ends with `last`."""
    prefix = "" if rank is None else f"[rank{rank}]: "
    return [
        prefix + line for line in ("Traceback (most recent call last):", '  File "train.py", line 12, in step', last)
    ]


def megatron(step: int, seconds: float, *, loss: str | None = "2.5") -> str:
    """One progress line of Megatron."""
    field = f" lm loss: {loss} |" if loss else ""
    return (
        f" [{at(seconds):%Y-%m-%d %H:%M:%S}.000000] iteration {step:8d}/   20000 | consumed samples: {step:12d} |"
        f" elapsed time per iteration (ms): 4000.0 | learning rate: 2.4E-04 | global batch size: 512 |{field}"
        " loss scale: 1.0 | number of skipped iterations: 0 | number of nan iterations: 0 |"
    )
