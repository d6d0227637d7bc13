"""Stage 2, ingest: what an attempt's log and other sources say, stored once.

1. reading.py reads on, and works out what follows from it.
2. Here it is stored, of many attempts in one transaction with a handful of statements: what was read together with how
   far it was read, so that a killed worker neither loses nor doubles a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from math import ceil

from django.db import transaction
from django.db.models import Q

from recovery.core.types import JobState, SignalKind
from recovery.models import Attempt, LogFile, Run
from recovery.models import Sample as SampleRow
from recovery.models import Signal as SignalRow
from recovery.pipeline.blind_spells import note_blindness
from recovery.pipeline.bulk import CHUNK, update_rows
from recovery.pipeline.reading import ALL_RANKS, LAST_WORDS, Look
from recovery.pipeline.samples import store_samples

MOST_FAILURES = 5000  # failure lines of one attempt that are kept
FREE_SAMPLES = 100_000  # of one attempt that are kept however fast they come
SAMPLES_PER_NODE_S = 8  # beyond those, for each node and second of its life: one a GPU
STORED = "samples"  # in Attempt.places: how many are kept
MOST_MARKS = 1000  # saves, loads, … of one kind and attempt that are kept of one look

# The columns that this stage writes; poll writes the others of the same row, at the same time perhaps.
OWN_FIELDS = (
    "phase", "phase_since", "blind_reason", "blind_remedy", "last_progress_at", "first_step", "first_step_at",
    "last_step", "places", "restored_step", "restored_at", "fresh_start", "parser_memory", "read_at", "longest_wait_s",
)  # fmt: skip
QUIET_FIELDS = ("quiet_until", "quiet_of", "pace")  # how long the last judgement holds (judge.py)
POSITION = ("inode", "offset", "line", "head", "grew_at", "error", "mark")


def superseded(attempts: Collection[Attempt]) -> set[int]:
    """Those of which a later attempt writes already: what the file holds from now on is not theirs."""
    return _by_requeue(attempts) | _by_the_next_job(attempts)


def _by_the_next_job(attempts: Collection[Attempt]) -> set[int]:
    """Those that ended, were read after that, and whose run's next job writes into the same file."""
    over = [each for each in attempts if _is_read(each) and each.job.stdout not in ("", "/dev/null")]
    if not over:
        return set()
    since = min(attempt.ended_at for attempt in over if attempt.ended_at)
    jobs = [attempt.job for attempt in over]
    federations = {job.cluster.federation for job in jobs} - {""}
    there = Q(job__run__key__in={job.run.key for job in jobs}, job__cluster__federation__in=federations)
    ours = Q(job__run__in={job.run_id for job in jobs}) | (there if federations else Q())
    later = Attempt.objects.filter(ours, started_at__gte=since, job__stdout__in=_stdouts(over))
    begun: dict[tuple[object, str], datetime] = {}
    for each in later.select_related(*Attempt.related):
        begun[_file_of(each)] = max(each.started_at or since, begun.get(_file_of(each), since))
    newest = {attempt.pk: begun.get(_file_of(attempt)) for attempt in over}
    return {
        attempt.pk for attempt in over if (at := newest[attempt.pk]) and attempt.ended_at and at >= attempt.ended_at
    }


def _file_of(attempt: Attempt) -> tuple[object, str]:
    """The output of the attempt's run: of the same run on all clusters of a federation."""
    job = attempt.job
    federation = job.cluster.federation
    return (federation, job.run.key) if federation else job.run_id, job.stdout


def _stdouts(attempts: Iterable[Attempt]) -> set[str]:
    return {attempt.job.stdout for attempt in attempts}


def _by_requeue(attempts: Iterable[Attempt]) -> set[int]:
    earlier = {attempt.job_id: attempt for attempt in attempts if attempt.job.restart_count > attempt.number}
    if not earlier:
        return set()
    begun, taken = ~Q(started_at=None), Q(state=JobState.REVOKED)  # here; on another cluster of the federation
    later = Attempt.objects.filter(begun | taken, job_id__in=earlier).values_list("job_id", "number", "started_at")
    newest: dict[int, int] = {}
    for job, number, started_at in later:
        if started_at is not None or _is_read(earlier[job]):
            newest[job] = max(number, newest.get(job, number))
    return {attempt.pk for attempt in earlier.values() if newest.get(attempt.job_id, -1) > attempt.number}


def _is_read(attempt: Attempt) -> bool:
    """Whether it ended, and was read after its last words."""
    return bool(attempt.ended_at and attempt.read_at and attempt.read_at > attempt.ended_at + LAST_WORDS)


def positions(keys: Sequence[int]) -> dict[int, dict[str, LogFile]]:
    """How far the logs of these attempts were read, by attempt and path; one query."""
    found: dict[int, dict[str, LogFile]] = {}
    for row in LogFile.objects.filter(attempt_id__in=keys):
        found.setdefault(row.attempt_id, {})[row.path] = row
    return found


