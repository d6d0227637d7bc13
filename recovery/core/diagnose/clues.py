"""What speaks of a failure: log lines and node events that match the catalogue, ordered, placed on nodes, and freed of
those after which the training went on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from recovery.core.diagnose.catalogue import RULES_BY_ID, Rule, Scope, match_event
from recovery.core.diagnose.elastic import ended_at
from recovery.core.diagnose.life import Life
from recovery.core.diagnose.places import Places
from recovery.core.types import AttemptFacts, Evidence, NodeEvent, NodeState, Role, Signal, SignalKind

# A node's end is often noted only after the job's: Slurm waits for its time-outs first.
AFTER_END = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True, slots=True)
class Clue:
    """One thing that speaks of a failure. `exact`: its time is its own, not that of the line before it.

    `until`: a job says nothing after its end. None where the end, or who said it, gives no such bound.
    """

    rule: Rule
    evidence: Evidence
    at: datetime | None
    exact: bool
    nodes: tuple[str, ...]  # of the attempt; empty where the clue can't be placed
    until: datetime | None = None

    @property
    def source(self) -> str:
        return self.evidence.source

    @property
    def hearsay(self) -> bool:
        """A kernel's word that a job's log repeats: of unknown age and machine, unless the kernel itself told us."""
        return self.rule.scope is Scope.BOTH and self.source != "node"


@dataclass(frozen=True, kw_only=True, slots=True)
class Clues:
    """All clues by role, in the order in which they were said, and how many were left out because life went on.

    `overcome` counts lines of the log, `outlived` events of nodes.
    """

    causes: tuple[Clue, ...]
    consequences: tuple[Clue, ...]
    confirmations: tuple[Clue, ...]
    overcome: int
    outlived: int = 0

    @property
    def all(self) -> tuple[Clue, ...]:
        return self.causes + self.consequences + self.confirmations


def gather(facts: AttemptFacts) -> Clues:
    """Every clue on the attempt. What a log claims of nodes counts only for the attempt's own nodes."""
    places = Places(facts.nodes, facts.signals)
    failures = [s for s in facts.signals if s.kind is SignalKind.FAILURE and s.rule in RULES_BY_ID]
    life = Life(facts)
    lasting = [s for s in failures if not life.went_on_after(s)]
    noted = list(_from_nodes(facts, places))
    fresh = [c for c in noted if c.at is None or not life.outlived(c.at)]
    clues = [*_from_log(lasting, facts, places), *fresh]
    by_role = {role: tuple(c for c in clues if c.rule.role is role) for role in Role}
    return Clues(
        causes=by_role[Role.CAUSE],
        consequences=by_role[Role.CONSEQUENCE],
        confirmations=by_role[Role.CONFIRMATION],
        overcome=len(failures) - len(lasting),
        outlived=len(noted) - len(fresh),
    )


# --- the job's log ----------------------------------------------------------------------------------------------------


def _from_log(lasting: Sequence[Signal], facts: AttemptFacts, places: Places) -> Iterable[Clue]:
    times, ends = _times(facts.signals), ended_at(lasting)
    seen: set[tuple[str, int]] = set()
    for signal in sorted(lasting, key=lambda s: (s.file, s.line)):
        if (signal.file, signal.line) in seen:
            continue  # the catalogue's first match on a line says the most
        seen.add((signal.file, signal.line))
        rule = RULES_BY_ID[signal.rule]
        found = re.search(rule.pattern, signal.text)
        named = (found.groupdict().get("node") or "") if found else ""
        nodes = places.named(named) if named else places.of(signal.node, signal.rank)  # another's node is none of ours
        at, exact = times[signal.file, signal.line]
        if not exact and signal.rank in ends and (at is None or ends[signal.rank] < at):
            at, exact = ends[signal.rank], True  # printed late; its process had ended by then
        evidence = Evidence(
            text=signal.text,
            source=signal.file,
            role=rule.role,
            rule=rule.id,
            line=signal.line,
            at=at if exact else None,
            rank=signal.rank,
            node=nodes[0] if len(nodes) == 1 else "",
        )
        yield Clue(rule=rule, evidence=evidence, at=at, exact=exact, nodes=nodes, until=_bound(facts, at))


def _bound(facts: AttemptFacts, at: datetime | None) -> datetime | None:
    """The end of the job, None for a line that is dated beyond it: then its clock is another than Slurm's."""
    end = facts.ended_at
    return end if end is None or at is None or at - end <= AFTER_END else None


def _times(signals: Sequence[Signal]) -> dict[tuple[str, int], tuple[datetime | None, bool]]:
    """The time of each line: its own, else that of the last dated line before it in the same file."""
    last: dict[str, datetime] = {}
    times: dict[tuple[str, int], tuple[datetime | None, bool]] = {}
    for signal in sorted(signals, key=lambda s: (s.file, s.line)):
        if signal.at is not None:
            last[signal.file] = signal.at
        times[signal.file, signal.line] = (last.get(signal.file), signal.at is not None)
    return times


