"""The order in which the kinds of evidence are asked; the first that speaks decides (see the package's docstring)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recovery.core.diagnose import scheduler
from recovery.core.diagnose.clues import ONE_STORY, Clue, Clues, first_cause
from recovery.core.diagnose.elastic import ENDED, first_to_end
from recovery.core.diagnose.exits import as_nvrx_says, by_status, held_by_slurm
from recovery.core.diagnose.one_node import missing_there_only
from recovery.core.diagnose.sequences import in_step
from recovery.core.diagnose.tracebacks import without_bystanders
from recovery.core.diagnose.verdict import Verdict, of_clue, placed
from recovery.core.types import (
    AttemptFacts,
    Exclude,
    FailureClass,
    Finding,
    FindingKind,
    JobState,
    Restart,
)

C = FailureClass
# The same fault on so many nodes at once is no fault of each of them.
MANY_NODES = 3
MANY_PORTS = 2  # of a fabric, two ends are enough
# What Slurm says of a whole job; where its own record says something else, such a line spoke of one step.
_OF_THE_JOB = frozenset({C.EXTERNAL_CANCEL, C.PREEMPTION, C.NOT_A_FAILURE})


def judge(facts: AttemptFacts, finding: Finding, clues: Clues) -> Verdict:
    """The verdict of the evidence, before history and contradictions are weighed in."""
    match finding.kind:
        case FindingKind.SLOWDOWN:
            return _slow(finding)
        case FindingKind.UNDOING:
            return Verdict(failure_class=C.NOT_A_FAILURE, restart=Restart.NO, reason=finding.reason)
        case FindingKind.LIMIT_NEAR:
            return Verdict(failure_class=C.WALLTIME, restart=Restart.NO, confidence=0.8, reason=finding.reason)
        case FindingKind.HANG:
            return _by_cause(facts, clues) or _hang(finding, clues)
        case FindingKind.CRASH:
            verdict = (
                scheduler.cancelled(facts, clues)
                or scheduler.ended_by_slurm(facts, clues)
                or _by_cause(facts, clues)
                or _by_consequence(facts, clues)
                or _by_context(clues)
                or _without_words(facts)
            )
            return as_nvrx_says(facts, verdict)


# --- a cause ----------------------------------------------------------------------------------------------------------


def _by_cause(facts: AttemptFacts, clues: Clues) -> Verdict | None:
    causes = [c for c in clues.causes if _believable(c, facts) and not _aftermath(c, clues)]
    causes = without_bystanders(causes, clues.confirmations)
    first = first_cause(causes)
    if first is None:
        return None
    clue = first.clue
    if clue.rule.failure_class is C.NODE_FAULT and clue.rule.id.startswith("node."):
        return scheduler.node_failure(facts, clues)
    if clue.rule.failure_class is C.WALLTIME and (limit := scheduler.out_of_time(facts, clues, clue)):
        return limit
    told = _by_its_kernel(clue, causes)
    verdict = _without_traceback(of_clue(told, doubt=first.doubt), clues)
    verdict = missing_there_only(_on_many_nodes(verdict, causes), causes, clues.consequences)
    return _on_its_word_alone(verdict, facts, clues)


_SPOKEN = re.compile(
    r"\w(?:Error|Exception)\b|\b(?:NCCL WARN|ERROR|CRITICAL|FATAL)\b|what\(\):|\[[EF]\d{4} |terminated with exception"
)


def _on_its_word_alone(verdict: Verdict, facts: AttemptFacts, clues: Clues) -> Verdict:
    """A job may print any text, the words of a broken GPU too: without a sign that a process died of it, no node goes.

    Such signs are a traceback, what srun and the launcher report, victims, or an error's name or level in the line.
    """
    clue = verdict.clue
    if verdict.exclude is not Exclude.NODES or clue is None or clue.source == "node" or facts.state is JobState.UNKNOWN:
        return verdict
    if clues.consequences or clues.confirmations or _SPOKEN.search(clue.evidence.text):
        return verdict
    if clue.rule.id.startswith(("slurm.", "srun.")) or any(c.source == "node" for c in clues.causes):
        return verdict
    doubt = "nothing else says that a process died of it, and a job may print any text"
    return replace(
        verdict,
        restart=Restart.ONCE,
        exclude=Exclude.IF_REPEATED,
        nodes=(),
        confidence=min(verdict.confidence, 0.6),
        doubts=(*verdict.doubts, doubt),
    )


def _believable(clue: Clue, facts: AttemptFacts) -> bool:
    """Slurm's lines about the whole job are taken from a log only where its own record is missing."""
    if not clue.rule.id.startswith("slurm.") or facts.state in (JobState.UNKNOWN, JobState.REQUEUED):
        return True
    return clue.rule.failure_class not in _OF_THE_JOB


def _aftermath(clue: Clue, clues: Clues) -> bool:
    """An exception that nobody knows, after a rank has reported a lost peer or a time-out, tells of that only."""
    if clue.rule.id != "python.other_error":
        return False
    told = (c for c in clues.consequences if c.rule.failure_class is not C.UNKNOWN and c.source == clue.source)
    return any((c.evidence.line or 0) < (clue.evidence.line or 0) for c in told)