def store_looks(looks: Sequence[Look], *, now: datetime) -> None:
    """Store what was read, all of it or nothing. The number of statements does not depend on how many there are."""
    full = [look for look in looks if not look.is_empty]
    if not full:
        return
    with transaction.atomic():
        store_samples([row for look in full for row in _kept(look, list(_sample_rows(look)), now=now)])
        SignalRow.objects.bulk_create(_signal_rows(full, now=now), ignore_conflicts=True, batch_size=CHUNK)
        _store_positions([row for look in full for row in look.changed_rows])
        for look in full:
            for done in look.done:
                done()
            note_blindness(look.attempt, look.was_blind, now)
        _forget_marks([look.attempt for look in full if look.tells_of_saves])
        update_rows([look.attempt for look in full], (*OWN_FIELDS, *QUIET_FIELDS))


def _forget_marks(attempts: Sequence[Attempt]) -> None:
    """Where a save was told, a look into the checkpoint folder is due, also if we are killed before it."""
    runs = [attempt.job.run for attempt in attempts if attempt.job.run.folder_mark]
    for run in runs:
        run.folder_mark = ""
    if runs:
        Run.objects.filter(pk__in={run.pk for run in runs}).update(folder_mark="")


def _store_positions(rows: Sequence[LogFile]) -> None:
    LogFile.objects.bulk_create([row for row in rows if row.pk is None], batch_size=CHUNK)
    update_rows([row for row in rows if row.pk is not None], POSITION)


def _sample_rows(look: Look) -> Iterator[SampleRow]:
    for s in look.signals:
        if s.kind is SignalKind.PROGRESS and s.at is not None:
            yield SampleRow(
                attempt_id=look.attempt.pk, rank=ALL_RANKS if s.rank is None else s.rank, step=s.step or 0, at=s.at,
                loss=s.loss, throughput=s.throughput, step_time_s=s.step_time_s, tokens=s.tokens,
            )  # fmt: skip


def _kept(look: Look, rows: list[SampleRow], *, now: datetime) -> list[SampleRow]:
    """All of them, unless the attempt reports faster than any chart shows: then some of each rank, the newest too.

    One job's loop at full speed, or a log that imitates one, must not fill the tables.
    """
    attempt = look.attempt
    if not rows:
        return rows
    stored = int(attempt.places.get(STORED, 0))
    lived = max(0.0, (now - (attempt.started_at or now)).total_seconds())
    room = max(1, FREE_SAMPLES + int(SAMPLES_PER_NODE_S * max(1, len(attempt.nodes)) * lived) - stored)
    if len(rows) > room:
        rows = _some_of_each_rank(rows, every=ceil(len(rows) / room))[-room:]
    attempt.places[STORED] = stored + len(rows)
    return rows


def _some_of_each_rank(rows: list[SampleRow], *, every: int) -> list[SampleRow]:
    seen: Counter[int] = Counter()
    kept = []
    for row in reversed(rows):
        if seen[row.rank] % every == 0:
            kept.append(row)
        seen[row.rank] += 1
    return kept[::-1]


def _signal_rows(looks: Sequence[Look], *, now: datetime) -> list[SignalRow]:
    rows = [
        SignalRow(
            attempt_id=look.attempt.pk, kind=s.kind, rule=s.rule[:80], at=s.at or now, step=s.step, rank=s.rank,
            node=s.node[:100], file=s.file[:1000], line=s.line, offset=s.offset, path=s.path[:1000], text=s.text[:500],
        )
        for look in looks
        for s in look.signals
        if s.kind is not SignalKind.PROGRESS
    ]  # fmt: skip
    return _without_floods(_newest_marks(rows))


def _newest_marks(rows: list[SignalRow]) -> list[SignalRow]:
    """Of each kind of mark the newest of a look: they say where it stands, and no training saves so often."""
    seen: Counter[tuple[int, str]] = Counter()
    kept = []
    for row in reversed(rows):
        seen[row.attempt_id, row.kind] += 1
        if row.kind == SignalKind.FAILURE or seen[row.attempt_id, row.kind] <= MOST_MARKS:
            kept.append(row)
    return kept[::-1]


def _without_floods(rows: list[SignalRow]) -> list[SignalRow]:
    """One job's flood of failure lines must not fill the tables; the cause is among the first."""
    came = Counter(row.attempt_id for row in rows if row.kind == SignalKind.FAILURE)
    room = {
        key: MOST_FAILURES - SignalRow.objects.filter(attempt_id=key, kind=SignalKind.FAILURE).count() for key in came
    }
    if all(room[key] >= count for key, count in came.items()):
        return rows
    kept = []
    for row in rows:
        if row.kind == SignalKind.FAILURE:
            room[row.attempt_id] -= 1
            if room[row.attempt_id] < 0:
                continue
        kept.append(row)
    return kept
