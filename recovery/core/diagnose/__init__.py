"""Diagnosis: from facts to a verdict with its reason.

Precedence, the first that speaks decides:

1. a person cancelled the job;
2. the scheduler's own truth: time limit, preemption, node failure, memory limit;
3. the earliest cause in logs and node events (clues.first_cause says what "earliest" means);
4. consequences without a cause: what the victims of something unseen report;
5. exit codes and signals;
6. unknown, which is an honest answer.

Then the run's history, whether Slurm itself has already requeued the job, and contradictions are weighed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recovery.core.diagnose import scheduler
from recovery.core.diagnose.clues import Clue, Clues, first_cause, gather
from recovery.core.diagnose.coverage import coverage
from recovery.core.diagnose.exits import by_status
from recovery.core.diagnose.history import with_history
from recovery.core.diagnose.verdict import Verdict, of_clue
from recovery.core.speech import listed
from recovery.core.types import (
    AttemptFacts,
    Diagnosis,
    Evidence,
    Exclude,
    FailureClass,
    Finding,
    FindingKind,
    JobState,
    PastFailure,
    Restart,
)

__all__ = ["diagnose", "healthy"]

C = FailureClass
MAX_EVIDENCE = 12
DOUBT = 0.85  # what one contradiction leaves of the confidence


def diagnose(facts: AttemptFacts, finding: Finding, history: Sequence[PastFailure] = ()) -> Diagnosis:
    """The verdict on `finding`. `history` holds the run's earlier failures, oldest first.

    Nodes to exclude are always nodes of the attempt, whatever a log claims.
    """
    clues = gather(facts)
    verdict = _judge(facts, finding, clues)
    verdict = _with_contradictions(verdict, facts, clues)
    verdict = with_history(verdict, facts, history)
    verdict = _already_requeued(verdict, facts)
    return _diagnosis(verdict, facts, finding, clues)


def _judge(facts: AttemptFacts, finding: Finding, clues: Clues) -> Verdict:
    if finding.kind is FindingKind.SLOWDOWN:
        return Verdict(
            failure_class=C.STRAGGLER, restart=Restart.NO, confidence=finding.confidence, reason=finding.reason
        )
    if finding.kind is FindingKind.CRASH:
        by_slurm = scheduler.cancelled(facts, clues) or scheduler.ended_by_slurm(facts, clues)
        if by_slurm is not None:
            return by_slurm
    if by_cause := _by_cause(facts, clues):
        return by_cause
    if finding.kind is FindingKind.HANG:
        return _hang(finding, clues)
    return _by_consequence(facts, clues) or _by_context(clues) or _without_words(facts)


def _by_cause(facts: AttemptFacts, clues: Clues) -> Verdict | None:
    causes = [c for c in clues.causes if _believable(c, facts)]
    first = first_cause(causes)
    if first is None:
        return None
    clue = first.clue
    if clue.rule.failure_class is C.NODE_FAULT and clue.source == "node":
        return scheduler.node_failure(facts, clues)
    if clue.rule.failure_class is C.WALLTIME and scheduler.advanced_to(facts) is None:
        return replace(of_clue(clue, doubt=first.doubt), restart=_without_advance(facts))
    return _one_among_many(of_clue(clue, doubt=first.doubt), causes)


def _believable(clue: Clue, facts: AttemptFacts) -> bool:
    """Slurm's lines in a log are only taken from the log where its own record is missing or agrees.

    A job that FAILED was not cancelled, preempted or timed out as a whole: such a line then speaks of one step only.
    """
    if not clue.rule.id.startswith("slurm.") or facts.state in (JobState.UNKNOWN, JobState.REQUEUED):
        return True
    return clue.rule.failure_class not in (C.EXTERNAL_CANCEL, C.PREEMPTION, C.NOT_A_FAILURE)


def _without_advance(facts: AttemptFacts) -> Restart:
    return Restart.AFTER_CHANGE if facts.checkpoints or facts.last_step is not None else Restart.ONCE


def _one_among_many(verdict: Verdict, causes: Sequence[Clue]) -> Verdict:
    """The same fault on many nodes at once is no fault of each: an incident of the fabric, or of the code."""
    clue = verdict.clue
    if clue is None or verdict.exclude is not Exclude.NODES:
        return verdict
    nodes = tuple(dict.fromkeys(n for c in causes if c.rule.id == clue.rule.id for n in c.nodes))
    if len(nodes) < 3:
        return verdict
    return replace(
        verdict,
        exclude=Exclude.HOLD,
        nodes=(),
        reason=f"{verdict.reason.rstrip('.')}; {len(nodes)} nodes report the same, so none is excluded for it.",
    )


def _hang(finding: Finding, clues: Clues) -> Verdict:
    collective = next((c for c in clues.consequences if c.rule.failure_class is C.HANG_COLLECTIVE), None)
    if collective is not None:
        return replace(
            of_clue(collective), confidence=min(0.9, finding.confidence), reason=_joined(finding, collective)
        )
    return Verdict(
        failure_class=C.HANG_SILENT,
        restart=Restart.ONCE,
        confidence=min(0.85, finding.confidence),
        reason=finding.reason,
    )


def _joined(finding: Finding, clue: Clue) -> str:
    return f"{finding.reason.rstrip('.')}. {clue.rule.sentence}"


def _by_consequence(facts: AttemptFacts, clues: Clues) -> Verdict | None:
    """The victims' word alone: the surest of their lines decides, and no node is blamed for it."""
    telling = [c for c in clues.consequences if c.rule.failure_class is not C.UNKNOWN]
    if not telling:
        return None
    clue = max(telling, key=lambda c: c.rule.confidence)
    verdict = of_clue(clue)
    if facts.last_step is None and clue.rule.failure_class is C.NETWORK_FABRIC:
        return replace(
            verdict, failure_class=C.RENDEZVOUS, reason=f"{clue.rule.sentence.rstrip('.')}, before the first step."
        )
    return replace(verdict, reason=f"{verdict.reason.rstrip('.')}; what caused it was not seen.")