# --- nodes ------------------------------------------------------------------------------------------------------------


def _from_nodes(facts: AttemptFacts, places: Places) -> Iterable[Clue]:
    """Clues from events of the attempt's own nodes within its life; what was before it is old news."""
    begin = facts.started_at
    end = (facts.ended_at or facts.now) + AFTER_END
    for event in facts.node_events:
        nodes = places.named(event.node)
        if not nodes or (begin is not None and event.at < begin) or event.at > end:
            continue
        if (rule := _rule_of(event)) is not None:
            yield _node_clue(rule, event, nodes)


def _rule_of(event: NodeEvent) -> Rule | None:
    if found := match_event(event.text):
        return found[0][0]
    # An administrator's drain is no fault of the node; a node that is down is.
    return RULES_BY_ID["node.down"] if event.state is NodeState.DOWN else None


def _node_clue(rule: Rule, event: NodeEvent, nodes: tuple[str, ...]) -> Clue:
    text = event.text or f"Slurm says that {event.node} is {event.state}."
    evidence = Evidence(text=text[:500], source="node", role=rule.role, rule=rule.id, at=event.at, node=event.node)
    return Clue(rule=rule, evidence=evidence, at=event.at, exact=event.exact, nodes=nodes)


# --- the order of causes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class First:
    """The cause that decides, and what stays doubtful about that choice ("" for nothing)."""

    clue: Clue
    doubt: str = ""


SAME_MOMENT = timedelta(seconds=2)  # clocks of hosts, and of log and scheduler, differ by about this
ONE_STORY = timedelta(minutes=15)  # a weak cause is explained by a strong one within this time
WEAK = 0.6
STRONG = 0.9


def first_cause(causes: Sequence[Clue]) -> First | None:
    """The earliest cause: by order within one source, by clock between sources; by weight where no clock tells.

    A weak cause (a GPU kernel's error, a segmentation fault, an unknown exception) yields to a strong one of the same
    story, because it is what hardware faults look like from inside a process.
    """
    heads: dict[str, Clue] = {}
    for clue in _without_hearsay(causes):
        held = heads.get(clue.source)
        if held is None or (clue.source == "node" and _sooner(clue, held)):
            heads[clue.source] = clue
    best: First | None = None
    for clue in heads.values():
        best = First(clue=clue) if best is None else _earlier(best, clue)
    if best is None:
        return None
    return _explained(best, causes)


def _sooner(event: Clue, held: Clue) -> bool:
    """Which event of a node came first; in one moment, as clocks of nodes go, the weightier."""
    if event.at is None or held.at is None:
        return False
    if abs(event.at - held.at) <= SAME_MOMENT:
        return event.rule.confidence > held.rule.confidence
    return event.at < held.at


def _without_hearsay(causes: Sequence[Clue]) -> Sequence[Clue]:
    """Hearsay decides only where nothing surer does: a kernel log that a job dumps holds the days before, too."""
    sure = [c for c in causes if not c.hearsay]
    return sure if any(c.rule.confidence > WEAK for c in sure) else causes


def _earlier(best: First, other: Clue) -> First:
    one = best.clue
    if _over_before(one, other):
        return best
    if _over_before(other, one):
        return First(clue=other, doubt=best.doubt)
    if one.at is not None and other.at is not None:
        gap = other.at - one.at
        if (one.exact and other.exact and abs(gap) > SAME_MOMENT) or _surely_later(one, other, gap):
            return best if gap > timedelta(0) else First(clue=other, doubt=best.doubt)
    same = one.rule.failure_class is other.rule.failure_class
    winner, loser = (one, other) if one.rule.confidence >= other.rule.confidence else (other, one)
    doubt = best.doubt or ("" if same else f"which came first, {winner.rule.id} or {loser.rule.id}, is not certain")
    return First(clue=winner, doubt=doubt)


def _over_before(one: Clue, other: Clue) -> bool:
    """What came when the job was over can't have caused what the job said, whatever time its lines carry."""
    return other.exact and other.at is not None and one.until is not None and other.at - one.until > SAME_MOMENT


def _surely_later(one: Clue, other: Clue, gap: timedelta) -> bool:
    """A borrowed time is a lower bound: what begins after an exact time can't have come before it."""
    return (one.exact and gap > SAME_MOMENT) or (other.exact and gap < -SAME_MOMENT)


def _explained(first: First, causes: Sequence[Clue]) -> First:
    if first.clue.rule.confidence > WEAK:
        return first
    for clue in causes:
        if clue.rule.confidence >= STRONG and clue.rule.failure_class is not first.clue.rule.failure_class:
            near = clue.at is None or first.clue.at is None or abs(clue.at - first.clue.at) <= ONE_STORY
            if near:
                return replace(first, clue=clue)
    return first
