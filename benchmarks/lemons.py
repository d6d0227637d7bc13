"""How well node memory tells lemons from bad luck: a simulated fleet with known lemons, its figures and its curves.

The rates are of the size that the published work on a large research cluster gives: 2 machine failures per 1,000
node-days of a healthy node, lemons 1.2 % of the nodes. Three kinds of them: 20, 60 and 150 times as likely to fail.
Beside them what must make no suspect: segmentation faults of a user's code wherever it runs, and one user whose jobs
print an uncorrectable memory error of their own node every day.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import mean, median
from typing import Any

from recovery.core.node_memory import MemoryLimits, Strike, ToldBy, standing
from recovery.core.types import FailureClass

START = datetime(2026, 1, 1, tzinfo=UTC)
HEALTHY = 0.002  # failures of a node that runs jobs, a day
LEMONS = {20: 0.004, 60: 0.004, 150: 0.004}  # times as likely to fail: part of the nodes
USERS = 40
SEGFAULTS = 0.004  # failures a node and day that are a user's code
LIAR = 0  # a user: each day one of their jobs prints a memory error


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What a simulated fleet told of its nodes: strikes by node in the order of time, and which are lemons."""

    nodes: int
    days: int
    lemons: dict[int, int]  # node → how many times as likely to fail
    strikes: dict[int, list[Strike]]


def tell(*, nodes: int, days: int, seed: int) -> Told:
    """Draw a fleet's failures. A third of all failures show in a job's log alone, a fifth only as a suspicion, and a
    tenth can't be placed on a node; two of three runs go on elsewhere."""
    draw = random.Random(seed)  # noqa: S311 - a simulation
    lemons: dict[int, int] = {}
    order = draw.sample(range(nodes), nodes)
    for times, part in LEMONS.items():
        for _ in range(max(1, round(nodes * part))):
            lemons[order.pop()] = times
    strikes: dict[int, list[Strike]] = defaultdict(list)
    run = 0
    for day in range(days):
        for node in range(nodes):
            if draw.random() < min(0.5, HEALTHY * lemons.get(node, 1)):
                run += 1
                if (strike := _machine(draw, day, run)) is not None:
                    strikes[node].append(strike)
            if draw.random() < SEGFAULTS:
                run += 1
                strikes[node].append(_code(draw, day, run))
        run += 1
        liar = Strike(
            at=_at(draw, day), run=run, user=f"user-{LIAR}", proven=True, told_by=ToldBy.LOG,
            failure_class=FailureClass.GPU_HARDWARE,
        )  # fmt: skip
        strikes[draw.randrange(nodes)].append(liar)
    for told in strikes.values():
        told.sort(key=lambda strike: strike.at)
    return Told(nodes=nodes, days=days, lemons=lemons, strikes=strikes)


def _at(draw: random.Random, day: int) -> datetime:
    return START + timedelta(days=day, seconds=draw.randrange(86_400))


def _machine(draw: random.Random, day: int, run: int) -> Strike | None:
    kind = draw.random()
    if kind < 0.1:
        return None  # it could not be placed
    told_by = draw.choice((ToldBy.SLURM, ToldBy.KERNEL, ToldBy.LOG))
    went_on = draw.random()
    return Strike(
        at=_at(draw, day), run=run, user=f"user-{draw.randrange(1, USERS)}", proven=kind > 0.3, told_by=told_by,
        failure_class=FailureClass.GPU_HARDWARE, elsewhere=True if went_on < 0.66 else None,
    )  # fmt: skip


def _code(draw: random.Random, day: int, run: int) -> Strike:
    """A crash of a user's code that names the node it ran on. Half of them go on there after a restart."""
    return Strike(
        at=_at(draw, day), run=run, user=f"user-{draw.randrange(1, USERS)}", proven=False, told_by=ToldBy.LOG,
        failure_class=FailureClass.USER_CODE, elsewhere=draw.choice((False, None)),
    )  # fmt: skip


def judge(told: Told, limits: MemoryLimits) -> dict[str, Any]:
    """Which nodes become suspects at any strike, and how soon; no node is repaired or avoided meanwhile."""
    found: dict[int, float] = {}
    for node, strikes in told.strikes.items():
        for place, strike in enumerate(strikes, start=1):
            if standing(strikes[:place], limits, now=strike.at).suspect:
                found[node] = (strike.at - START) / timedelta(days=1)
                break
    by_kind = {
        str(times): sum(node in found for node, kind in told.lemons.items() if kind == times)
        / max(1, sum(kind == times for kind in told.lemons.values()))
        for times in LEMONS
    }
    right = [node for node in found if node in told.lemons]
    wrong = len(found) - len(right)
    return {
        "lemons": len(told.lemons),
        "found": len(right),
        "found_by_rate": {kind: round(part, 2) for kind, part in by_kind.items()},
        "days_to_find": round(median([found[node] for node in right]), 1) if right else None,
        "wrongly_suspected": wrong,
        "wrong_per_1000_node_months": round(wrong / (told.nodes * told.days / 30_000), 2),
        "of_suspects_right": round(len(right) / len(found), 2) if found else None,
    }


def mean_of(fleets: Sequence[Told], limits: MemoryLimits) -> dict[str, Any]:
    """Means over fleets, as docs/fleet.md gives them."""
    figures = [judge(told, limits) for told in fleets]
    return {
        "found": round(mean(each["found"] / each["lemons"] for each in figures), 2),
        "found_by_rate": {
            str(times): round(mean(each["found_by_rate"][str(times)] for each in figures), 2) for times in LEMONS
        },
        "days_to_find": round(mean(each["days_to_find"] for each in figures if each["days_to_find"] is not None), 1),
        "wrong_per_1000_node_months": round(mean(each["wrong_per_1000_node_months"] for each in figures), 2),
        "of_suspects_right": round(mean(each["of_suspects_right"] for each in figures), 2),
    }


def fleets() -> list[Told]:
    """Eight of 2,000 nodes over 12 weeks."""
    return [tell(nodes=2000, days=84, seed=seed) for seed in range(1, 9)]


def curves(drawn: Sequence[Told]) -> list[dict[str, Any]]:
    """The same fleets under other thresholds."""
    rows = []
    for days in (7, 14, 28):
        for at in (1.5, 1.75, 2.0, 2.25, 2.5):
            limits = replace(MemoryLimits(), half_life_s=days * 86_400.0, keep_s=4 * days * 86_400.0, suspect_at=at)
            rows.append({"half_life_days": days, "suspect_at": at, **mean_of(drawn, limits)})
    return rows


def run() -> dict[str, Any]:
    """As it is shipped."""
    return mean_of(fleets(), MemoryLimits())


if __name__ == "__main__":
    for row in curves(fleets()):
        print(row)
