"""The ledger's own stage: keeps the ledger of each run up to date, and what its incidents cost.

Level-based like the others: a look compares what is stored of the run with what its ledger was kept from. Where that
is the same, the ledger only grows by its tail, which is added when it is read (recovery/selectors/ledger_reads.py).
Where it differs, the ledger is kept anew, and only the entries and days that differ are written, in one transaction.
So a look may be repeated, doubled or killed anywhere, and a ledger written from nothing is the same.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from operator import attrgetter

from django.db import transaction

from recovery.core.ledger import Ledger, incident_accounts, keep_ledger
from recovery.core.ledger.incidents import GAPS, IncidentAccount
from recovery.core.ledger.slices import Since, Slice, holding, slices_of
from recovery.core.ledger.spans import to_datetime, to_us
from recovery.core.lifecycle import IncidentState
from recovery.models import (
    Attempt,
    Incident,
    IncidentCost,
    LedgerDay,
    LedgerEntry,
    Recommendation,
    Run,
    RunLedger,
)
from recovery.pipeline.bulk import CHUNK, chunks
from recovery.pipeline.leasing import Clock, failed
from recovery.pipeline.ledger_facts import RunFacts, Told, facts_of, history_of, traces_of
from recovery.pipeline.ledger_glance import Glimpse, glimpse

log = logging.getLogger(__name__)

EVERY = timedelta(minutes=1)  # a ledger that can still change is looked at
SETTLING = timedelta(minutes=10)  # … and one whose run is over, until nothing late can come any more
AT_WORK_EVERY = timedelta(minutes=5)  # saves alone change a ledger no more often: what they prove can wait
AT_ONCE = 500  # runs that have no ledger yet, or slept, that are looked at after one look for what is due

ENTRY_FIELDS = ("start_us", "end_us", "day", "category", "gpus", "job_id", "policy", "before_start")
_entry_row = attrgetter("start", "end", "day", "category", "gpus", "job", "policy", "before_start")
GAP_FIELDS = tuple(f"{name}_us" for name in GAPS)
COST_FIELDS = (
    "run_id", "job_id", "policy", "rule", "fault_at", "interruption", *GAP_FIELDS, "steps_lost", "lost_us",
    "lost_gpu_us", "stalled_us", "stalled_gpu_us", "deciding_us", "deciding_gpu_us", "acting_us", "acting_gpu_us",
    "deciding_run_gpu_us",
)  # fmt: skip


def due(now: datetime) -> list[list[int]]:
    """Runs whose ledger is to be looked at, in batches for one worker each: by its own clock, those that have none yet,
    and those that came to life.

    Four queries; runs that are over and asleep are only told apart from those without a ledger. One whose lease has run
    out is looked at alone, as its holder may have died of it.
    """
    alive = Attempt.objects.filter(closed_at=None, job__run__ledger__next_look_at=None).values_list(
        "job__run", flat=True
    )
    opened = Incident.objects.exclude(state=IncidentState.CLOSED).filter(run__ledger__next_look_at=None)
    known = list(RunLedger.due(now).values_list("pk", "leased_until"))
    found = [
        *(key for key, leased_until in known if leased_until is None),
        *Run.objects.filter(ledger=None).order_by("pk").values_list("pk", flat=True)[:AT_ONCE],
        *alive.order_by().distinct()[:AT_ONCE],
        *opened.order_by().values_list("run", flat=True)[:AT_ONCE],
    ]
    alone = [[key] for key, leased_until in known if leased_until is not None]
    return [*(list(some) for some in chunks(list(dict.fromkeys(found)))), *alone]


def watch_ledgers(keys: Sequence[int], *, clock: Clock) -> None:
    """Look at the ledgers of these runs. Those of which nothing has changed cost a handful of statements together.

    Each of the others is kept by itself; one that fails is pushed forward, and blocks no other.
    """
    now = clock()
    _wake(keys, now)
    held, until = RunLedger.take_leases(keys, now)
    if not held:
        return
    late = now + (until - now) / 2  # what is not begun by then is left to the next look
    seen = glimpse(held, now=now)
    next_look: dict[int, datetime | None] = {}
    for row in RunLedger.objects.filter(pk__in=held):
        told = seen[row.pk]
        if _waits(row, told, now):
            next_look[row.pk] = _next_look(row.tail_category, told, now)
        elif clock() > late:
            next_look[row.pk] = clock()
        else:
            next_look[row.pk] = _look(row, told, clock=clock)
    together: dict[datetime | None, list[int]] = defaultdict(list)
    for key, when in next_look.items():
        together[when].append(key)
    for when, some in together.items():
        RunLedger.give_back_all(some, until, next_look_at=when)


def watch_ledger(run_id: int, *, clock: Clock) -> None:
    """Look at the ledger of one run."""
    watch_ledgers([run_id], clock=clock)


def _wake(keys: Sequence[int], now: datetime) -> None:
    """The first look makes a ledger's row; one that slept is due again."""
    new = Run.objects.filter(pk__in=keys, ledger=None).values_list("pk", flat=True)
    RunLedger.objects.bulk_create([RunLedger(pk=key, next_look_at=now) for key in new], ignore_conflicts=True)
    RunLedger.objects.filter(pk__in=keys, next_look_at=None).update(next_look_at=now)


