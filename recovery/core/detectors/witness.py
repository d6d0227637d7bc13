"""What else tells of a silence, beside the silence itself: it agrees that the attempt hangs, or shows it at work.

Silence has healthy causes: an evaluation that no line announces, a save on a slow file system, a log that is flushed
late. Where something else agrees, less of it is enough for a hang; where GPUs compute, more is asked for.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from recovery.core.detectors.gpu import busy_gpus, only_wait
from recovery.core.detectors.limits import Spans
from recovery.core.diagnose.catalogue import RULES_BY_ID, Rule, match_event
from recovery.core.speech import duration
from recovery.core.types import AttemptFacts, Evidence, FailureClass, NodeState, Role, SignalKind

BEFORE = timedelta(minutes=2)  # so much later a step may be reported, and be read, that was under way when a node went
# What ends the work of a rank while Slurm still runs the job. Not user errors: an evaluation may print them by the
# hundred and go on. Nor what is said of storage: that comes back.
C = FailureClass
STOPS = frozenset(
    {C.HANG_COLLECTIVE, C.HANG_SILENT, C.NETWORK_FABRIC, C.GPU_HARDWARE, C.NODE_FAULT, C.HOST_OOM}
)  # fmt: skip
# A launcher's word that one of its processes is gone, whatever it died of.
ENDED = frozenset(
    {
        *("srun.task_exit", "srun.killed", "srun.segfault", "srun.aborted", "slurm.task_failure"),
        *("elastic.child_failed", "elastic.segfault", "process.segfault", "process.terminated", "mpi.process_ended"),
    }
)  # fmt: skip


class Witness(NamedTuple):
    """`agrees`: whether it says, too, that the attempt hangs; else it speaks against it. `words`: a clause."""

    agrees: bool
    words: str
    evidence: tuple[Evidence, ...] = ()


class Floor(NamedTuple):
    """No silence shorter than `seconds` is a hang by what is seen now; `least_s` where something else agreed."""

    seconds: float
    least_s: float
    why: str  # a clause; "" where it is the same whatever else is seen
    evidence: tuple[Evidence, ...] = ()


def floor_of(facts: AttemptFacts, spans: Spans, since: datetime, *, gpus_train: bool = True) -> Floor:
    """Which of the spans holds for a silence since then. `gpus_train`: see witness_of."""
    short, alone, at_work = spans
    if facts.stalled_with:
        # time-outs and GPUs that wait are what a storage leaves behind that stands still
        return Floor(alone, alone, "as other jobs stand still since the same minute")
    told = witness_of(facts, since, gpus_train=gpus_train)
    if told is not None and told.agrees:
        why = f"as {told.words} ({duration(alone)} if nothing else told of it)" if short < alone else ""
        return Floor(short, short, why, told.evidence)
    if told is not None and alone < at_work:
        return Floor(at_work, short, f"as {told.words} ({duration(alone)} if they were not)")
    why = f"as nothing else says that it hangs ({duration(short)} if something did)" if short < alone else ""
    return Floor(alone, short, why)


def witness_of(facts: AttemptFacts, since: datetime, *, gpus_train: bool = True) -> Witness | None:
    """What tells most of a silence since then; None where nothing does.

    `gpus_train`: whether they should; at the start and in a pause that the log names they may wait.
    """
    told = _node(facts, since) or _line(facts, since)
    if told is not None:
        return told
    if gpus_train and only_wait(facts):
        return Witness(True, "its GPUs only wait")
    return Witness(False, "its GPUs are at work") if busy_gpus(facts) is not None else None


def _node(facts: AttemptFacts, since: datetime) -> Witness | None:
    for event in facts.node_events:
        found = match_event(event.text)
        if event.at >= since - BEFORE and (event.state is NodeState.DOWN or (found and _stops(found[0][0]))):
            text = event.text or f"Slurm says that {event.node} is {event.state}."
            evidence = Evidence(
                text=text[:500], source="node", role=Role.CONFIRMATION, rule="hang.node", at=event.at, node=event.node
            )
            return Witness(True, f"{event.node} went bad", (evidence,))
    return None


def _line(facts: AttemptFacts, since: datetime) -> Witness | None:
    since = _last_report(facts, since)
    reports = {s.file: s.line for s in facts.signals if s.kind is SignalKind.PROGRESS}
    for signal in facts.signals:
        # one without a time of its own came later where it stands below the last report of its file
        later = signal.line > reports.get(signal.file, 0) if signal.at is None else signal.at >= since
        if signal.kind is not SignalKind.FAILURE or not later:
            continue
        rule = RULES_BY_ID.get(signal.rule)
        if rule is not None and (rule.id in ENDED or _stops(rule)):
            evidence = Evidence(
                text=signal.text, source=signal.file, role=Role.CONFIRMATION, rule=signal.rule, line=signal.line,
                at=signal.at, rank=signal.rank, node=signal.node,
            )  # fmt: skip
            return Witness(True, "its log tells of a fault since", (evidence,))
    return None


def _last_report(facts: AttemptFacts, since: datetime) -> datetime:
    """By the log's own times. Progress counts from when we read it, and a fault that stood below it then is later."""
    if since != facts.last_progress_at or not facts.samples:
        return since
    return min(since, max(facts.samples[-1].at, since - BEFORE))


def _stops(rule: Rule) -> bool:
    return rule.role is not Role.CONFIRMATION and rule.failure_class in STOPS
