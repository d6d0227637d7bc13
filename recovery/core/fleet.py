"""Failures that belong together: several runs that failed within two minutes are an outbreak, not so many accidents.

The fabric, the storage or a driver fails for many jobs at once. Then no node of any of them is to blame by what its own
job saw, and all of them restarted in the same second would only meet the same fault again.

Pure: values in, values out; recovery/pipeline/fleet.py stores what comes of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from recovery.core.lifecycle import IncidentState, StateWords
from recovery.core.speech import listed
from recovery.core.types import FailureClass

C = FailureClass
# What explains itself by the job, its user or the scheduler: however many at once, no machine is behind it.
OF_THE_JOB = frozenset(
    {
        *(C.USER_CODE, C.NUMERICS, C.GPU_OOM, C.HOST_OOM, C.LAUNCH_CONFIG, C.CHECKPOINT_INCOMPLETE, C.NOT_RESUMED),
        *(C.WALLTIME, C.PREEMPTION, C.EXTERNAL_CANCEL, C.STRAGGLER, C.COMPLETED, C.NOT_A_FAILURE),
    }
)
_ONE_CODE = frozenset({C.USER_CODE, C.LAUNCH_CONFIG})  # … unless several users meet the same words: a mount that went
_STORAGE = frozenset({C.STORAGE_TRANSIENT, C.STORAGE_FULL, C.HANG_SILENT})  # silence: frozen in a file system's call
_DRIVER = ("xid.", "amd.")  # families of rules whose lines a driver writes
_CATCH_ALL = frozenset({"", "python.other_error", "python.user_error", "python.traceback"})


class SharedKind(StrEnum):
    """What the failures of an outbreak can have in common, the most telling first."""

    SWITCH = "switch"
    DRIVER = "driver"
    FILE_SYSTEM = "file_system"
    NEIGHBOURS = "neighbours"  # by their names, where the switch is not known
    SIGNATURE = "signature"


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetLimits:
    """When failures are an outbreak, and how long it lasts. The first two are the breaker's in the policy.

    `failures`: so many runs within `window_s` seconds. Three, as two coincide by chance on a large site: at 48 failures
    of machines a day, one in 30 minutes, two come together about three times a day, three once in ten days.
    `stagger_s`: between the restarts of two of its jobs: a file system that comes back is not met by all at once.
    `quiet_s`: so long after its last failure it ends, when nothing is being done for any of its jobs.
    `most_of_block`: neighbours by name are told only where this part of the names between them failed too, and they are
    no more than `most_of_cluster` of all nodes so named: else any set of nodes would be neighbours.
    """

    failures: int = 3
    window_s: float = 120.0
    stagger_s: float = 20.0
    quiet_s: float = 900.0
    many_nodes: int = 3
    most_of_block: float = 0.5
    most_of_cluster: float = 0.5

    @property
    def window(self) -> timedelta:
        return timedelta(seconds=self.window_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One incident as far as it matters here. `failure_class` is None before the diagnosis."""

    key: int
    run: int
    user: str
    failed_at: datetime
    failure_class: FailureClass | None = None
    rule: str = ""  # of the line that decided
    text: str = ""  # that line
    nodes: tuple[str, ...] = ()  # of its attempt
    bad_nodes: tuple[str, ...] = ()  # those of them at which a fault was seen
    roots: tuple[str, ...] = ()  # the file systems that hold its log and its checkpoints, as far as they are known


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    kind: SharedKind
    what: str  # the switch, the folder, the rule
    runs: int
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """What is known of where nodes are: their leaf switch where Slurm says it, and the names of all nodes."""

    switches: Mapping[str, str]  # node → switch
    nodes: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Cases that belong together, by the time of their failure."""

    cases: tuple[Case, ...]
    shared: tuple[Shared, ...]

    @property
    def run_keys(self) -> frozenset[int]:
        return frozenset(case.run for case in self.cases)

    @property
    def runs(self) -> int:
        return len(self.run_keys)

    @property
    def began_at(self) -> datetime:
        return self.cases[0].failed_at

    @property
    def last_failed_at(self) -> datetime:
        return self.cases[-1].failed_at

    @property
    def headline(self) -> str:
        """One sentence: how many, how fast, and what they share."""
        took = (self.last_failed_at - self.began_at).total_seconds()
        when = "at the same second" if took < 1 else f"within {took:.0f} s"
        common = self.shared[0].sentence if self.shared else "nothing else in common is seen."
        return f"{self.runs} runs failed {when}: {common}"


def outbreak_of(
    case: Case, cases: Sequence[Case], layout: Layout, limits: FleetLimits, *, known: Sequence[int] = ()
) -> Group | None:
    """The outbreak that `case` is part of; None where it failed by itself. `cases`: all of its time, itself included.

    `known`: keys of the cases of an outbreak that is open already; who fails within the window of one of them joins it.
    """
    counted = sorted(_counted(cases, limits), key=lambda each: (each.failed_at, each.key))
    if case.key not in {each.key for each in counted}:
        return None
    members = _chained(case, counted, limits, known=frozenset(known))
    if not members:
        return None
    return Group(cases=tuple(members), shared=tuple(_shared(members, layout, limits)))


def runs_at_once(case: Case, cases: Sequence[Case], limits: FleetLimits) -> int:
    """How many runs failed within the window of `case`, for the breaker: who has no verdict yet counts."""
    near = [each for each in cases if abs(each.failed_at - case.failed_at) <= limits.window]
    counted = _counted([each for each in near if each.failure_class is not None], limits)
    waiting = [each for each in near if each.failure_class is None]
    return len({each.run for each in (*counted, *waiting)})


def _counted(cases: Sequence[Case], limits: FleetLimits) -> list[Case]:
    """Those that a machine may be behind: diagnosed, and not the job's own doing unless users share its very words."""
    users: dict[str, set[str]] = defaultdict(set)
    runs: dict[str, set[int]] = defaultdict(set)
    for case in cases:
        if case.failure_class in _ONE_CODE and case.text:
            users[_words(case.text)].add(case.user)
            runs[_words(case.text)].add(case.run)
    common = {words for words, who in users.items() if len(who) > 1 and len(runs[words]) >= limits.failures}
    return [
        case
        for case in cases
        if case.failure_class is not None
        and (
            case.failure_class not in OF_THE_JOB
            or (case.failure_class in _ONE_CODE and case.text and _words(case.text) in common)
        )
    ]