def _waits(row: RunLedger, told: Glimpse, now: datetime) -> bool:
    """Whether the ledger is as it would be kept now, but for the work of the last minutes."""
    if row.facts_key == told.key:
        return True
    kept = to_datetime(row.kept_us)
    return row.facts_key.startswith(told.edges) and timedelta(0) <= now - kept < AT_WORK_EVERY


def _look(row: RunLedger, told: Glimpse, *, clock: Clock) -> datetime | None:
    now = clock()
    try:
        ledger = _keep(row.pk, told, now=now)
    except Exception as error:
        log.exception("Looking at the ledger of run %s failed", row.pk)
        return failed(row, error, now=clock())
    return _next_look(ledger.tail.category if ledger.tail else "", told, now)


def _next_look(tail: str, told: Glimpse, now: datetime) -> datetime | None:
    over = not tail
    if over and told.settled:
        return None
    return now + (SETTLING if over else EVERY)


def keep_run(run_id: int, *, now: datetime) -> Ledger:
    """Keep one run's ledger up to `now`, whatever has changed, and store it."""
    RunLedger.objects.get_or_create(pk=run_id)
    return _keep(run_id, glimpse([run_id], now=now)[run_id], now=now)


def forget_run(run_id: int) -> None:
    """Take back all that was kept of a run. The next look keeps it anew; what was sealed in its traces stays."""
    with transaction.atomic():
        LedgerEntry.objects.filter(run=run_id).delete()
        LedgerDay.objects.filter(run=run_id).delete()
        IncidentCost.objects.filter(run=run_id).delete()
        RunLedger.objects.filter(pk=run_id).delete()


# --- keeping ---------------------------------------------------------------------------------------------------------
def _keep(run_id: int, told: Glimpse, *, now: datetime) -> Ledger:
    """`told` was seen before anything is read here: what changes in between shows at the next look."""
    facts = facts_of(run_id)
    traces = traces_of(facts, now=now)
    history = history_of(facts, traces)
    ledger = keep_ledger(history, now=now)
    accounts = incident_accounts(history, ledger)
    jobs = sorted({(to_us(a.job.first_submitted_at), a.job_id) for a in facts.attempts})
    slices = slices_of(ledger, jobs=jobs, policies=facts.policies) if jobs else []
    with transaction.atomic():
        row = RunLedger.objects.select_for_update().get(pk=run_id)
        if row.kept_us > to_us(now):
            return ledger  # somebody was faster, and knew more
        _store_traces(traces)
        _store_slices(run_id, slices)
        _store_costs(run_id, facts, accounts)
        _store_row(row, told.key, facts.policies, ledger, jobs, now=now)
    return ledger


def _store_traces(traces: Iterable[Told]) -> None:
    for told in traces:
        if told.changed:
            new = told.trace._state.adding
            told.trace.save(force_insert=new, force_update=not new)


