"""Diagnosis: from facts to a verdict with its reason.

Precedence; the first that speaks decides:

1. a person cancelled the job;
2. the scheduler's own truth: time limit, preemption, node failure, memory limit;
3. the earliest cause in logs and node events (clues.first_cause says what "earliest" means);
4. consequences without a cause: what the victims of something unseen report;
5. exit codes and signals;
6. unknown, which is an honest answer.

Then the run's history, whether Slurm itself has already requeued the job, and contradictions are weighed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from recovery.core.diagnose.clues import Clues, first_cause, gather
from recovery.core.diagnose.coverage import coverage
from recovery.core.diagnose.exits import HELD
from recovery.core.diagnose.history import with_history
from recovery.core.diagnose.judge import judge
from recovery.core.diagnose.sequences import how_far
from recovery.core.diagnose.settled import settle_verdict
from recovery.core.diagnose.turning import what_would_change
from recovery.core.diagnose.verdict import Verdict
from recovery.core.speech import listed
from recovery.core.types import (
    AttemptFacts,
    Diagnosis,
    Evidence,
    Exclude,
    FailureClass,
    Finding,
    JobState,
    PastFailure,
    Restart,
)

__all__ = ["diagnose", "healthy", "speaks_of_failure"]

MAX_EVIDENCE = 12
MAX_REASON = 500
_NO_SUSPECTS: Mapping[str, str] = MappingProxyType({})
DOUBT = 0.85  # what one contradiction leaves of the confidence

_ADVICE = {
    Restart.YES: "Restart it",
    Restart.ONCE: "One restart is worth a try",
    Restart.AFTER_CHANGE: "A person must change something before it runs again",
}


def diagnose(
    facts: AttemptFacts,
    finding: Finding,
    history: Sequence[PastFailure] = (),
    suspects: Mapping[str, str] = _NO_SUSPECTS,
) -> Diagnosis:
    """The verdict on `finding`. `history` holds the run's earlier failures, oldest first.

    `suspects`: those of the attempt's nodes that other jobs' failures make suspects, each with why.

    Nodes to exclude are always nodes of the attempt, whatever a log claims.
    """
    clues = gather(facts)
    verdict = with_history(judge(facts, finding, clues), facts, history, suspects)
    verdict = _already_requeued(_with_contradictions(verdict, facts, clues), facts)
    return _diagnosis(verdict, facts, clues, finding.evidence)


def healthy(facts: AttemptFacts) -> Diagnosis:
    """The verdict where `detect` found nothing: completed, not_a_failure, not_resumed, numerics; unknown if blind."""
    return _diagnosis(settle_verdict(facts), facts, gather(facts), ())


def speaks_of_failure(facts: AttemptFacts) -> bool:
    """Whether a log or a node event speaks of a failure that the training did not survive.

    For the case where a log is all there is, and no scheduler says how the job ended.
    """
    clues = gather(facts)
    return bool(clues.causes or clues.consequences)


def _with_contradictions(verdict: Verdict, facts: AttemptFacts, clues: Clues) -> Verdict:
    doubts, restart = list(verdict.doubts), verdict.restart
    if facts.state is JobState.COMPLETED:
        doubts.append("Slurm says that the job completed")
        if restart is Restart.YES and not any(facts.step_exit_codes):
            restart = Restart.ONCE  # it may have done its work, for all that Slurm knows
    said = {c.rule.failure_class for c in clues.causes if c.rule.id.startswith("slurm.")}
    if facts.state is JobState.FAILED and said & {FailureClass.EXTERNAL_CANCEL, FailureClass.PREEMPTION}:
        doubts.append("the log speaks of a cancelled or preempted step, Slurm's record of a failed job")
    if facts.blind_reason and verdict.clue is None:
        doubts.append("the job's log could not be read")
    return replace(verdict, restart=restart, doubts=tuple(dict.fromkeys(doubts)))


def _already_requeued(verdict: Verdict, facts: AttemptFacts) -> Verdict:
    """The class stays the cause's; there is nothing left to do about it."""
    requeued = facts.requeued_by_slurm or facts.state is JobState.REQUEUED
    if not requeued or verdict.restart is Restart.NO or facts.state_reason in HELD:
        return verdict
    reason = f"{verdict.reason.rstrip('.')}. Slurm has already requeued it."
    return replace(verdict, restart=Restart.NO, exclude=Exclude.NONE, nodes=(), reason=reason)


def _diagnosis(verdict: Verdict, facts: AttemptFacts, clues: Clues, found: tuple[Evidence, ...]) -> Diagnosis:
    covered = coverage(facts, clues)
    if verdict.doubts:
        covered["contradictions"] = "; ".join(verdict.doubts)
    covered["what would change it"] = what_would_change(verdict, facts)
    return Diagnosis(
        failure_class=verdict.failure_class,
        restart=verdict.restart,
        exclude=verdict.exclude,
        nodes=verdict.nodes,
        confidence=round(verdict.confidence * DOUBT ** len(verdict.doubts), 2),
        reason=_reason(verdict),
        evidence=_evidence(verdict, clues, found),
        first_failure=_first_failure(verdict, clues),
        coverage=covered,
    )


def _reason(verdict: Verdict) -> str:
    advice = _ADVICE.get(verdict.restart, "")
    if advice and verdict.nodes:
        advice += f" without {listed(verdict.nodes)}"
    doubt = f"Doubtful: {'; '.join(verdict.doubts)}" if verdict.doubts else ""
    return " ".join([verdict.reason, *(f"{part}." for part in (advice, doubt) if part)])[:MAX_REASON]


def _evidence(verdict: Verdict, clues: Clues, found: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """The deciding line first, then the detector's, then one clue of each kind, causes before consequences.

    What many say alike comes last: a thousand victims would leave no room for the one rank that tells another story.
    """
    decided = [verdict.clue.evidence] if verdict.clue else []
    kinds: dict[tuple[str, str], Evidence] = {}
    for clue in clues.all:
        kinds.setdefault((clue.rule.id, how_far(clue)), clue.evidence)
    lines = [*decided, *found, *kinds.values(), *(c.evidence for c in clues.all)]
    return tuple(dict.fromkeys(lines))[:MAX_EVIDENCE]


def _first_failure(verdict: Verdict, clues: Clues) -> Evidence | None:
    if verdict.clue is not None:
        return verdict.clue.evidence
    first = first_cause(clues.causes)
    if first is not None:
        return first.clue.evidence
    return clues.consequences[0].evidence if clues.consequences else None
