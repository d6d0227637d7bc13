"""Part of measure: faults that kernel logs tell of, as events of the nodes; each line once, whichever way it came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction

from recovery.core.kernel import KernelLine, read_line
from recovery.core.source_options import Source
from recovery.models import Cluster, KernelLog, Node, NodeEvent
from recovery.pipeline.source_read import GoOn, always
from recovery.sources import kernel_log, loki
from recovery.sources.cursor import Cursor

MOST_PER_NODE = 200  # events of one node and source that are kept within an hour: a flood says nothing new
HOUR = timedelta(hours=1)
FIRST = timedelta(minutes=15)  # so far back Loki is asked at first: what is older is old news
OVERLAP = timedelta(seconds=60)  # lines reach Loki late; those that were seen are known by their key
MOST_NODES = 5000


@dataclass(slots=True)
class Read:
    files: int = 0
    events: int = 0
    more: bool = False
    trouble: str = ""
    remedy: str = ""


def from_files(cluster: Cluster, *, now: datetime, go_on: GoOn = always) -> Read:
    """Read on in the cluster's kernel log files and store what they tell of. A file that isn't there is no trouble."""
    pattern, zone = cluster.sources["kernel_log"], _zone(cluster)
    names = list(Node.objects.filter(cluster=cluster).values_list("name", flat=True)[:MOST_NODES])
    wanted = {kernel_log.path_of(pattern, name): name for name in names} if kernel_log.is_per_node(pattern) else {}
    paths = wanted or {pattern: ""}
    known = {row.path: row for row in KernelLog.objects.filter(cluster=cluster)}
    read = Read()
    seen_any = False
    for path, node in paths.items():
        if seen_any and not go_on():
            read.more = True
            break
        row = known.get(path[:1000]) or KernelLog(cluster=cluster, path=path[:1000], node=node[:100])
        seen_any = _follow(row, pattern, zone, set(names), read, now=now) or seen_any
    if not seen_any and not read.trouble:
        read.trouble = f"No kernel log was found at {pattern[:150]}."
        read.remedy = "Correct the source kernel_log, or mount the folder on the worker's machine."
    return read


def _follow(row: KernelLog, pattern: str, zone: ZoneInfo, nodes: set[str], read: Read, *, now: datetime) -> bool:
    """Whether the file is there. The position moves in the transaction that stores its lines."""
    cursor = Cursor(inode=row.inode, offset=row.offset, line=row.line, head=row.head)
    got = kernel_log.read_on(row.path, pattern, cursor)
    if got is None:
        read.files += 1
        return True
    if got.error:
        read.trouble, read.remedy = got.error, got.remedy
    if got.error or got.missing:
        return False
    lines = (read_line(line.text, now=now, zone=zone) for line in got.lines)
    told = [(row.node or line.node, line) for line in lines if line is not None]
    at = got.cursor
    row.inode, row.offset, row.line, row.head, row.error = at.inode, at.offset, at.line, at.head, ""
    with transaction.atomic():
        read.events += store(row.cluster, told, source=Source.KERNEL_LOG, nodes=nodes, now=now)
        row.save()
    read.files += 1
    read.more = read.more or got.more
    return True


def from_loki(cluster: Cluster, *, since: datetime | None, now: datetime) -> tuple[Read, datetime]:
    """Ask Loki for what is newer; what it told, and up to when all is known. Raises Trouble."""
    start = max(since - OVERLAP, now - timedelta(days=1)) if since else now - FIRST
    lines, more = loki.read_lines(cluster.sources, since=start, until=now)
    names, zone = set(Node.objects.filter(cluster=cluster).values_list("name", flat=True)), _zone(cluster)
    told = []
    for line in lines:
        found = read_line(line.text, now=now, zone=zone, at=line.at)
        if found is not None:
            told.append((line.node or found.node, found))
    read = Read(more=more)
    read.events = store(cluster, told, source=Source.LOKI, nodes=names, now=now)
    until = lines[-1].at + OVERLAP if more and lines else now  # asked again from the last line on
    if more and since is not None and until <= since:
        read.trouble = (
            f"More lines came within a second than are read at once: those after {since:%H:%M:%S} UTC are lost."
        )
        read.remedy = "Let loki_query select faults only, as its default does."
        until = now
    return read, min(until, now)


def store(
    cluster: Cluster, told: Iterable[tuple[str, KernelLine]], *, source: Source, nodes: set[str], now: datetime
) -> int:
    """Store what is new, of nodes that the cluster has; how many."""
    mine = {line.key(node): (node, line) for node, line in told if node in nodes}
    if not mine:
        return 0
    known = set(NodeEvent.objects.filter(cluster=cluster, key__in=mine).values_list("key", flat=True))
    lately = NodeEvent.objects.filter(cluster=cluster, source=source, seen_at__gt=now - HOUR)
    kept = Counter(lately.filter(node__in={node for node, _ in mine.values()}).values_list("node", flat=True))
    rows = []
    for key, (node, line) in mine.items():
        if key in known or kept[node] >= MOST_PER_NODE:
            continue
        kept[node] += 1
        rows.append(
            NodeEvent(
                cluster=cluster, node=node, at=line.at, seen_at=now, reason=line.text[:300], source=source, key=key
            )
        )
    NodeEvent.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)
    return len(rows)


def _zone(cluster: Cluster) -> ZoneInfo:
    return ZoneInfo(cluster.sources.get("kernel_log_zone") or settings.LOG_TIME_ZONE)