def _by_context(clues: Clues) -> Verdict | None:
    """A traceback whose last line nobody knows, with no consequence that explains it."""
    header = next((c for c in clues.confirmations if c.rule.id == "python.traceback"), None)
    if header is None or clues.consequences:
        return None
    return Verdict(
        failure_class=C.USER_CODE,
        restart=Restart.AFTER_CHANGE,
        confidence=0.5,
        reason="The job's code ended with a Python traceback whose last line is not known.",
        clue=header,
    )


def _without_words(facts: AttemptFacts) -> Verdict:
    if facts.state is JobState.REQUEUED:
        return Verdict(
            failure_class=C.NOT_A_FAILURE,
            restart=Restart.NO,
            confidence=0.8,
            reason="Somebody put the job back into the queue; nothing says that it had failed.",
        )
    return by_status(facts)


# --- what is weighed in afterwards ------------------------------------------------------------------------------------


def _with_contradictions(verdict: Verdict, facts: AttemptFacts, clues: Clues) -> Verdict:
    doubts = list(verdict.doubts)
    if facts.state is JobState.COMPLETED and verdict.failure_class is not C.COMPLETED:
        doubts.append("Slurm says that the job completed")
    said = {c.rule.failure_class for c in clues.causes if c.rule.id.startswith("slurm.")}
    if facts.state is JobState.FAILED and said & {C.EXTERNAL_CANCEL, C.PREEMPTION, C.NOT_A_FAILURE}:
        doubts.append("the log speaks of a cancelled or preempted step, Slurm's record of a failed job")
    if facts.blind_reason and verdict.clue is None:
        doubts.append("the job's log could not be read")
    return replace(verdict, doubts=tuple(dict.fromkeys(doubts)))


def _already_requeued(verdict: Verdict, facts: AttemptFacts) -> Verdict:
    if not (facts.requeued_by_slurm or facts.state is JobState.REQUEUED) or verdict.restart is Restart.NO:
        return verdict
    reason = f"{verdict.reason.rstrip('.')}. Slurm has already requeued it."
    return replace(verdict, restart=Restart.NO, exclude=Exclude.NONE, nodes=(), reason=reason)


_ADVICE = {
    Restart.YES: "Restart it",
    Restart.ONCE: "One restart is worth a try",
    Restart.AFTER_CHANGE: "A person must change something before it runs again",
}


def _advice(verdict: Verdict) -> str:
    advice = _ADVICE.get(verdict.restart, "")
    if advice and verdict.nodes:
        advice += f", without {listed(verdict.nodes)}"
    return f" {advice}." if advice else ""


def _diagnosis(verdict: Verdict, facts: AttemptFacts, finding: Finding, clues: Clues) -> Diagnosis:
    doubt = f" Doubtful: {'; '.join(verdict.doubts)}." if verdict.doubts else ""
    covered = coverage(facts, clues)
    if verdict.doubts:
        covered["contradictions"] = "; ".join(verdict.doubts)
    return Diagnosis(
        failure_class=verdict.failure_class,
        restart=verdict.restart,
        exclude=verdict.exclude,
        nodes=verdict.nodes,
        confidence=round(verdict.confidence * DOUBT ** len(verdict.doubts), 2),
        reason=f"{verdict.reason}{_advice(verdict)}{doubt}"[:500],
        evidence=_evidence(verdict, finding, clues),
        first_failure=_first_failure(verdict, clues),
        coverage=covered,
    )


def _evidence(verdict: Verdict, finding: Finding, clues: Clues) -> tuple[Evidence, ...]:
    """The deciding line first, then the finding's own, then the other clues: causes before consequences."""
    decided = [verdict.clue.evidence] if verdict.clue else []
    lines = [*decided, *finding.evidence, *(c.evidence for c in clues.all)]
    return tuple(dict.fromkeys(lines))[:MAX_EVIDENCE]


def _first_failure(verdict: Verdict, clues: Clues) -> Evidence | None:
    if verdict.clue is not None:
        return verdict.clue.evidence
    first = first_cause(clues.causes)
    if first is not None:
        return first.clue.evidence
    return clues.consequences[0].evidence if clues.consequences else None


def healthy(facts: AttemptFacts) -> Diagnosis:
    """The verdict where no detector found anything: done, running well, or not to be seen."""
    if facts.state is JobState.COMPLETED:
        verdict = Verdict(
            failure_class=C.COMPLETED, restart=Restart.NO, confidence=0.95, reason="The job completed its work."
        )
    elif facts.blind_reason:
        verdict = Verdict(
            failure_class=C.UNKNOWN,
            restart=Restart.NO,
            confidence=0.3,
            reason=f"The job can't be observed: {facts.blind_reason}",
        )
    else:
        verdict = Verdict(
            failure_class=C.NOT_A_FAILURE,
            restart=Restart.NO,
            confidence=0.9,
            reason=f"Nothing is wrong with the job as far as can be seen: it is {facts.state}.",
        )
    clues = gather(facts)
    return Diagnosis(
        failure_class=verdict.failure_class,
        restart=verdict.restart,
        exclude=verdict.exclude,
        nodes=(),
        confidence=verdict.confidence,
        reason=verdict.reason,
        evidence=tuple(c.evidence for c in clues.all)[:MAX_EVIDENCE],
        first_failure=None,
        coverage=coverage(facts, clues),
    )
