"""From rows to the pure values that detectors and the diagnosis work on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

from django.conf import settings
from django.db.models import Subquery

from recovery.core.detectors import Limits
from recovery.core.detectors.limit_near import looks_from
from recovery.core.policy import DEFAULT_RULES
from recovery.core.series import typical_step_time, typical_stride
from recovery.core.source_options import Source
from recovery.core.types import (
    ActionKind,
    AttemptFacts,
    CheckpointFact,
    CheckpointState,
    FailureClass,
    FindingKind,
    JobState,
    NodeEvent,
    NodeState,
    PastFailure,
    Phase,
    Sample,
    Signal,
    SignalKind,
)
from recovery.models import Attempt, Checkpoint, Incident, Run
from recovery.models import NodeEvent as NodeEventRow
from recovery.models import Sample as SampleRow
from recovery.models import Signal as SignalRow
from recovery.pipeline.measure_gpus import gpu_facts
from recovery.pipeline.metrics_source import workers_started
from recovery.pipeline.same_run import of_job, of_run
from recovery.pipeline.subject import ended_by_us
from recovery.selectors import current_policy

# What a detector sees of a long attempt: its newest samples, and enough of its first ones for what was normal then.
SAMPLES, FIRST_SAMPLES = 250, 150
SIGNALS = 500  # a job that prints one failure line a millisecond must not fill the memory
NODE_EVENTS = 500
BRIEFLY = timedelta(minutes=2)  # a step that was under way when a node went may still be reported
HISTORY = timedelta(days=7)
SAVES = 20  # of a run's last checkpoints its own rhythm is taken from


def current_rules() -> dict[str, Any]:
    """The rules that hold now, with every field; a fresh installation has none of its own and observes."""
    policy = current_policy()
    rules = policy.rules if policy else {}
    return {**DEFAULT_RULES, **rules, "breaker": {**DEFAULT_RULES["breaker"], **rules.get("breaker", {})}}


def limits() -> Limits:
    return Limits(
        hang_floor_s=settings.HANG_FLOOR_S,
        hang_witnessed_s=settings.HANG_WITNESSED_S,
        first_step_s=settings.HANG_FIRST_STEP_S,
        saving_s=settings.HANG_SAVING_S,
        stale_after_s=settings.STALE_AFTER_S,
    )


def attempt_facts(attempt: Attempt, *, now: datetime) -> AttemptFacts:
    """Everything known of `attempt` at `now`; six queries (one more near its time limit), whatever the
    size of the run."""
    brief = brief_facts(attempt, now=now, samples=newest_samples(attempt))
    return replace(
        with_rhythm(brief, attempt.job.run_id) if near_limit(brief, limits()) else brief,
        requeued_by_slurm=attempt.job.restart_count > attempt.number and not ended_by_us(attempt),
        signals=_signals(attempt),
        node_events=_node_events(attempt, now=now),
        checkpoints=_checkpoints(attempt.job.run),
        gpu=gpu_facts(attempt, now=now),
    )


def brief_facts(attempt: Attempt, *, now: datetime, samples: tuple[Sample, ...] = ()) -> AttemptFacts:
    """What the rows of attempt, job and cluster say, without a query: whether a running attempt has a fault can be told
    from them and its samples."""
    job = attempt.job
    return AttemptFacts(
        now=now,
        seen_at=attempt.seen_at if job.vanished_at else job.cluster.seen_at or attempt.seen_at,
        state=JobState(attempt.state),
        number=attempt.number,
        state_reason=attempt.state_reason,
        exit_code=attempt.exit_code,
        exit_signal=attempt.exit_signal,
        step_exit_codes=tuple(attempt.step_exit_codes),
        nodes=tuple(attempt.nodes),
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        time_limit_s=job.time_limit_s,
        cancelled_by=attempt.cancelled_by,
        owner=attempt.job.user,
        ranks=attempt.parser_memory.get("ranks", {}).get("world"),
        gpus=(attempt.gpus if attempt.gpus is not None else attempt.job.gpus) or None,
        phase=Phase(attempt.phase),
        phase_since=attempt.phase_since,
        blind_reason=attempt.blind_reason,
        last_progress_at=attempt.last_progress_at,
        last_step=attempt.last_step,
        workers_at=workers_started(attempt),
        samples=samples,
        longest_wait_s=attempt.longest_wait_s,
    )


def near_limit(facts: AttemptFacts, limits: Limits) -> bool:
    """Whether the time limit is so near that it matters when the run saves next."""
    near = looks_from(facts, limits)
    return near is not None and facts.now >= near


def with_rhythm(facts: AttemptFacts, run: int) -> AttemptFacts:
    saved_at, every = rhythm(run)
    return replace(facts, saved_at=saved_at, save_every_s=every)


def rhythm(run: int) -> tuple[datetime | None, float | None]:
    """When the run's newest checkpoint was complete, and the seconds between two of them; None where not known."""
    rows = Checkpoint.objects.filter(run=run).exclude(completed_at=None).order_by("-step")
    times = [at for at in rows.values_list("completed_at", flat=True)[:SAVES] if at is not None]
    gaps = [(later - earlier).total_seconds() for later, earlier in pairwise(times) if later > earlier]
    return times[0] if times else None, median(gaps) if gaps else None


