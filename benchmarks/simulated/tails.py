"""Ends of logs with a known cause, put together by chance: does the diagnosis restart or exclude wrongly?

Each has noise before it, what follows from the cause on other ranks after it, and sometimes a failure that is only
quoted. The lines are in the shapes that facts and catalogue know; the corpus (tests/corpus) has whole logs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from recovery.core.diagnose import diagnose
from recovery.core.logs import LogParser
from recovery.core.types import (
    AttemptFacts,
    Diagnosis,
    Evidence,
    Exclude,
    Finding,
    FindingKind,
    JobState,
    LogLine,
    NodeEvent,
    NodeState,
    Restart,
    Role,
    Signal,
)

START = datetime(2026, 1, 11, tzinfo=UTC)
NODES = tuple(f"gpu-{number:02}" for number in range(1, 9))
NEVER = frozenset({Restart.NO, Restart.AFTER_CHANGE})


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """One way to end. `bad`: the node that is at fault, where one is; `restartable`: whether a restart would help."""

    name: str
    lines: tuple[str, ...]
    restartable: bool
    bad: str = ""
    state: JobState = JobState.FAILED
    event: str = ""  # what the kernel or Slurm said of the bad node
    cancelled_by: str = ""


def score(seed: int, count: int) -> dict[str, Any]:
    """Diagnose `count` ends; what was wrong, named."""
    wrong: dict[str, list[str]] = {"wrongful_restarts": [], "wrongful_exclusions": []}
    verdicts: Counter[str] = Counter()
    for number in range(count):
        random = Random(f"{seed}-{number}")  # noqa: S311 - chance, no secret
        end = random.choice(ENDS)(random)
        found = diagnosed(end, random)
        verdicts[found.restart.value] += 1
        if found.restart is Restart.YES and not end.restartable:
            wrong["wrongful_restarts"].append(f"{end.name} {number}")
        if found.exclude is Exclude.NODES and set(found.nodes) - {end.bad}:
            wrong["wrongful_exclusions"].append(f"{end.name} {number}: {', '.join(found.nodes)}")
    return {"ends": count, **wrong, "restart": dict(sorted(verdicts.items()))}


def diagnosed(end: End, random: Random) -> Diagnosis:
    """The verdict on one end."""
    ended = START + timedelta(seconds=5000)
    event = NodeEvent(
        at=ended - timedelta(seconds=30), node=end.bad, text=end.event,
        state=NodeState.DOWN if end.state is JobState.NODE_FAIL else NodeState.UNKNOWN,
    )  # fmt: skip
    facts = AttemptFacts(
        now=ended + timedelta(seconds=30), seen_at=ended + timedelta(seconds=30), state=end.state, nodes=NODES,
        exit_code=1 if end.state is JobState.FAILED else 0, started_at=START, ended_at=ended, last_step=1200,
        last_progress_at=ended - timedelta(seconds=60), signals=_read([*_noise(random), *end.lines]),
        node_events=(event,) if end.event else (), cancelled_by=end.cancelled_by,
    )  # fmt: skip
    reason = f"Slurm says that the job ended as {end.state}."
    line = Evidence(text=reason, source="scheduler", role=Role.CONFIRMATION, rule=f"state.{end.state}")
    finding = Finding(kind=FindingKind.CRASH, since=ended, reason=reason, confidence=0.99, evidence=(line,))
    return diagnose(facts, finding, [])


def _read(lines: list[str]) -> tuple[Signal, ...]:
    parser, found = LogParser(nodes=NODES), []
    for number, text in enumerate(lines, start=1):
        found += parser.feed(LogLine(text=text, file="job.log", number=number, offset=number * 100))
    return tuple(found)


def _noise(random: Random) -> list[str]:
    """Healthy reports, warnings that every log has, and failures that are only quoted."""
    lines = []
    for step in range(1000, 1000 + 10 * random.randrange(5, 30), 10):
        lines.append(f"step {step} | loss {2 + random.random():.3f} | step_time {random.uniform(1, 2):.2f}")
        if random.random() < 0.1:
            lines.append(random.choice(HARMLESS))
    return lines


HARMLESS = (
    "UserWarning: The given NumPy array is not writable",
    "[W socket.cpp:663] The client socket has failed to connect to [localhost]:29500, will retry",
    "docs: if you see 'CUDA out of memory' lower the batch size",
    "NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC",
    "retrying upload after HTTP 503",
    "sample text: RuntimeError: this is what the user typed",
)


def _rank(random: Random) -> int:
    return random.randrange(64)


def _victims(random: Random, but: int) -> list[str]:
    """Ranks that report the time-out that follows."""
    ranks = random.sample([rank for rank in range(64) if rank != but], random.randrange(0, 6))
    return [
        f"[rank{rank}]:[E111 01:23:20.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) "
        f"ran for 600012 milliseconds before timing out."
        for rank in ranks
    ]


def _traceback(random: Random, last: str) -> tuple[str, ...]:
    rank = _rank(random)
    head = (f"[rank{rank}]: Traceback (most recent call last):", f'[rank{rank}]:   File "train.py", line 88, in step')
    return (*head, f"[rank{rank}]: {last}", *_victims(random, rank))


def _user_code(random: Random) -> End:
    last = random.choice(
        ("KeyError: 'tokens'", "TypeError: forward() got an unexpected keyword argument 'mask'", "AssertionError")
    )
    return End(name="user code", lines=_traceback(random, last), restartable=False)


def _gpu_oom(random: Random) -> End:
    last = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has 80 GiB"
    return End(name="GPU out of memory", lines=_traceback(random, last), restartable=False)


def _nan(random: Random) -> End:
    last = "RuntimeError: Minimum loss scale reached (0.0001). Your loss is probably exploding."
    return End(name="numerics", lines=_traceback(random, last), restartable=False)


def _full(random: Random) -> End:
    return End(
        name="storage full", lines=_traceback(random, "OSError: [Errno 28] No space left on device"), restartable=False
    )


def _torn(random: Random) -> End:
    last = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
    return End(name="torn checkpoint", lines=_traceback(random, last), restartable=False)


def _lost_gpu(random: Random) -> End:
    bad = random.choice(NODES)
    text = "NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, name=python, GPU has fallen off the bus."
    lines = _traceback(random, "RuntimeError: CUDA error: unspecified launch failure")
    return End(name="lost GPU", lines=lines, restartable=True, bad=bad, event=text)


def _node_fail(random: Random) -> End:
    bad = random.choice(NODES)
    lines = (
        f"slurmstepd: error: *** JOB 4711 ON {NODES[0]} CANCELLED AT 2026-01-11T01:23:20 DUE TO NODE FAILURE, SEE "
        "SLURMCTLD LOG FOR DETAILS ***",
        f"srun: error: Node failure on {bad}",
        *_victims(random, -1),
    )
    return End(
        name="node failure", lines=lines, restartable=True, bad=bad, state=JobState.NODE_FAIL, event="Not responding"
    )


def _victims_only(random: Random) -> End:
    """Nobody says what was first: a restart is worth a try, no node may be blamed."""
    return End(name="collective time-out", lines=tuple(_victims(random, _rank(random))), restartable=True)


def _cancelled(random: Random) -> End:
    lines = (f"slurmstepd: error: *** JOB 4711 ON {NODES[0]} CANCELLED AT 2026-01-11T01:23:20 ***",)
    return End(name="cancelled", lines=lines, restartable=False, state=JobState.CANCELLED, cancelled_by="ada")


def _host_oom(random: Random) -> End:
    lines = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.",
        f"srun: error: {random.choice(NODES)}: task {_rank(random)}: Out Of Memory",
        *_victims(random, -1),
    )
    return End(name="host out of memory", lines=lines, restartable=False, state=JobState.OUT_OF_MEMORY)


ENDS: tuple[Callable[[Random], End], ...] = (
    _user_code, _gpu_oom, _nan, _full, _torn, _lost_gpu, _node_fail, _victims_only, _cancelled, _host_oom,
)  # fmt: skip