def _by_its_kernel(clue: Clue, causes: Sequence[Clue]) -> Clue:
    """A process sees only that its GPU failed; the driver's Xid on the same node says what is wrong with it.

    A contained memory error (Xid 94), say, is uncorrectable to the process, and yet no reason to exclude the node.
    Hearsay may spare a node, never condemn one.
    """
    if clue.rule.failure_class is not C.GPU_HARDWARE or not clue.rule.id.startswith("cuda."):
        return clue
    said = [
        c
        for c in causes
        if c.rule.id.startswith("xid.")
        and c.rule.failure_class is C.GPU_HARDWARE
        and (not clue.nodes or set(c.nodes) & set(clue.nodes))
        and not (c.hearsay and c.rule.exclude is Exclude.NODES)
        and (c.at is None or clue.at is None or abs(c.at - clue.at) <= ONE_STORY)
    ]
    return next((c for c in said if c.rule.exclude is Exclude.NODES), said[0] if said else clue)


def _without_traceback(verdict: Verdict, clues: Clues) -> Verdict:
    """An exception's last line without a traceback before it may be a mere message."""
    clue = verdict.clue
    if clue is None or clue.rule.id not in ("python.user_error", "python.other_error"):
        return verdict
    headers = (c.evidence for c in clues.confirmations if c.rule.id == "python.traceback")
    if any(h.source == clue.source and (h.line or 0) < (clue.evidence.line or 0) for h in headers):
        return verdict
    return replace(verdict, confidence=min(verdict.confidence, 0.6))


def _on_many_nodes(verdict: Verdict, causes: Sequence[Clue]) -> Verdict:
    clue = verdict.clue
    if clue is None:
        return verdict
    nodes = tuple(dict.fromkeys(n for c in causes if c.rule.id == clue.rule.id for n in c.nodes))
    if verdict.failure_class is C.USER_CODE and verdict.exclude is Exclude.IF_REPEATED and len(nodes) >= MANY_NODES:
        reason = f"{verdict.reason.rstrip('.')}; {len(nodes)} nodes report the same, so it is the code or its data."
        return replace(verdict, exclude=Exclude.NONE, reason=reason)
    if verdict.exclude is not Exclude.NODES:
        return verdict
    if len(nodes) < (MANY_PORTS if verdict.failure_class is C.NETWORK_FABRIC else MANY_NODES):
        return verdict
    reason = f"{verdict.reason.rstrip('.')}; {len(nodes)} nodes report the same, so none is excluded for it."
    return replace(verdict, exclude=Exclude.HOLD, nodes=(), reason=reason)


# --- no cause ---------------------------------------------------------------------------------------------------------


def _slow(finding: Finding) -> Verdict:
    """Advice only: a slow job works, and which node is to blame is not proven."""
    return Verdict(failure_class=C.STRAGGLER, restart=Restart.NO, confidence=finding.confidence, reason=finding.reason)


def _hang(finding: Finding, clues: Clues) -> Verdict:
    collective = scheduler.first_of(clues.consequences, C.HANG_COLLECTIVE)
    if collective is None:
        return Verdict(
            failure_class=C.HANG_SILENT,
            restart=Restart.ONCE,
            confidence=min(0.85, finding.confidence),
            reason=finding.reason,
        )
    reason = f"{finding.reason.rstrip('.')}. {collective.rule.sentence}"
    return in_step(replace(of_clue(collective), confidence=min(0.9, finding.confidence), reason=reason), clues)


def _by_consequence(facts: AttemptFacts, clues: Clues) -> Verdict | None:
    """The victims' word alone: the surest of their lines decides, and no node is blamed for it."""
    telling = [c for c in clues.consequences if c.rule.failure_class is not C.UNKNOWN]
    if not telling:
        return None
    clue = max(telling, key=lambda c: c.rule.confidence)
    verdict = of_clue(clue)
    if facts.last_step is None and clue.rule.failure_class is C.NETWORK_FABRIC:
        reason = f"{clue.rule.sentence.rstrip('.')}, before the first step."
        return replace(verdict, failure_class=C.RENDEZVOUS, reason=reason)
    verdict = replace(verdict, reason=f"{verdict.reason.rstrip('.')}; what caused it was not seen.")
    return _ended_before(in_step(verdict, clues), facts, clues)


def _ended_before(verdict: Verdict, facts: AttemptFacts, clues: Clues) -> Verdict:
    """Who waits in a collective for a process that had ended before is its victim, whoever of them speaks louder."""
    if verdict.failure_class is not C.HANG_COLLECTIVE:
        return verdict
    waiting = {c.rule.id for c in clues.consequences if c.rule.failure_class is C.HANG_COLLECTIVE}
    rank = first_to_end(facts.signals, [s for s in facts.signals if s.rule in waiting])
    said = next((c for c in clues.consequences if c.evidence.rank == rank and c.rule.id in ENDED), None)
    if rank is None or said is None:
        return verdict
    told = placed("A process had ended before the others waited for it in vain", said)
    if said.rule.failure_class is not C.UNKNOWN:
        cause = said.rule.sentence[:1].lower() + said.rule.sentence[1:]
        return replace(of_clue(said), reason=f"{told.rstrip('.')}: {cause}")
    return replace(verdict, failure_class=C.UNKNOWN, confidence=0.5, reason=f"{told.rstrip('.')}; why was not seen.")


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
    if held := held_by_slurm(facts):
        return held
    if facts.state is JobState.REQUEUED:
        return Verdict(
            failure_class=C.NOT_A_FAILURE,
            restart=Restart.NO,
            confidence=0.8,
            reason="Somebody put the job back into the queue; nothing says that it had failed.",
        )
    return by_status(facts)
