"""Part of poll: nodes and what happened to them, partitions and reservations, as Slurm says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from recovery.core.types import NodeState
from recovery.models import Cluster, Node, NodeEvent
from recovery.pipeline.bulk import chunks, update_rows
from recovery.pipeline.facts import as_json
from recovery.slurm.base import NodeRecord, Operation, SlurmClient, SlurmError

READ_PARTITIONS_EVERY = timedelta(seconds=60)  # partitions and reservations change when administrators change them
KEEP_EVENTS = timedelta(days=90)

LONGEST_NAME = 100  # of a node's column: Slurm's own are shorter
NODE_FIELDS = ("state", "raw_state", "partitions", "reason", "reason_by", "reason_at", "features", "gpus", "switch")


def store_nodes(cluster: Cluster, records: Sequence[NodeRecord], *, now: datetime) -> None:
    """Bring the nodes to what `records` say; each change of a state, or of the words on one, is an event, too.

    `cluster.seen_at` is still the time of the picture before.
    """
    nodes = Node.objects.filter(cluster=cluster)
    rows = {name: row for name, *row in nodes.values_list("name", *NODE_FIELDS)}  # a node that is the same is no object
    listed = {record.name[:LONGEST_NAME]: record for record in records}  # each once, whatever the answer does
    differing = {name: record for name, record in listed.items() if rows.get(name) != _told(record, rows.get(name))}
    gone = rows.keys() - listed.keys()
    known = {node.name: node for some in chunks([*differing, *gone]) for node in nodes.filter(name__in=some)}
    new: list[Node] = []
    changed: list[Node] = []
    events: list[NodeEvent] = []
    for name, record in differing.items():
        stored = known.get(name)
        node = stored or Node(cluster=cluster, name=name, changed_at=now)
        old, words = node.state, node.reason
        for column, value in zip(NODE_FIELDS, _told(record, rows.get(name)), strict=True):
            setattr(node, column, value)
        if old != node.state:
            node.changed_at = now
        if old != node.state or (node.reason != words and node.state != NodeState.UP):
            events.append(_event(cluster, node, old=old, now=now))
        (new if stored is None else changed).append(node)
    lost = [known[name] for name in gone & known.keys()]
    events += [NodeEvent(cluster=cluster, node=node.name, at=now, seen_at=now, old=node.state) for node in lost]
    Node.objects.bulk_create(new)
    update_rows(changed, [*NODE_FIELDS, "changed_at"])
    for some in chunks([node.pk for node in lost]):
        Node.objects.filter(pk__in=some).delete()
    NodeEvent.objects.bulk_create(_worth_telling(cluster, events))


def _worth_telling(cluster: Cluster, events: Sequence[NodeEvent]) -> list[NodeEvent]:
    """Of nodes not known before only those that are not up; of a whole cluster seen for the first time none."""
    if cluster.seen_at is None:
        return []
    return [event for event in events if event.old or event.new != NodeState.UP]


def _event(cluster: Cluster, node: Node, *, old: str, now: datetime) -> NodeEvent:
    """When it happened is Slurm's word only where that lies between the two pictures: a reason may be older."""
    told = node.reason_at
    at = told if told and cluster.seen_at and cluster.seen_at < told <= now else now
    return NodeEvent(
        cluster=cluster, node=node.name, at=at, seen_at=now, old=old, new=node.state, raw_state=node.raw_state,
        reason=node.reason, by=node.reason_by,
    )  # fmt: skip


def _told(record: NodeRecord, known: Sequence[object] | None) -> list[object]:
    """In the order of NODE_FIELDS, as the columns hold it; where the switch isn't told, that of `known` stays."""
    switch = record.switch[:LONGEST_NAME] if record.switch is not None else known[-1] if known else ""
    return [
        record.state.value, record.raw_state[:100], list(record.partitions), record.reason[:300],
        record.reason_by[:100], record.reason_at, list(record.features), record.gpus, switch,
    ]  # fmt: skip


def with_switches(records: list[NodeRecord], *, client: SlurmClient) -> list[NodeRecord]:
    """The nodes with the switches that Slurm tells elsewhere than in their list. A failure here spoils no picture."""
    if all(record.switch is not None for record in records):
        return records
    try:
        leaves = client.topology() if client.can(Operation.TOPOLOGY) else {}
    except SlurmError:
        return records
    return [
        record if record.switch is not None else replace(record, switch=leaves.get(record.name, ""))
        for record in records
    ]


def forget_old_events(cluster: Cluster, *, now: datetime) -> None:
    NodeEvent.objects.filter(cluster=cluster, seen_at__lt=now - KEEP_EVENTS).delete()


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Partitions and reservations as they are stored; `error` says why they can't be read."""

    partitions: list[dict[str, object]]
    reservations: list[dict[str, object]]
    error: str = ""


def read_layout(cluster: Cluster, *, client: SlurmClient, now: datetime) -> Layout | None:
    """Partitions and reservations where it is time to read them, else None. A failure here spoils no picture."""
    if cluster.partitions_at is not None and now - cluster.partitions_at < READ_PARTITIONS_EVERY:
        return None
    for operation in (Operation.PARTITIONS, Operation.RESERVATIONS):
        if not (can := client.can(operation)):
            return Layout(partitions=[], reservations=[], error=can.reason)
    try:
        partitions, reservations = client.partitions(), client.reservations()
    except SlurmError as error:
        return Layout(partitions=[], reservations=[], error=str(error))
    return Layout(
        partitions=[as_json(partition) for partition in partitions],
        reservations=[as_json(reservation) for reservation in reservations],
    )


def layout_fields(layout: Layout | None, *, now: datetime) -> dict[str, object]:
    """The columns of the cluster that `layout` changes. What was known stays, with its age, where it can't be read."""
    if layout is None:
        return {}
    if layout.error:
        return {"partitions_error": layout.error[:300]}
    return {
        "partitions": layout.partitions, "reservations": layout.reservations, "partitions_at": now,
        "partitions_error": "",
    }  # fmt: skip
