"""Nodes that die, are noticed, come back, and are drained."""

from __future__ import annotations

from recovery.slurm.simulator import ending
from recovery.slurm.simulator.lines import noise
from recovery.slurm.simulator.stage import Stage
from recovery.slurm.simulator.state import Activity, Job, Node

NOT_RESPONDING = "Not responding"


def crash(stage: Stage, node: Node, at: float, *, back_after_s: float = 0) -> None:
    """The node loses power: its ranks, and those that wait for them, fall silent. Slurm does not know yet."""
    if node.down or node.crashed:
        return
    node.crashed = True
    node.back_after_s = back_after_s
    node.notice_at = at + stage.spec.node_timeout_s
    for job in jobs_on(stage, node):
        if job.training is not None:
            job.training.activity, job.training.next_at = Activity.SILENT, None
            job.training.since = at
    stage.touch_node(node)


def crash_rack(stage: Stage, rack: list[Node], at: float, *, within_s: float, back_after_s: float) -> None:
    """Its switch or power feed fails: one node after the other falls silent, in an order that the seed draws."""
    for node in rack:
        node.crash_at = at + within_s * noise(stage.spec.seed, "rack", node.name, at)[0]
        node.back_after_s = back_after_s
        stage.touch_node(node)


def happens(stage: Stage, node: Node, at: float) -> None:
    """A timer of the node is due."""
    if node.crash_at is not None and node.crash_at <= at:
        node.crash_at = None
        crash(stage, node, at, back_after_s=node.back_after_s)
        stage.touch_node(node)
    elif node.notice_at is not None and node.notice_at <= at:
        fail(stage, node, at, reason=NOT_RESPONDING, by="slurm")
    elif node.back_at is not None and node.back_at <= at:
        restore(stage, node, at, only_down=True)


def fail(stage: Stage, node: Node, at: float, *, reason: str, by: str) -> None:
    """Slurm takes the node for down: its jobs lose it."""
    node.crashed, node.notice_at = False, None
    if node.down:
        return
    node.down = True
    if not node.drained:
        node.reason, node.reason_by, node.reason_at = reason, by, at
    if node.back_after_s:
        node.back_at, node.back_after_s = at + node.back_after_s, 0
        stage.touch_node(node)
    for job in jobs_on(stage, node):
        if job.training is not None:
            ending.lose_node(stage, job, node.name, at)
    stage.schedule(at + stage.spec.latency_s)


def drain(node: Node, at: float, *, reason: str, by: str) -> None:
    node.drained = True
    node.reason, node.reason_by, node.reason_at = reason, by, at


def restore(stage: Stage, node: Node, at: float, *, only_down: bool = False) -> None:
    """The node is up again. `only_down`: it came back by itself; a drain that an admin ordered stays.

    Before Slurm noticed the crash this leaves the node's jobs running, and silent: so does the real one.
    """
    node.down = node.crashed = False
    node.crash_at = node.notice_at = node.back_at = None
    node.back_after_s = 0
    if not only_down:
        node.drained = False
    if not node.drained:
        node.reason, node.reason_by, node.reason_at = "", "", None
    stage.schedule(at + stage.spec.latency_s)


def jobs_on(stage: Stage, node: Node) -> list[Job]:
    return [job for job in stage.state.jobs.values() if node.name in job.nodes]