def _store_row(
    row: RunLedger, key: str, policies: Sequence[Since], ledger: Ledger, jobs: Sequence[Since], *, now: datetime
) -> None:
    tail, moment = ledger.tail, to_us(now)
    row.kept_us = moment
    row.first_start_us = to_us(ledger.first_start) if ledger.first_start else None
    row.facts_key, row.changed_at = key, now
    row.tail_category = tail.category if tail else ""
    row.tail_gpus = tail.gpus if tail else 0
    row.tail_job_id = holding(jobs, moment, before=jobs[0][1]) if tail and jobs else None
    row.tail_policy = holding(policies, moment, before=0)
    row.save(
        update_fields=["kept_us", "first_start_us", "facts_key", "changed_at", "tail_category", "tail_gpus",
                       "tail_job", "tail_policy"]
    )  # fmt: skip


def _store_slices(run_id: int, slices: Sequence[Slice]) -> None:
    """Write the entries that differ, and the sums of the days that they lie in."""
    stored = set(LedgerEntry.objects.filter(run=run_id).values_list(*ENTRY_FIELDS).order_by())
    wanted = set(map(_entry_row, slices))
    gone, new = stored - wanted, wanted - stored
    for some in chunks(sorted(row[0] for row in gone)):
        LedgerEntry.objects.filter(run=run_id, start_us__in=some).delete()
    LedgerEntry.objects.bulk_create(
        [LedgerEntry(run_id=run_id, **dict(zip(ENTRY_FIELDS, row, strict=True))) for row in sorted(new)],
        batch_size=CHUNK,
    )
    _store_days(run_id, {row[2] for row in (*gone, *new)}, slices, stored={row[2] for row in stored})


def _store_days(run_id: int, days: set[date], slices: Iterable[Slice], *, stored: set[date]) -> None:
    sums: dict[tuple[date, int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for each in slices:
        if each.day not in days:
            continue
        total, length = sums[each.day, each.job, each.policy], each.end - each.start
        total[f"{each.category}_us"] += length
        total[f"{each.category}_gpu_us"] += length * each.gpus
        total["before_start_us"] += length if each.before_start else 0
    for some in chunks(sorted(days & stored)):
        LedgerDay.objects.filter(run=run_id, day__in=some).delete()
    LedgerDay.objects.bulk_create(
        [
            LedgerDay(run_id=run_id, day=day, job_id=job, policy=policy, **total)
            for (day, job, policy), total in sums.items()
        ],
        batch_size=CHUNK,
    )


def _store_costs(run_id: int, facts: RunFacts, accounts: Sequence[IncidentAccount]) -> None:
    """Write what differs of what the incidents cost, each with the rule that judged it last."""
    if not accounts:
        return
    incidents = {incident.pk: incident for incident in facts.incidents}
    judged = Recommendation.objects.filter(incident__run=run_id).order_by("created_at", "pk")
    rules = {
        incident: (number or 0, rule)
        for incident, number, rule in judged.values_list("incident", "policy__number", "rule")
    }
    jobs = {attempt.pk: attempt.job_id for attempt in facts.attempts}
    stored = {row[0]: row[1:] for row in IncidentCost.objects.filter(run=run_id).values_list("pk", *COST_FIELDS)}
    rows = []
    for account in accounts:
        incident = incidents[account.incident]
        values = _cost_row(run_id, jobs[incident.attempt_id], rules.get(incident.pk, (0, "")), account)
        if stored.get(incident.pk) != values:
            rows.append(IncidentCost(pk=incident.pk, **dict(zip(COST_FIELDS, values, strict=True))))
    IncidentCost.objects.bulk_create(
        rows, batch_size=CHUNK, update_conflicts=True, unique_fields=["incident"],
        update_fields=[name.removesuffix("_id") if name in ("run_id", "job_id") else name for name in COST_FIELDS],
    )  # fmt: skip


def _cost_row(run_id: int, job: int, judged: tuple[int, str], account: IncidentAccount) -> tuple[object, ...]:
    """In the order of COST_FIELDS."""
    costs = (account.lost, account.stalled, account.deciding, account.acting)
    return (
        run_id, job, *judged, account.fault_at, account.interruption,
        *(getattr(account.gaps, name) for name in GAPS), account.steps_lost,
        *(value for cost in costs for value in (cost.time_us, cost.gpu_us)), account.deciding_run_gpu_us,
    )  # fmt: skip
