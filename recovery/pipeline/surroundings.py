"""From rows to what alarms may know beside an attempt itself (recovery.core.detectors.surroundings)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

from django.db.models import Q

from recovery.core.detectors.alarm import AlarmKind
from recovery.core.detectors.straggler import shared_nodes
from recovery.core.detectors.surroundings import End, Surroundings, Waiting
from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.lifecycle import ActionState
from recovery.core.series import typical_stride
from recovery.core.types import (
    AttemptFacts,
    CheckpointState,
    FindingKind,
    JobState,
    Outcome,
    Phase,
    Role,
    Sample,
    SignalKind,
)
from recovery.models import Action, Alarm, Attempt, Checkpoint, Incident, Run
from recovery.models import Sample as SampleRow
from recovery.models import Signal as SignalRow
from recovery.pipeline.eligible import eligible_nodes
from recovery.pipeline.facts import SAVES, newest_samples
from recovery.pipeline.verify_facts import earlier_starts, told_by

ENDS = 4  # of a run's last attempts: enough for a loop, few enough for the database
CAUSES = 20  # failure lines of an attempt among which its first cause is looked for
RHYTHM = 2  # gaps between checkpoints: one alone may be short because the save before it took long
RANKS, REPORTS = 64, 8  # ranks that are compared, and the newest reports of each
LATELY = timedelta(days=1)  # a node that was in a slow job


def surroundings(attempt: Attempt, facts: AttemptFacts, *, now: datetime) -> Surroundings:
    """About a dozen short queries, however long the run is; a job that waits takes fewer."""
    if facts.state is JobState.PENDING:
        return Surroundings(waiting=_waiting(attempt, now=now))
    run = attempt.job.run
    ends = tuple(_ends(run))
    stride = typical_stride(facts.samples or (newest_samples(attempt) if len(ends) > 1 else ()))
    fields: dict[str, Any] = {"ends": ends, "log_interval": stride, **_saves(run)}
    if facts.state is not JobState.RUNNING:
        return Surroundings(**fields)
    ranks, is_slow = tuple(_ranks(attempt)), _is_slow(attempt)
    return Surroundings(
        **fields, gpus=attempt.gpus or attempt.job.gpus, saves_to=run.checkpoint_dir,
        expected_step=_expected_step(attempt), told=tuple(told_by(attempt)), ranks=ranks,
        is_verified=Incident.objects.filter(run=run, new_attempt=attempt).exists(),
        node_of=_node_of(facts), is_slow=is_slow,
        slow_elsewhere=_slow_elsewhere(attempt, now=now) if ranks or is_slow else (),
    )  # fmt: skip


def _saves(run: Run) -> dict[str, Any]:
    """The newest complete checkpoint by time, and the run's own rhythm."""
    rows = Checkpoint.objects.filter(run=run, state__in=(CheckpointState.COMPLETE, CheckpointState.MISSING))
    newest = rows.exclude(completed_at=None).order_by("-completed_at").values_list("completed_at", "step")[:SAVES]
    saves = [(at, step) for at, step in newest if at is not None]
    gaps = [(later - earlier).total_seconds() for (later, _), (earlier, _) in pairwise(saves) if later > earlier]
    if not saves:
        return {}
    every = median(gaps) if len(gaps) >= RHYTHM else None
    return {"saved_at": saves[0][0], "saved_step": saves[0][1], "save_every_s": every}


def _expected_step(attempt: Attempt) -> int | None:
    """Of the newest checkpoint that was complete before the attempt started, and not its own work."""
    if attempt.started_at is None:
        return None
    rows = Checkpoint.objects.filter(run=attempt.job.run_id, completed_at__lt=attempt.started_at)
    rows = rows.filter(state=CheckpointState.COMPLETE).exclude(attempt=attempt)
    return rows.order_by("-step").values_list("step", flat=True).first()


def _ends(run: Run) -> Iterator[End]:
    """The newest ends of the run, oldest first; a first attempt that runs has none."""
    ended = Attempt.objects.filter(job__run=run).exclude(ended_at=None).order_by("-ended_at", "-pk")
    rows = list(ended[: ENDS + 1])[::-1]
    if len(rows) < 2:
        rows = []
    saved = Checkpoint.objects.filter(run=run, state=CheckpointState.COMPLETE).exclude(completed_at=None)
    for before, row in pairwise([None, *rows]):
        if row is None or row.ended_at is None:
            continue
        since = before is not None and saved.filter(completed_at__gt=before.ended_at, completed_at__lte=row.ended_at)
        yield End(
            at=row.ended_at, step=row.last_step, signature=_signature(row), state=JobState(row.state),
            saved_since=bool(since),
        )  # fmt: skip


def _signature(attempt: Attempt) -> str:
    """The rule of its first cause, else what Slurm says of its end."""
    rules = SignalRow.objects.filter(attempt=attempt, kind=SignalKind.FAILURE).values_list("rule", flat=True)
    known = (rule for rule in rules[:CAUSES] if rule in RULES_BY_ID)
    cause = next((rule for rule in known if RULES_BY_ID[rule].role is Role.CAUSE), "")
    return cause or f"{attempt.state}, exit code {attempt.exit_code}, signal {attempt.exit_signal or 0}"


def _ranks(attempt: Attempt) -> Iterator[Sample]:
    """The newest reports of each rank that reports for itself: two short reads of the key for each."""
    rows = SampleRow.objects.filter(attempt=attempt)
    rank = -1
    for _ in range(RANKS):
        following = rows.filter(rank__gt=rank).order_by("rank").values_list("rank", flat=True).first()
        if following is None:
            return
        rank = following
        for row in list(rows.filter(rank=rank).order_by("-step", "-at")[:REPORTS])[::-1]:
            yield Sample(at=row.at, step=row.step, step_time_s=row.step_time_s, rank=row.rank)


