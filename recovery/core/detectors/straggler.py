"""Straggler: one rank takes longer for its own part of the step than all others, and they wait for it. Advice only.

It can be told where each rank reports for itself. Whether the node was among the slow in other jobs is added where it
is known: two jobs that are slow on one node accuse the node, not the program. Where no rank reports for itself that is
all that can be told.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from recovery.core.detectors.alarm import Alarm, AlarmKind
from recovery.core.detectors.alarm_limits import AlarmLimits
from recovery.core.detectors.surroundings import Surroundings
from recovery.core.speech import counted, listed
from recovery.core.types import AttemptFacts, Evidence, Role, Sample

REMEDY = "Compare the clocks, temperature and links of its GPU with the others; exclude the node where it repeats."


def detect_straggler(facts: AttemptFacts, around: Surroundings, limits: AlarmLimits) -> Alarm | None:
    """An alarm where a few ranks are slow in every one of their last reports, or, where too few
    ranks report alone, where the whole is slow and a few of its nodes were in other slow jobs."""
    by_rank: dict[int, list[Sample]] = defaultdict(list)
    for sample in around.ranks:
        if sample.step_time_s is not None and sample.step_time_s > 0 and sample.rank >= 0:
            by_rank[sample.rank].append(sample)
    last = {r: rows[-limits.rank_reports :] for r, rows in by_rank.items() if len(rows) >= limits.rank_reports}
    if len(last) < limits.rank_least:
        return _by_nodes(facts, around, limits)
    usual = median(median(_times(rows)) for rows in last.values())
    slow = {r: rows for r, rows in last.items() if min(_times(rows)) > limits.rank_factor * usual}
    if not slow or len(slow) > max(1, limits.rank_share * len(last)):
        return None
    factor = max(median(_times(rows)) for rows in slow.values()) / usual
    nodes = dict(around.node_of)
    where = listed(sorted({nodes[rank] for rank in slow if rank in nodes}))
    reason = (
        f"{'Rank' if len(slow) == 1 else 'Ranks'} {listed(str(rank) for rank in sorted(slow))}"
        f"{f' on {where}' if where else ''} {'takes' if len(slow) == 1 else 'take'} {factor:.1f} times as long for a "
        f"step as the median of {len(last)} ranks, in each of the last {limits.rank_reports} reports."
        f"{_again(around, slow)}"
    )
    since = min(rows[0].at for rows in slow.values())
    evidence = tuple(
        Evidence(
            text=f"Rank {rank}: {median(_times(rows)):.3g} s a step; the median of all is {usual:.3g} s.",
            source="job log", role=Role.CONFIRMATION, rule="straggler.rank", at=rows[-1].at, rank=rank,
            node=nodes.get(rank, ""),
        )
        for rank, rows in sorted(slow.items())[:4]
    )  # fmt: skip
    return Alarm(kind=AlarmKind.STRAGGLER, since=since, reason=reason, remedy=REMEDY, evidence=evidence)


def _by_nodes(facts: AttemptFacts, around: Surroundings, limits: AlarmLimits) -> Alarm | None:
    """Of many nodes in common (the same ones again, say) none can be told from the others."""
    suspects = around.slow_elsewhere
    if not around.is_slow or not suspects or len(suspects) > max(1, limits.rank_share * len(facts.nodes)):
        return None
    reason = f"It runs slow, and {listed(node for node, _ in suspects)} {'was' if len(suspects) == 1 else 'were'} "
    reason += f"among the nodes of {counted(max(jobs for _, jobs in suspects), 'other slow job')} within a day."
    evidence = tuple(
        Evidence(
            text=f"{node}: slow with {counted(jobs, 'other job')}.", source="node", role=Role.CONFIRMATION,
            rule="straggler.node", node=node,
        )
        for node, jobs in suspects[:4]
    )  # fmt: skip
    return Alarm(kind=AlarmKind.STRAGGLER, since=facts.now, reason=reason, remedy=REMEDY, evidence=evidence)


def _times(rows: list[Sample]) -> list[float]:
    return [row.step_time_s for row in rows if row.step_time_s is not None]


def _again(around: Surroundings, slow: dict[int, list[Sample]]) -> str:
    nodes = {node for rank, node in around.node_of if rank in slow}
    told = [
        f" {node} was among the slow in {counted(count, 'other job')} lately."
        for node, count in around.slow_elsewhere
        if node in nodes
    ]
    return "".join(told[:2])


def shared_nodes(slow: dict[str, frozenset[str]], healthy: frozenset[str]) -> dict[str, int]:
    """Nodes that at least two slow jobs have in common and no healthy one has, with the number of those jobs.

    `slow`: by job the nodes of each that runs slow or has a straggler; `healthy`: nodes of the others.
    """
    count: dict[str, int] = defaultdict(int)
    for nodes in slow.values():
        for node in nodes:
            count[node] += 1
    return {node: jobs for node, jobs in sorted(count.items()) if jobs >= 2 and node not in healthy}
