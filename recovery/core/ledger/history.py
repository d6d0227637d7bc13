"""What a ledger is kept from: everything known of one run, as frozen values.

Times are timezone-aware. An `end` of None means: still so. `attempt` is any number that is one attempt's own within the
history (its row's id); whatever names an attempt that the history doesn't hold is left aside. Order and repetition mean
nothing. What is dated after the moment of the ledger is not known yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from recovery.core.lifecycle import IncidentState
from recovery.core.types import FailureClass, FindingKind, JobState, Outcome, Phase

# Classes that name no failure: the stop was wanted, or there was none.
WANTED = frozenset({FailureClass.EXTERNAL_CANCEL, FailureClass.COMPLETED, FailureClass.NOT_A_FAILURE})


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptSpan:
    """One attempt from its submission to its end, by the scheduler's word.

    `ended_at` of an attempt that the controller stopped listing is the moment since when it is unknown.
    """

    attempt: int
    job: int  # attempts of one job follow each other and never overlap
    number: int
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    gpus: int  # of the allocation, held from start to end
    state: JobState


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseSpan:
    attempt: int
    phase: Phase
    start: datetime
    end: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BlindSpan:
    """The attempt couldn't be observed."""

    attempt: int
    start: datetime
    end: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowSpan:
    """A slowdown, from the first slow report to the report that was quick again."""

    attempt: int
    start: datetime
    end: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSeen:
    """One sample, reduced to what a ledger needs. Of one rank only: ranks report at different moments."""

    attempt: int
    at: datetime
    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """The trainer said where it continues: the step that it loaded, 0 where it starts without a checkpoint."""

    attempt: int
    at: datetime
    step: int
    began_at: datetime | None = None  # when it began to load, where it says so


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointDone:
    """A complete checkpoint. `attempt` is its writer where the log tells."""

    step: int
    completed_at: datetime
    attempt: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseChange:
    """An incident came into this state."""

    at: datetime
    state: IncidentState


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseClocks:
    """One incident: its moments, named as its row names them, and every change of its state."""

    incident: int
    attempt: int  # the one that failed
    kind: FindingKind
    failed_at: datetime
    detected_at: datetime
    recommended_at: datetime | None = None
    decided_at: datetime | None = None
    acted_at: datetime | None = None
    restored_at: datetime | None = None
    checkpoint_at: datetime | None = None
    closed_at: datetime | None = None
    failed_step: int | None = None
    restored_step: int | None = None
    changes: tuple[CaseChange, ...] = ()
    failure_class: FailureClass | None = None  # None: not diagnosed
    outcome: Outcome | None = None  # None: open

    @property
    def fault_at(self) -> datetime:
        """When the fault began; one that is dated after its detection began then."""
        return min(self.failed_at, self.detected_at)

    @property
    def is_stop(self) -> bool:
        """Whether the run stood still: a slow run goes on, and is told by its slow spans; one near its limit too."""
        return self.kind.is_stop

    @property
    def is_interruption(self) -> bool:
        """Whether the run stopped by a failure that it didn't want (docs/ledger.md, Incidents).

        The class decides. Where it names nothing, the outcome does, but not of a case that was acted upon: there it
        tells how the restarted job ended, and what had stopped the one before was a failure.
        """
        if not self.is_stop or self.outcome is Outcome.FALSE_ALARM or self.failure_class in WANTED:
            return False
        unexplained = self.failure_class in (None, FailureClass.UNKNOWN)
        return not (unexplained and self.outcome is Outcome.STOPPED_ON_PURPOSE and self.acted_at is None)


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """Everything known of one run.

    `sees_checkpoints`: its complete checkpoints can be seen, in its folder or by the trainer's word. Where they can't,
    no work is called lost merely because no checkpoint of it is known.
    """

    attempts: tuple[AttemptSpan, ...] = ()
    phases: tuple[PhaseSpan, ...] = ()
    blind: tuple[BlindSpan, ...] = ()
    slow: tuple[SlowSpan, ...] = ()
    steps: tuple[StepSeen, ...] = ()
    restores: tuple[Restored, ...] = ()
    checkpoints: tuple[CheckpointDone, ...] = ()
    cases: tuple[CaseClocks, ...] = ()
    sees_checkpoints: bool = True