def _node_of(facts: AttemptFacts) -> tuple[tuple[int, str], ...]:
    found = {s.rank: s.node for s in facts.signals if s.rank is not None and s.node in facts.nodes}
    return tuple(sorted(found.items()))


def _slow_elsewhere(attempt: Attempt, *, now: datetime) -> tuple[tuple[str, int], ...]:
    """Nodes of this attempt that other runs, which were slow lately, had too."""
    slow = Incident.objects.filter(kind=FindingKind.SLOWDOWN, detected_at__gte=now - LATELY)
    slow = slow.exclude(outcome=Outcome.FALSE_ALARM).exclude(run=attempt.job.run_id)
    nodes: dict[str, frozenset[str]] = {}
    for run, names in slow.values_list("run", "attempt__nodes")[:200]:
        nodes[str(run)] = nodes.get(str(run), frozenset()) | frozenset(names)
    straggling = Alarm.objects.filter(kind=AlarmKind.STRAGGLER, raised_at__gte=now - LATELY)
    for alarm in straggling.exclude(run=attempt.job.run_id)[:200]:
        named = {str(line.get("node", "")) for line in alarm.evidence} - {""}
        nodes[str(alarm.run_id)] = nodes.get(str(alarm.run_id), frozenset()) | named
    own = frozenset(attempt.nodes)
    shared = shared_nodes({"": own, **nodes}, _in_healthy_jobs(attempt) if nodes else frozenset())
    return tuple((node, count - 1) for node, count in shared.items() if node in own)


def _in_healthy_jobs(attempt: Attempt) -> frozenset[str]:
    """Nodes on which a job of another run trains now that was not found slow."""
    slow = Incident.objects.filter(kind=FindingKind.SLOWDOWN).values("attempt")
    rows = Attempt.objects.filter(state=JobState.RUNNING, closed_at=None, job__cluster=attempt.job.cluster_id)
    rows = rows.filter(phase=Phase.TRAINING, blind_reason="").exclude(job__run=attempt.job.run_id)
    healthy = rows.exclude(pk__in=slow).values_list("nodes", flat=True)[:2000]
    return frozenset(node for nodes in healthy for node in nodes)


def _is_slow(attempt: Attempt) -> bool:
    found = Incident.objects.filter(attempt=attempt, kind=FindingKind.SLOWDOWN)
    return found.exclude(outcome__in=(Outcome.FALSE_ALARM, Outcome.RECOVERED)).exists()


def _waiting(attempt: Attempt, *, now: datetime) -> Waiting:
    """`eligible` is asked for where we keep it off nodes: only then can that be what it waits for."""
    job = attempt.job
    ours = _kept_off(attempt)
    room = eligible_nodes(job, now=now) if ours else None
    return Waiting(
        since=job.eligible_at or attempt.submitted_at, needs=max(job.node_count, 1), ours=ours,
        eligible=len(room.nodes) if room is not None and room.nodes is not None else None,
    )  # fmt: skip


def _kept_off(attempt: Attempt) -> tuple[str, ...]:
    """Nodes that the job excludes now, and that an action of ours excluded."""
    excluded = set(attempt.job.excluded_nodes)
    if not excluded:
        return ()
    done = Action.objects.filter(incident__run=attempt.job.run_id, state=ActionState.CONVERGED)
    named = Counter(node for nodes in done.values_list("exclude_nodes", flat=True) for node in nodes)
    return tuple(sorted(excluded & named.keys()))


def longest_start(attempt: Attempt) -> float:
    """Seconds from start to first step, the most of the run's last attempts and of this one before its launcher
    started anew; 0 where none is known."""
    if attempt.started_at is None:
        return 0.0
    known = [start.to_first_step_s for start in earlier_starts(attempt)]
    if attempt.first_step_at is not None:
        known.append((attempt.first_step_at - attempt.started_at).total_seconds())
    return max((seconds for seconds in known if seconds is not None), default=0.0)


def last_written(attempt: Attempt) -> datetime | None:
    """When files of a checkpoint of the run were last seen to change that is not complete and no other attempt's."""
    unfinished = (CheckpointState.ANNOUNCED, CheckpointState.TORN)
    rows = Checkpoint.objects.filter(run=attempt.job.run_id, state__in=unfinished)
    rows = rows.filter(Q(attempt=None) | Q(attempt=attempt)).exclude(changed_at=None)
    return rows.order_by("-changed_at").values_list("changed_at", flat=True).first()


def stalled_with(attempt: Attempt, *, now: datetime) -> int:
    """How many other running jobs of the cluster stopped within two minutes of this one, and stand still longer than
    any of them ever did; 0 where fewer than two did: two may be chance."""
    last = attempt.last_progress_at
    if last is None:
        return 0
    near = Q(last_progress_at__gte=last - TOGETHER, last_progress_at__lte=last + TOGETHER)
    rows = Attempt.objects.filter(near, state=JobState.RUNNING, closed_at=None, blind_reason="", longest_wait_s__gt=0)
    rows = rows.filter(job__cluster=attempt.job.cluster_id).exclude(job__run=attempt.job.run_id)
    others = {
        run
        for run, at, longest in rows.values_list("job__run", "last_progress_at", "longest_wait_s")[:2000]
        if at is not None and (now - at).total_seconds() > max(longest, TOGETHER.total_seconds())
    }
    return len(others) if len(others) >= FEWEST_OTHERS else 0


TOGETHER = timedelta(minutes=2)  # what the design calls one incident of the fabric or the storage
FEWEST_OTHERS = 2
