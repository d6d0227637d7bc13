"""Take a node out of service, and give back one that we took. The proof that it was us is our key in its reason."""

from __future__ import annotations

from recovery.core.plans.base import Intent, Next, NodeSeen, Step, World, stop
from recovery.core.speech import listed

UNKNOWN = "Slurm lists no such node."


def drain(intent: Intent, world: World) -> Next:
    """Never a node with running jobs of others; the reason of whoever drained it first stays."""
    node, key = world.node, intent.parameters["key"]
    if node is None:
        return Next(step=Step.WAIT, reason=UNKNOWN)
    if node.drained:
        if intent.has_begun(Step.DRAIN_NODE) and key in node.reason:
            return Next(step=Step.CONVERGED, reason=f"Slurm shows {node.name} drained, for our reason.")
        return Next(step=Step.BY_OTHERS, reason=f"{node.name} is drained already: {node.reason or 'without a reason'}")
    if node.others:
        return stop(intent, f"{node.name} runs other jobs, too: {listed(f'job {other}' for other in node.others)}")
    return Next(step=Step.DRAIN_NODE, reason=f"No job of others runs on {node.name}.")


def resume(intent: Intent, world: World) -> Next:
    """Only what we drained (`drained_by` is our key then), and only a node that Slurm shows in health."""
    node = world.node
    if node is None:
        return Next(step=Step.WAIT, reason=UNKNOWN)
    if not node.drained:
        if intent.has_begun(Step.RESUME_NODE):
            return Next(step=Step.CONVERGED, reason=f"Slurm shows {node.name} in service.")
        return Next(step=Step.BY_OTHERS, reason=f"{node.name} is in service already; we did nothing.")
    if why := not_ours_or_ill(node, intent.parameters["drained_by"]):
        return stop(intent, why)
    return Next(step=Step.RESUME_NODE, reason=f"{node.name} is drained by us, and Slurm reaches it.")


def not_ours_or_ill(node: NodeSeen, key: str) -> str:
    """Why a drained node is not given back, as a clause; "" where it may be."""
    if key not in node.reason:
        return f"{node.name} is drained for another reason than ours ({node.reason or 'none'})"
    return f"{node.name} is down or does not respond" if node.down else ""