def newest_samples(attempt: Attempt) -> tuple[Sample, ...]:
    """Of the lowest rank that reports, by step: the order of the table's key, so that no attempt is ever sorted."""
    rows = SampleRow.objects.filter(attempt=attempt)
    rows = rows.filter(rank=Subquery(rows.order_by("rank").values("rank")[:1]))
    newest = list(rows.order_by("-step", "-at")[:SAMPLES])[::-1]
    first = list(rows.order_by("step", "at")[:FIRST_SAMPLES]) if len(newest) == SAMPLES else []
    seen = {(row.step, row.at) for row in newest}
    both = [row for row in first if (row.step, row.at) not in seen] + newest
    return tuple(
        Sample(
            at=r.at, step=r.step, loss=r.loss, throughput=r.throughput, step_time_s=r.step_time_s, rank=r.rank,
            tokens=r.tokens,
        )
        for r in both
    )  # fmt: skip


def log_interval(attempt: Attempt) -> int | None:
    """How many steps lie between two reports of the attempt; None where fewer than two were read."""
    return typical_stride(newest_samples(attempt))


def step_time(attempt: Attempt) -> float | None:
    """Seconds per step of the attempt; None where that is not known."""
    return typical_step_time(newest_samples(attempt))


def _signals(attempt: Attempt) -> tuple[Signal, ...]:
    """Failures first come first: the cause is among the earliest, and the flood comes after it."""
    every = SignalRow.objects.filter(attempt=attempt)
    rows = list(every[:SIGNALS])
    if len(rows) == SIGNALS:
        rows = list(every.filter(kind=SignalKind.FAILURE)[:SIGNALS])
        rows += list(every.exclude(kind=SignalKind.FAILURE).order_by("-at")[:SIGNALS])
    rows.sort(key=lambda row: (row.at, row.pk))
    return tuple(
        Signal(
            kind=SignalKind(row.kind),
            file=row.file,
            line=row.line,
            offset=row.offset,
            text=row.text,
            rule=row.rule,
            at=row.at,
            step=row.step,
            path=row.path,
            rank=row.rank,
            node=row.node,
        )
        for row in rows
    )


def _node_events(attempt: Attempt, *, now: datetime) -> tuple[NodeEvent, ...]:
    """What happened to the attempt's nodes during its life or shortly after; a node's return to service is no event.

    A node that came back is left out where the training went on after it: it can't be what ended the attempt.
    """
    if attempt.started_at is None or not attempt.nodes:
        return ()
    until = (attempt.ended_at or now) + timedelta(seconds=max(settings.SETTLE_S, 60))
    rows = NodeEventRow.objects.filter(cluster_id=attempt.job.cluster_id, node__in=attempt.nodes)
    rows = rows.filter(at__gte=attempt.started_at, at__lte=until).order_by("at", "pk")
    told = _by_state(rows[:NODE_EVENTS])
    last = {event.node: event for event in told}
    survived = attempt.last_progress_at or attempt.started_at
    return tuple(
        event
        for event in told
        if event.state is not NodeState.UP and (event is last[event.node] or event.at >= survived - BRIEFLY)
    )