def _words(text: str) -> str:
    """A line without what differs from process to process: numbers, addresses, times."""
    return re.sub(r"0x[0-9a-fA-F]{1,32}|[0-9]{1,32}", "#", text)[:300]


def _chained(case: Case, counted: Sequence[Case], limits: FleetLimits, *, known: frozenset[int]) -> list[Case]:
    """The members of `case`'s outbreak: windows that hold enough runs, joined where they have a member in common."""
    members: set[int] = {each.key for each in counted if each.key in known}
    spans = [(each.failed_at, each.failed_at) for each in counted if each.key in known]
    for first in counted:
        window = [each for each in counted if timedelta(0) <= each.failed_at - first.failed_at <= limits.window]
        if len({each.run for each in window}) >= limits.failures:
            spans.append((window[0].failed_at, window[-1].failed_at))
    reach = _reach_of(case, spans, limits)
    if reach is None:
        return []
    members |= {each.key for each in counted if reach[0] <= each.failed_at <= reach[1]}
    found = [each for each in counted if each.key in members]
    return found if case.key in members else []


def _reach_of(
    case: Case, spans: Iterable[tuple[datetime, datetime]], limits: FleetLimits
) -> tuple[datetime, datetime] | None:
    """From when to when the outbreak reaches that `case` falls into; a failure just beside one that is known joins."""
    merged: list[tuple[datetime, datetime]] = []
    for start, end in sorted(spans):
        if merged and start - merged[-1][1] <= limits.window:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    for start, end in merged:
        if start - limits.window <= case.failed_at <= end + limits.window:
            return min(start, case.failed_at), max(end, case.failed_at)
    return None


