"""Part of measure: readings from Prometheus, given to the attempts on whose nodes they were taken.

An Xid that came up is an event of its node as well, as a kernel's line of it would be, and so evidence of the verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import Avg, Count, Exists, Max, OuterRef, Q

from recovery.core.kernel import KernelLine
from recovery.core.source_options import Source, every_s
from recovery.core.types import GpuFacts, JobState
from recovery.models import Attempt, Cluster, Reading
from recovery.pipeline import kernel_events
from recovery.pipeline.source_read import GoOn, always
from recovery.sources import prometheus
from recovery.sources.prometheus import Measured

LATELY = timedelta(minutes=3)  # the newest round of questions, or two
STEADY = timedelta(minutes=10)  # what waits for all of them does not merely pause
LEAST_ROUNDS, LEAST_SHARE = 3, 2 / 3  # of the rounds that belong into them: with fewer, a pause fits between two
USUAL, EARLIER = timedelta(hours=2), timedelta(minutes=10)  # between the two lies what is usual
MOST_XIDS = 50
OLD_SAMPLES = timedelta(minutes=1)  # between two scrapes Prometheus answers with the sample of the one before


def measure(cluster: Cluster, *, now: datetime, go_on: GoOn = always) -> tuple[int, int]:
    """Ask once for all running attempts; how many readings were stored, of how many attempts. Raises Trouble."""
    measured = Exists(Reading.objects.filter(attempt=OuterRef("pk")))
    running = list(
        Attempt.objects.filter(job__cluster=cluster, state=JobState.RUNNING, closed_at=None)
        .select_related("job")
        .annotate(was_measured=measured)
    )
    nodes = sorted({node for attempt in running for node in attempt.nodes})
    jobs = sorted({attempt.job.job_id for attempt in running})
    if not running:
        return 0, 0
    found = prometheus.measure(cluster.sources, nodes=nodes, jobs=jobs, now=now, go_on=go_on)
    rows = list(_rows(found, running, by_job=cluster.sources.get("prometheus_by") == "job", now=now))
    rows = _without_known_xids(rows)
    told = _as_events([row for row in rows if row.name == "xid" and row.attempt.was_measured])  # type: ignore[attr-defined]
    with transaction.atomic():
        Reading.objects.bulk_create(rows, ignore_conflicts=True, batch_size=1000)
        kernel_events.store(cluster, told, source=Source.PROMETHEUS, nodes=set(nodes), now=now)
    return len(rows), len({row.attempt_id for row in rows})


def _rows(found: Sequence[Measured], running: Sequence[Attempt], *, by_job: bool, now: datetime) -> Iterable[Reading]:
    """A node that several jobs share tells nothing of one of them, unless series name the job."""
    on_node: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in running:
        for node in attempt.nodes:
            on_node[node].append(attempt)
    of_job = {attempt.job.job_id: attempt for attempt in running}
    for value in found:
        here = [of_job[value.job]] if value.job in of_job and by_job else on_node.get(value.node, [])
        if len(here) != 1 or value.node not in here[0].nodes or (value.name == "xid" and value.value == 0):
            continue
        attempt = here[0]
        at = min(value.at, now)
        if value.name == "xid" and not attempt.was_measured:  # type: ignore[attr-defined]  # annotated above
            at = attempt.started_at or at  # the exporter shows a GPU's last Xid for ever: this one may be old
        yield Reading(attempt=attempt, name=value.name, node=value.node[:100], at=at, value=value.value)


def _without_known_xids(rows: list[Reading]) -> list[Reading]:
    """Of Xids only those that differ from the last one that is stored of the same attempt and node."""
    told = {row.attempt_id for row in rows if row.name == "xid"}
    stored = Reading.objects.filter(attempt__in=told, name="xid").order_by("at") if told else ()
    last = {(row.attempt_id, row.node): row.value for row in stored}
    return [row for row in rows if row.name != "xid" or last.get((row.attempt_id, row.node)) != row.value]


def _as_events(xids: Sequence[Reading]) -> list[tuple[str, KernelLine]]:
    """Xids that came up, by node. When, is known to lie between two rounds of questions: the earlier one is told."""
    if not xids:
        return []
    rounds = Reading.objects.filter(attempt__in={row.attempt_id for row in xids}).exclude(name="xid")
    last = {(a, node): at for a, node, at in rounds.order_by().values_list("attempt", "node").annotate(Max("at"))}
    return [
        (row.node, _event(row, last.get((row.attempt_id, row.node), row.attempt.started_at or row.at))) for row in xids
    ]


def _event(xid: Reading, in_vain: datetime) -> KernelLine:
    since = max(in_vain - OLD_SAMPLES, xid.attempt.started_at or in_vain)
    times = f"between {since.astimezone(UTC):%H:%M:%S} and {xid.at.astimezone(UTC):%H:%M:%S} UTC"
    return KernelLine(at=since, node=xid.node, text=f"NVRM: Xid (as DCGM counts): {xid.value:.0f}, {times}.")


def gpu_facts(attempt: Attempt, *, now: datetime) -> GpuFacts | None:
    """What detectors may know of the attempt's GPUs; four queries, and none where the cluster names no Prometheus."""
    if not attempt.job.cluster.sources.get("prometheus_url"):
        return None
    rows = Reading.objects.filter(attempt=attempt, name__in=("utilisation", "power"), at__gte=now - USUAL)
    lately = Q(at__gte=now - LATELY)
    told = rows.aggregate(
        newest=Max("at"),
        nodes=Count("node", filter=lately, distinct=True),
        utilisation=Avg("value", filter=lately & Q(name="utilisation")),
        power_w=Avg("value", filter=lately & Q(name="power")),
    )
    newest = told.pop("newest")
    if newest is None:
        return None
    most = _most(attempt, now=now)
    return GpuFacts(
        at=newest, **told, most_utilisation=most.get("utilisation"), most_power_w=most.get("power"),
        usual_power_w=_usual_power(attempt, now=now), xids=_new_xids(attempt),
    )  # fmt: skip