def _by_state(rows: Iterable[NodeEventRow]) -> list[NodeEvent]:
    """One event for each state of a node: when it began, with the last words on it, which may come later."""
    told: list[NodeEvent] = []
    present: dict[str, int] = {}  # the place of each node's last event
    for row in rows:
        if row.source:  # a fault of its own kind, and no state
            exact = row.source != Source.PROMETHEUS  # its times are those of two questions
            told.append(NodeEvent(at=row.at, node=row.node, text=row.reason, exact=exact))
            continue
        text = f"{row.raw_state}: {row.reason}" if row.reason else row.raw_state
        event = NodeEvent(at=row.at, node=row.node, state=NodeState(row.new or NodeState.UNKNOWN), text=text)
        place = present.get(row.node)
        if place is not None and told[place].state is event.state:
            told[place] = replace(event, at=told[place].at)
        else:
            present[row.node] = len(told)
            told.append(event)
    return told


def _checkpoints(run: Run) -> tuple[CheckpointFact, ...]:
    newest = Checkpoint.objects.filter(run=run).order_by("-step")[:50]
    facts = [
        CheckpointFact(step=row.step, state=CheckpointState(row.state), path=row.path, detail=row.detail)
        for row in newest
    ]
    return tuple(reversed(facts))


def past_failures(incident: Incident, *, now: datetime) -> list[PastFailure]:
    """Earlier incidents of the same run, oldest first; in a federation those on its other clusters count, too."""
    job = incident.attempt.job
    ours = of_run(job) | of_job(job, "attempt__job")
    earlier = Incident.objects.filter(ours, detected_at__gte=now - HISTORY, pk__lt=incident.pk)
    stops = earlier.filter(kind__in=[kind for kind in FindingKind if kind.is_stop])
    rows = stops.select_related("new_attempt", "run").prefetch_related("actions").order_by("detected_at")
    complete = Checkpoint.objects.filter(of_run(job), state=CheckpointState.COMPLETE)
    completed = complete.exclude(completed_at=None)
    times = [(row.completed_at, row.step) for row in completed.only("completed_at", "step")]
    return [
        PastFailure(
            at=row.failed_at,
            failure_class=FailureClass(row.failure_class or FailureClass.UNKNOWN),
            step=row.failed_step,
            acted=any(action.called_at and ActionKind(action.kind).restarts for action in row.actions.all()),
            rule=str((row.diagnosis.get("first_failure") or {}).get("rule", "")),
            nodes=_suspects(row) if row.run.cluster_id == incident.run.cluster_id else (),  # n1 here is not n1 there
            checkpoint_since=any(
                at is not None and row.failed_at < at <= incident.failed_at and step > (row.expected_step or -1)
                for at, step in times
            ),
            elsewhere=_went_on_elsewhere(row),
            shared=row.outbreak_id is not None,
        )
        for row in rows
    ]


def _went_on_elsewhere(incident: Incident) -> bool:
    """Whether the run was restored, and saved, without the nodes that its verdict names."""
    named = _suspects(incident)
    if not named or incident.checkpoint_at is None or incident.new_attempt is None:
        return False
    return bool(incident.new_attempt.nodes) and not set(named) & set(incident.new_attempt.nodes)


def _suspects(incident: Incident) -> tuple[str, ...]:
    """Nodes that the verdict excluded, and the one on which its first failure was seen."""
    first = str((incident.diagnosis.get("first_failure") or {}).get("node", ""))
    return tuple(dict.fromkeys([*incident.diagnosis.get("nodes", ()), *([first] if first else [])]))


def as_json(value: Any) -> Any:
    """A frozen value of the core as plain JSON: enums by value, times in ISO form, tuples as lists."""
    if hasattr(value, "__dataclass_fields__"):
        return as_json(asdict(value))
    if hasattr(value, "_asdict"):
        return as_json(value._asdict())
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value
