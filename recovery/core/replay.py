"""A draft of the policy on recorded history: what it would have done, and where people decided otherwise.

Cases are taken in the order in which they were recommended. What the draft itself would have done counts towards its
budgets and limits as real actions do; what people approved in reality counts, too, for it was done. Beyond that nothing
is imagined: the verdicts, checkpoints and outcomes are those that were recorded, so a case that the draft would have
prevented is still in the list.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from recovery.core.policy import Acted, Load, Ruling, Traits, limits_of, rule_on
from recovery.core.types import ActionKind, DecisionKind, Diagnosis, Mode, Outcome, PastFailure, Proposal

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MEMORY = timedelta(days=30)  # the longest window that a budget or limit may have (core/policy/check.py)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """One recommendation as it was made, with what was decided and what came of it.

    `saves`: complete checkpoints of its run up to then; more than at an earlier case means that it got further between
    the two. `failures_beside`: runs that failed together with this one, itself included. `acted`: the scheduler was
    called for it, by whomever.
    """

    incident: int
    cluster: str
    run: int
    at: datetime
    failed_at: datetime
    traits: Traits
    diagnosis: Diagnosis
    proposal: Proposal
    comment_mode: Mode | None
    comment_max_restarts: int | None
    failed_step: int | None
    log_interval: int | None
    saves: int
    total_nodes: int
    failures_beside: int
    interrupts: bool
    decision: DecisionKind | None
    outcome: Outcome | None
    acted: bool
    waited: timedelta  # from the recommendation to the decision
    gpus: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """What the draft would have said to one case."""

    case: Recorded
    ruling: Ruling

    @property
    def goes(self) -> bool:
        """Whether it would have gone without a person."""
        return self.ruling.mode is Mode.AUTO

    @property
    def against_people(self) -> bool:
        """It would have gone by itself where a person rejected, or proposed something else."""
        return self.goes and self.case.decision in (DecisionKind.REJECT, DecisionKind.AMEND)


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """A whole replay in figures. `saved`: time to decide of what people approved and the draft would have just done."""

    cases: int
    by_mode: Mapping[Mode, int]
    automatic_before: int  # decided by policy in reality
    against_people: tuple[int, ...]  # incidents
    went_badly: tuple[int, ...]  # incidents that it would have acted on, and whose real action did not end in recovery
    saved: timedelta
    saved_gpu_s: float


def replay(rules: Mapping[str, Any], cases: Iterable[Recorded]) -> list[Replayed]:
    """The draft's ruling on each case. `rules` must have passed check_rules. Linear in the number of cases."""
    reach = max((limits_of(rule).window for rule in rules["rules"] if "limits" in rule), default=timedelta(0))
    worlds: dict[str, _World] = defaultdict(lambda: _World(reach))
    found: list[Replayed] = []
    for case in sorted(cases, key=lambda case: (case.at, case.incident)):
        world = worlds[case.cluster]
        ruling = rule_on(
            rules, diagnosis=case.diagnosis, proposal=case.proposal, comment_mode=case.comment_mode,
            comment_max_restarts=case.comment_max_restarts, history=world.history(case), load=world.load(case),
            failed_step=case.failed_step, now=case.at, log_interval=case.log_interval, traits=case.traits,
        )  # fmt: skip
        found.append(Replayed(case=case, ruling=ruling))
        world.note(case, ruling)
    return found


class _World:
    """What a cluster would look like to the policy: the actions of late, and each run's failures."""

    def __init__(self, reach: timedelta) -> None:
        self._reach = reach  # so far back the limits of rules look
        self._acted: deque[tuple[Acted, bool, tuple[str, ...]]] = deque()  # with whether by policy, nodes excluded
        self._failures: dict[int, list[tuple[int, PastFailure]]] = defaultdict(list)  # with the saves by then

    def history(self, case: Recorded) -> Sequence[PastFailure]:
        return [
            replace(failure, checkpoint_since=case.saves > saves)
            for saves, failure in self._failures[case.run]
            if case.at - failure.at <= MEMORY
        ]

    def load(self, case: Recorded) -> Load:
        while self._acted and case.at - self._acted[0][0].at > max(DAY, self._reach):
            self._acted.popleft()
        recent = [entry for entry in self._acted if case.at - entry[0].at < DAY]
        limited = [acted for acted, by_policy, _ in self._acted if by_policy] if self._reach else []
        return Load(
            actions_last_hour=sum(case.at - acted.at <= HOUR for acted, _, _ in recent),
            excluded_nodes=len({node for _, _, nodes in recent for node in nodes}),
            total_nodes=case.total_nodes, failures_in_window=case.failures_beside, paused=False, paused_reason="",
            acted=tuple(limited), interrupts=case.interrupts,
        )  # fmt: skip

    def note(self, case: Recorded, ruling: Ruling) -> None:
        goes = ruling.mode is Mode.AUTO
        by_people = case.acted and case.decision is not DecisionKind.AUTO
        if goes or by_people:
            done = Acted(at=case.at, rule=ruling.rule, interrupted=case.interrupts)
            self._acted.append((done, goes, case.proposal.exclude_nodes))
        failure = PastFailure(
            at=case.failed_at, failure_class=case.diagnosis.failure_class, step=case.failed_step,
            acted=(goes or by_people) and ActionKind(case.proposal.action).restarts, nodes=case.diagnosis.nodes,
        )  # fmt: skip
        self._failures[case.run].append((case.saves, failure))


def summary(found: Sequence[Replayed]) -> Summary:
    """Its figures."""
    agreed = [each.case for each in found if each.goes and each.case.decision is DecisionKind.APPROVE]
    return Summary(
        cases=len(found),
        by_mode={mode: sum(each.ruling.mode is mode for each in found) for mode in Mode},
        automatic_before=sum(each.case.decision is DecisionKind.AUTO for each in found),
        against_people=tuple(each.case.incident for each in found if each.against_people),
        went_badly=tuple(
            each.case.incident
            for each in found
            if each.goes and each.case.acted and each.case.outcome not in (None, Outcome.RECOVERED)
        ),
        saved=sum((case.waited for case in agreed), timedelta(0)),
        saved_gpu_s=sum(case.waited.total_seconds() * case.gpus for case in agreed),
    )