# --- what they share --------------------------------------------------------------------------------------------------


def _shared(cases: Sequence[Case], layout: Layout, limits: FleetLimits) -> list[Shared]:
    total = len({case.run for case in cases})
    found = [
        _switch(cases, layout, limits, total),
        _driver(cases, limits, total),
        _file_system(cases, limits, total),
        _neighbours(cases, layout, limits, total),
        _signature(cases, limits, total),
    ]
    return [shared for shared in found if shared is not None]


def _most_common(cases: Sequence[Case], values: Callable[[Case], Iterable[str]]) -> tuple[str, set[int]]:
    """The value that the most runs have, with those runs; ("", empty) for none."""
    runs: dict[str, set[int]] = defaultdict(set)
    for case in cases:
        for value in values(case):
            runs[value].add(case.run)
    return max(runs.items(), key=lambda item: (len(item[1]), item[0]), default=("", set()))


def _of(runs: set[int], total: int) -> str:
    return f"all {total}" if len(runs) == total else f"{len(runs)} of {total}"


def _switch(cases: Sequence[Case], layout: Layout, limits: FleetLimits, total: int) -> Shared | None:
    """Only of nodes at which a fault was seen, where there are such: a large job has nodes on many switches."""
    if len(set(layout.switches.values())) < 2:
        return None  # one switch for all tells nothing

    def switches(case: Case) -> Iterable[str]:
        return {layout.switches[node] for node in case.bad_nodes or case.nodes if node in layout.switches}

    switch, runs = _most_common(cases, switches)
    if not _enough(runs, limits, total):
        return None
    sentence = f"{_of(runs, total)} had nodes on switch {switch} that failed with it."
    if not any(case.bad_nodes for case in cases if case.run in runs):
        sentence = f"{_of(runs, total)} had nodes on switch {switch}."
    return Shared(kind=SharedKind.SWITCH, what=switch, runs=len(runs), sentence=sentence)


def _enough(runs: set[int], limits: FleetLimits, total: int) -> bool:
    """Most of the runs, and more than would come by chance."""
    return len(runs) >= limits.failures and 2 * len(runs) > total


def _driver(cases: Sequence[Case], limits: FleetLimits, total: int) -> Shared | None:
    rule, runs = _most_common(cases, lambda case: (case.rule,) if case.rule.startswith(_DRIVER) else ())
    nodes = {node for case in cases if case.rule == rule for node in case.bad_nodes}
    if len(runs) < 2 or len(nodes) < limits.many_nodes:
        return None
    sentence = f"the driver says the same ({rule}) on {len(nodes)} nodes of {_of(runs, total)} runs."
    return Shared(kind=SharedKind.DRIVER, what=rule, runs=len(runs), sentence=sentence)


def _file_system(cases: Sequence[Case], limits: FleetLimits, total: int) -> Shared | None:
    """All of a site's jobs may lie on one file system: it is told only of those that failed as storage makes them."""
    stalled = [case for case in cases if case.failure_class in _STORAGE]
    root, runs = _most_common(stalled, lambda case: case.roots)
    if not _enough(runs, limits, total):
        return None
    what = "storage errors or silence"
    sentence = f"{_of(runs, total)} have their log or checkpoints under {root}, and ended with {what}."
    return Shared(kind=SharedKind.FILE_SYSTEM, what=root, runs=len(runs), sentence=sentence)


