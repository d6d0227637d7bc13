"""What is remembered of a node over jobs: its strikes, which fade, and whether they make it a suspect.

A few nodes of a large cluster ("lemons") cause a large part of its failures, each time looking like an accident. The
published work on them counts, per node and month: jobs that died with the node, alone or with others, driver errors,
times out of service, tickets, jobs that excluded it. Here the first two and the third are strikes; the rest is shown.

Never a strike: what the victims of something say (a collective time-out, a lost peer), what a job prints of nodes that
are not its own, and a failure of an outbreak. What the jobs of one user print is not enough by itself, however often.

Pure: values in, values out; recovery/pipeline/node_memory.py stores what comes of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.speech import counted, listed
from recovery.core.types import Diagnosis, Evidence, Exclude, FailureClass, Restart, Role

C = FailureClass
# Classes whose place is a node. Where user code or a full disk shows first says nothing of the machine.
OF_A_NODE = frozenset({C.GPU_HARDWARE, C.NODE_FAULT, C.NETWORK_FABRIC, C.STORAGE_TRANSIENT, C.SCHEDULER_LAUNCH})
_SUSPICIONS = OF_A_NODE | {
    C.USER_CODE,
    C.UNKNOWN,
}  # a segmentation fault, an illegal access: what bad memory looks like
_MACHINES = frozenset({C.GPU_HARDWARE, C.NODE_FAULT})  # of which none ends in "no restart" by itself
MOST_PLACES = 2  # a failure that began on more nodes is no node's own


class ToldBy(StrEnum):
    """Who says that a failure began on a node; a job's log is the least of them: it can hold anything."""

    SLURM = "slurm"
    KERNEL = "kernel"
    LOG = "log"


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryLimits:
    """When strikes make a suspect, and for how long. docs/fleet.md shows the curves that the numbers come from.

    A strike weighs 1 where the verdict proved the node, `suspicion` where it only suspected it; `by_log` times that
    where nobody but the job's own log says so; `elsewhere` times where the run then went on on other nodes, and `here`
    times where it went on on the same. It halves every `half_life_s`, and is forgotten after `keep_s`.
    `per_run`: the most that the strikes of one run weigh together: a run in a loop of failures is one witness.
    `suspect_at`, `runs`: the weight, and the number of runs, from which on the node is a suspect.
    `suspect_s`: so long after its last strike, unless another comes.
    """

    suspicion: float = 0.5
    by_log: float = 0.8
    elsewhere: float = 1.25
    here: float = 0.4
    half_life_s: float = 14 * 86_400.0
    keep_s: float = 56 * 86_400.0
    per_run: float = 1.25
    suspect_at: float = 1.75
    runs: int = 2
    suspect_s: float = 14 * 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Strike:
    """One failure that began on the node."""

    at: datetime
    run: int
    user: str
    proven: bool
    told_by: ToldBy
    failure_class: FailureClass
    elsewhere: bool | None = None  # the run went on: True on other nodes, False on this one; None not seen


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What the strikes of one node come to. `reason` is one sentence; `until` is set where it is a suspect."""

    score: float
    strikes: int
    runs: int
    reason: str
    until: datetime | None = None

    @property
    def suspect(self) -> bool:
        return self.until is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A node at which a failure began, by a verdict."""

    node: str
    proven: bool
    told_by: ToldBy


def places(diagnosis: Diagnosis) -> tuple[Place, ...]:
    """The nodes that a verdict strikes: those that it leaves out, or the one that it suspects by a cause seen there."""
    first = diagnosis.first_failure
    if diagnosis.exclude is Exclude.NODES and diagnosis.failure_class in OF_A_NODE | {C.UNKNOWN}:
        if len(diagnosis.nodes) > MOST_PLACES:
            return ()
        told = _told_by(diagnosis, first)
        return tuple(Place(node=node, proven=True, told_by=told) for node in diagnosis.nodes)
    if diagnosis.exclude is Exclude.NONE and diagnosis.restart is Restart.NO and diagnosis.failure_class in _MACHINES:
        return _of_cause(diagnosis, first)
    suspected = diagnosis.exclude is Exclude.IF_REPEATED and diagnosis.failure_class in _SUSPICIONS
    if not suspected or first is None or first.role is not Role.CAUSE or not first.node or _lost_a_peer(first):
        return ()
    return (Place(node=first.node, proven=False, told_by=_told_by(diagnosis, first)),)


