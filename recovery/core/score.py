"""What a rule of the policy has earned: agreement with people, outcomes, and when it is promoted or demoted.

A share of a few cases says little: every share comes with Wilson's score interval (E. B. Wilson, J. Am. Stat. Assoc.
22, 1927), which stays honest at small numbers and at 0 and 100 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from math import sqrt

from recovery.core.policy import Promote
from recovery.core.types import DecisionKind, FailureClass, Outcome, Rejection

Z = 1.96  # 95 % of a normal distribution lie within so many standard deviations
LAST = 20  # so many automatic actions tell whether a rule's score is falling; more would hide a fresh decline
# Outcomes of a restart that should not have been made, or not so.
WRONGFUL = frozenset({Outcome.FALSE_ALARM, Outcome.SAME_FAILURE, Outcome.FROM_SCRATCH, Outcome.UNDONE})
BY_PEOPLE = frozenset({DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.AMEND})
# Rejections that say nothing against the recommendation.
NEUTRAL = frozenset({Rejection.USER_IS_ON_IT, Rejection.NOT_NOW})


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """One recommendation that was decided, and what came of it.

    `as_automatic`: its rule says auto, and nothing held it back but that it is in shadow. `amended`: a person did
    something else instead. `acted`: the scheduler was called. `outcome` None: the case is open.
    """

    incident: int
    at: datetime
    rule: str
    failure_class: FailureClass
    kind: DecisionKind
    rejection: Rejection | None = None
    amended: bool = False
    as_automatic: bool = False
    acted: bool = False
    undone: bool = False
    outcome: Outcome | None = None
    waited: timedelta = timedelta(0)  # from the recommendation to the decision
    gpus: int = 0

    @property
    def agreed(self) -> bool | None:
        """Whether a person agreed with what was recommended; None where nobody said."""
        if self.amended:
            return False
        if self.kind is DecisionKind.APPROVE:
            return True
        if self.kind is DecisionKind.REJECT:
            return None if self.rejection in NEUTRAL else False
        return None

    @property
    def wrongful(self) -> bool:
        return self.acted and (self.undone or self.outcome in WRONGFUL)

    @property
    def judged(self) -> bool:
        """Whether it is known what came of an action."""
        return self.acted and (self.outcome is not None or self.undone)


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """`hits` of `of`, and between which shares the true one lies (95 %)."""

    hits: int
    of: int

    @property
    def value(self) -> float | None:
        return self.hits / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's; (0, 1) where nothing is known."""
        if not self.of:
            return 0.0, 1.0
        share, n = self.hits / self.of, self.of
        middle = share + Z * Z / (2 * n)
        reach = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
        scale = 1 + Z * Z / n
        return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scorecard:
    """One rule and failure class over a window."""

    rule: str
    failure_class: FailureClass
    recommended: int
    decided: int  # by people
    agreement: Share
    recovered: Share  # of the actions whose outcome is known
    wrongful: tuple[int, ...]  # incidents
    automatic: int  # decided by policy
    expired: int
    saved: timedelta  # what people took to agree: the time that going by itself would have saved
    saved_gpu_s: float


def scorecards(decided: Iterable[Decided]) -> list[Scorecard]:
    """One for each rule and class, the most recommended first."""
    groups: dict[tuple[str, FailureClass], list[Decided]] = {}
    for each in decided:
        groups.setdefault((each.rule, each.failure_class), []).append(each)
    cards = [_card(rule, failure_class, rows) for (rule, failure_class), rows in groups.items()]
    return sorted(cards, key=lambda card: (-card.recommended, card.rule, card.failure_class))


def _card(rule: str, failure_class: FailureClass, rows: Sequence[Decided]) -> Scorecard:
    agreed = [each for each in rows if each.agreed]
    said = [each for each in rows if each.agreed is not None]
    known = [each for each in rows if each.judged]
    recovered = [each for each in known if each.outcome is Outcome.RECOVERED and not each.undone]
    return Scorecard(
        rule=rule,
        failure_class=failure_class,
        recommended=len(rows),
        decided=sum(each.kind in BY_PEOPLE for each in rows),
        agreement=Share(hits=len(agreed), of=len(said)),
        recovered=Share(hits=len(recovered), of=len(known)),
        wrongful=tuple(each.incident for each in rows if each.wrongful),
        automatic=sum(each.kind is DecisionKind.AUTO for each in rows),
        expired=sum(each.kind is DecisionKind.EXPIRE for each in rows),
        saved=sum((each.waited for each in agreed), timedelta(0)),
        saved_gpu_s=sum(each.waited.total_seconds() * each.gpus for each in agreed),
    )


class Move(StrEnum):
    PROMOTE = "promote"  # proposed: a person decides
    DEMOTE = "demote"  # done at once


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What becomes of a rule, with its figures. `move` None: it stays; `reason` says what is missing."""

    move: Move | None
    reason: str
    figures: dict[str, float] = field(default_factory=dict)


def promotion(rows: Sequence[Decided], bar: Promote) -> Verdict:
    """Whether a rule that asks has earned to go by itself. `rows`: all it decided since it was last changed."""
    if wrong := [each.incident for each in rows if each.wrongful]:
        return Verdict(move=None, reason=f"{_incidents(wrong)} ended as a wrongful action.")
    said = [each for each in rows if each.agreed is not None]
    share = Share(hits=sum(bool(each.agreed) for each in said), of=len(said))
    least = share.interval[0]
    figures = {"decided": share.of, "agreed": share.hits, "least": round(least, 4)}
    told = f"people agreed with {share.hits} of {share.of}; at 95 % that is at least {least:.0%}"
    if share.of < bar.decided:
        return Verdict(move=None, reason=f"{share.of} of {bar.decided} decisions so far.", figures=figures)
    if least < bar.agreement:
        return Verdict(move=None, reason=f"{told}, and {bar.agreement:.0%} is the bar.", figures=figures)
    return Verdict(move=Move.PROMOTE, reason=f"{told} (the bar: {bar.agreement:.0%}), none wrongful.", figures=figures)


def demotion(rows: Sequence[Decided], bar: Promote) -> Verdict:
    """Whether an automatic rule has lost what it had earned. `rows`: all it decided since it was last changed."""
    acted = sorted((each for each in rows if each.kind is DecisionKind.AUTO and each.judged), key=lambda each: each.at)
    if wrong := [each.incident for each in acted if each.wrongful]:
        return Verdict(move=Move.DEMOTE, reason=f"{_incidents(wrong)} ended as a wrongful action.")
    last = acted[-LAST:]
    share = Share(hits=sum(each.outcome is Outcome.RECOVERED for each in last), of=len(last))
    most = share.interval[1]
    figures = {"actions": share.of, "recovered": share.hits, "most": round(most, 4)}
    if share.of and most < bar.agreement:
        told = f"{share.hits} of its last {share.of} actions recovered; at 95 % that is at most {most:.0%}"
        return Verdict(move=Move.DEMOTE, reason=f"{told}, and {bar.agreement:.0%} is the bar.", figures=figures)
    return Verdict(move=None, reason="", figures=figures)


def _incidents(numbers: Sequence[int]) -> str:
    named = ", ".join(str(number) for number in numbers[:3])
    more = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
    return f"Incident{'s' if len(numbers) > 1 else ''} {named}{more}"