def _neighbours(cases: Sequence[Case], layout: Layout, limits: FleetLimits, total: int) -> Shared | None:
    """Nodes with a fault whose names follow each other: perhaps one rack. Told only where no switch is known."""
    numbered: dict[str, dict[int, str]] = defaultdict(dict)
    for node in {node for case in cases for node in case.bad_nodes if node not in layout.switches}:
        if found := _NUMBERED.fullmatch(node):
            numbered[found[1]][int(found[2])] = node
    for prefix, names in sorted(numbered.items()):
        numbers = sorted(names)
        alike = sum(1 for node in layout.nodes if (m := _NUMBERED.fullmatch(node)) and m[1] == prefix)
        width = numbers[-1] - numbers[0] + 1
        dense = len(numbers) >= limits.many_nodes and len(numbers) >= limits.most_of_block * width
        runs = {case.run for case in cases if set(case.bad_nodes) & set(names.values())}
        if dense and width <= limits.most_of_cluster * alike and _enough(runs, limits, total):
            block = f"{names[numbers[0]]} to {names[numbers[-1]]}"
            sentence = f"{_of(runs, total)} lost nodes from {block}, neighbours by name (their switch is not known)."
            return Shared(kind=SharedKind.NEIGHBOURS, what=block, runs=len(runs), sentence=sentence)
    return None


_NUMBERED = re.compile(r"(.{0,90}?)([0-9]{1,9})")


def _signature(cases: Sequence[Case], limits: FleetLimits, total: int) -> Shared | None:
    """One rule of the catalogue; of rules that catch whatever is not known, the words of the line itself."""

    def signature(case: Case) -> Iterable[str]:
        if case.rule not in _CATCH_ALL:
            return () if case.rule.startswith(_DRIVER) else (case.rule,)
        return (_words(case.text),) if case.text else ()

    what, runs = _most_common(cases, signature)
    if not _enough(runs, limits, total):
        return None
    sentence = f"{_of(runs, total)} ended with the same signature ({what[:120]})."
    return Shared(kind=SharedKind.SIGNATURE, what=what[:200], runs=len(runs), sentence=sentence)


# --- words ------------------------------------------------------------------------------------------------------------

SHARED_LABELS = {
    SharedKind.SWITCH: "Switch", SharedKind.DRIVER: "Driver message", SharedKind.FILE_SYSTEM: "File system",
    SharedKind.NEIGHBOURS: "Neighbours by name", SharedKind.SIGNATURE: "Signature",
}  # fmt: skip
OUTBREAK_WORDS = {
    "open": StateWords("Open", "▲", "critical", "Exclusions and drains are held, restarts begin one after the other."),
    "closed": StateWords("Over", "✓", "muted", "What it held back may be done again."),
}
SUSPECT_WORDS = {
    "suspect": StateWords("Suspect", "▲", "warning", "Failures of several runs began on it; restarts can avoid it."),
}


# --- how long it lasts ------------------------------------------------------------------------------------------------

_AT_REST = frozenset({IncidentState.CLOSED, IncidentState.WATCHING})


def why_over(states: Sequence[IncidentState], last_failed_at: datetime, limits: FleetLimits, *, now: datetime) -> str:
    """Why the outbreak is over, as a sentence; "" while it goes on. `states` are those of its incidents."""
    since = now - last_failed_at
    if since <= limits.window:
        return ""  # who fails now belongs to it
    if all(state is IncidentState.CLOSED for state in states):
        return "All of its incidents are closed."
    if since > timedelta(seconds=limits.quiet_s) and all(state in _AT_REST for state in states):
        waits = sum(state is not IncidentState.CLOSED for state in states)
        return f"No run failed with it for {limits.quiet_s / 60:.0f} min; {waits} of its incidents are only watched."
    return ""


def held_back(nodes: Sequence[str], outbreak: str) -> str:
    """What a recommendation says of nodes that it does not leave out while `outbreak` (its number) goes on."""
    return (
        f"{listed(nodes)} should be left out by this verdict alone, but other runs failed at the same time: exclusions "
        f"and drains are held while outbreak {outbreak} is open."
    )
