"""Not starting: it waits for nodes that it can never get, or it runs and its ranks do not find each other.

What Slurm holds after a failed launch is a crash of its own (crash.py). A job that merely waits its turn is none of
this.
"""

from __future__ import annotations

from recovery.core.detectors.alarm import Alarm, AlarmKind
from recovery.core.detectors.alarm_limits import AlarmLimits
from recovery.core.detectors.surroundings import Surroundings, Waiting
from recovery.core.diagnose.catalogue import RULES_BY_ID
from recovery.core.speech import counted, duration, listed
from recovery.core.types import AttemptFacts, Evidence, FailureClass, JobState, Role, SignalKind

# Slurm's reasons of a pending job that no waiting ends (slurm/src/common/job_state_reason.c), with what ends it.
REFUSED = {
    "BadConstraints": "No node has what it asks for: its owner must change the constraint.",
    "DependencyNeverSatisfied": "The job that it waits for did not end as asked: change the dependency.",
    "PartitionNodeLimit": "It asks for more nodes than its partition gives: its owner must change that.",
    "PartitionTimeLimit": "It asks for more time than its partition gives: its owner must change that.",
    "PartitionDown": "Its partition is down: an administrator must bring it up.",
    "PartitionInactive": "Its partition is inactive: an administrator must activate it.",
    "AccountNotAllowed": "Its account may not use this partition: its owner must change one of them.",
    "QOSNotAllowed": "Its quality of service may not be used here: its owner must change it.",
    "InvalidAccount": "Its account is not valid: its owner must change it.",
    "InvalidQOS": "Its quality of service is not valid: its owner must change it.",
    "ReservationDeleted": "Its reservation is gone: its owner must change it.",
}


def detect_not_starting(facts: AttemptFacts, around: Surroundings, limits: AlarmLimits) -> Alarm | None:
    """An alarm where waiting alone will not start it; None otherwise, and where that is not known."""
    if facts.state is JobState.PENDING and around.waiting is not None:
        return _kept_away(around.waiting) or _refused(facts, around.waiting, limits)
    if facts.state is JobState.RUNNING and not facts.blind_reason and facts.last_step is None:
        return _scattered(facts, limits)
    return None


def _kept_away(waiting: Waiting) -> Alarm | None:
    """Our own exclusions leave it fewer nodes than it needs."""
    if not waiting.ours or waiting.eligible is None or waiting.eligible >= waiting.needs:
        return None
    reason = (
        f"It needs {counted(waiting.needs, 'node')} and can start on {waiting.eligible} only: "
        f"{listed(waiting.ours)} {'is' if len(waiting.ours) == 1 else 'are'} excluded by our doing."
    )
    remedy = "Undo the exclusion in its case, or repair the nodes: it will wait for ever otherwise."
    return _alarm(waiting, reason, remedy)


def _refused(facts: AttemptFacts, waiting: Waiting, limits: AlarmLimits) -> Alarm | None:
    remedy = REFUSED.get(facts.state_reason)
    waited = (facts.now - waiting.since).total_seconds()
    if remedy is None or waited < limits.refused_s:
        return None
    return _alarm(waiting, f"It waits for {duration(waited)}, and Slurm says {facts.state_reason}.", remedy)


def _alarm(waiting: Waiting, reason: str, remedy: str) -> Alarm:
    evidence = Evidence(
        text=reason, source="scheduler", role=Role.CONFIRMATION, rule="waiting.never", at=waiting.since
    )  # fmt: skip
    return Alarm(
        kind=AlarmKind.NOT_STARTING, since=waiting.since, reason=reason, remedy=remedy, evidence=(evidence,)
    )  # fmt: skip


def _scattered(facts: AttemptFacts, limits: AlarmLimits) -> Alarm | None:
    """Ranks said that they did not find each other, and no step has come since."""
    said = [
        s
        for s in facts.signals
        if s.kind is SignalKind.FAILURE
        and s.rule in RULES_BY_ID
        and RULES_BY_ID[s.rule].failure_class in (FailureClass.RENDEZVOUS, FailureClass.LAUNCH_CONFIG)
    ]
    if not said or said[0].at is None or (facts.now - said[0].at).total_seconds() < limits.rendezvous_s:
        return None
    first = said[0]
    since = duration((facts.now - said[0].at).total_seconds())
    reason = f"No step yet, and {since} ago it said: {RULES_BY_ID[first.rule].sentence}"
    evidence = Evidence(
        text=first.text, source=first.file, role=Role.CAUSE, rule=first.rule, line=first.line, at=first.at,
        rank=first.rank, node=first.node,
    )  # fmt: skip
    remedy = "Look at its log: where ranks wait for one that never comes, it will end by its own time-out."
    return Alarm(
        kind=AlarmKind.NOT_STARTING, since=said[0].at, reason=reason, remedy=remedy, evidence=(evidence,)
    )  # fmt: skip