def _of_cause(diagnosis: Diagnosis, first: Evidence | None) -> tuple[Place, ...]:
    """Slurm has already requeued the job, so that nothing is to be left out any more: where the cause was seen."""
    if first is None or first.role is not Role.CAUSE or first.rule not in RULES_BY_ID:
        return ()
    nodes = dict.fromkeys(each.node for each in (first, *diagnosis.evidence) if each.rule == first.rule and each.node)
    if len(nodes) > MOST_PLACES or RULES_BY_ID[first.rule].exclude is not Exclude.NODES:
        return ()
    told = _told_by(diagnosis, first)
    return tuple(Place(node=node, proven=True, told_by=told) for node in nodes)


def _lost_a_peer(first: Evidence) -> bool:
    return first.rule in RULES_BY_ID and RULES_BY_ID[first.rule].lost_peer


def _told_by(diagnosis: Diagnosis, first: Evidence | None) -> ToldBy:
    if first is None:
        return ToldBy.SLURM  # a verdict by Slurm's record alone
    if first.source not in ("node", "scheduler"):
        return ToldBy.LOG
    return ToldBy.KERNEL if first.rule.startswith(("xid.", "amd.", "kernel.")) else ToldBy.SLURM


def weigh(strike: Strike, limits: MemoryLimits, *, now: datetime) -> float:
    """What one strike weighs at `now`."""
    age = max(0.0, (now - strike.at).total_seconds())
    if age > limits.keep_s:
        return 0.0
    weight = 1.0 if strike.proven else limits.suspicion
    if strike.told_by is ToldBy.LOG:
        weight *= limits.by_log
    if strike.elsewhere is not None:
        weight *= limits.elsewhere if strike.elsewhere else limits.here
    return float(weight * 0.5 ** (age / limits.half_life_s))


def standing(strikes: Sequence[Strike], limits: MemoryLimits, *, now: datetime) -> Standing:
    """What `strikes` of one node come to at `now`. Those that a person has forgiven must not be among them."""
    of_run: dict[int, float] = defaultdict(float)
    counting = [strike for strike in strikes if weigh(strike, limits, now=now) > 0]
    for strike in counting:
        of_run[strike.run] += weigh(strike, limits, now=now)
    score = round(sum(min(weight, limits.per_run) for weight in of_run.values()), 3)
    reason = _said(counting, len(of_run))
    until = None
    if score >= limits.suspect_at and len(of_run) >= limits.runs and not _one_voice(counting):
        until = max(strike.at for strike in counting) + timedelta(seconds=limits.suspect_s)
        until = until if until > now else None
    return Standing(score=score, strikes=len(counting), runs=len(of_run), reason=reason, until=until)


def _one_voice(strikes: Sequence[Strike]) -> bool:
    """Whether all that is known comes from the logs of one user's jobs: what a job prints can affect that job only."""
    return all(strike.told_by is ToldBy.LOG for strike in strikes) and len({s.user for s in strikes}) < 2


def _said(strikes: Sequence[Strike], runs: int) -> str:
    if not strikes:
        return "No failure is known that began on it."
    classes = list(dict.fromkeys(str(s.failure_class).replace("_", " ") for s in strikes))
    went_on = sum(s.elsewhere is True for s in strikes)
    text = f"{counted(len(strikes), 'failure')} of {counted(runs, 'run')} began on it ({listed(classes)})"
    return f"{text}; {counted(went_on, 'run')} went on elsewhere." if went_on else f"{text}."


def avoidable(
    suspects: Sequence[str], *, eligible: Sequence[str] | None, excluded: Sequence[str], needed: int, room: int
) -> tuple[str, ...]:
    """Those of `suspects` (the worst first) that a restart can keep away from.

    Only nodes on which it could start, and only as many as the caps leave `room` for and as leave it `needed` ones.
    """
    if eligible is None:
        return ()
    free = [node for node in eligible if node not in excluded]
    spare = min(room, len(free) - needed)
    return tuple(node for node in suspects if node in free)[: max(0, spare)]