def _most(attempt: Attempt, *, now: datetime) -> dict[str, float]:
    """The highest of each measure in the last ten minutes, where the readings of every measured node cover them."""
    rounds = STEADY.total_seconds() / every_s(attempt.job.cluster.sources, Source.PROMETHEUS)
    enough = max(LEAST_ROUNDS, LEAST_SHARE * rounds)
    nodes = Reading.objects.filter(attempt=attempt, name__in=("utilisation", "power"), at__gte=now - STEADY)
    told = nodes.order_by().values_list("name", "node").annotate(Count("at"), Max("value"))
    most: dict[str, list[float]] = defaultdict(list)
    scanty = set()
    for name, _, count, value in told:
        most[name].append(value)
        if count < enough:
            scanty.add(name)
    return {name: max(values) for name, values in most.items() if name not in scanty}


def _usual_power(attempt: Attempt, *, now: datetime) -> float | None:
    """The mean of the two hours before it fell silent, as a long hang would soon be what is usual; where nobody
    measured then, of all but the last ten minutes."""
    power = Reading.objects.filter(attempt=attempt, name="power")
    ends = [min(at, now - EARLIER) for at in (attempt.last_progress_at, now) if at is not None]
    for end in dict.fromkeys(ends):
        usual = power.filter(at__gte=end - USUAL, at__lt=end).aggregate(usual=Avg("value"))["usual"]
        if usual is not None:
            return float(usual)
    return None


def _new_xids(attempt: Attempt) -> tuple[tuple[str, int], ...]:
    """Those that came up within the attempt: what its nodes showed before is stored with its start."""
    rows = Reading.objects.filter(attempt=attempt, name="xid", at__gt=attempt.started_at or attempt.submitted_at)
    found = rows.order_by("node", "at").values_list("node", "value")[: 10 * MOST_XIDS]
    return tuple(dict.fromkeys((node, int(value)) for node, value in found))[:MOST_XIDS]
