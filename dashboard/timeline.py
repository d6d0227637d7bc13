"""The five stages of an incident as they are shown: detected, recommended, acted, restored, next checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from dashboard import wording
from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import ActionKind, DecisionKind, JobState, Outcome
from recovery.core.words import OUTCOME_WORDS
from recovery.models import Action, Decision, Incident, Recommendation

S = IncidentState


class Mark(StrEnum):
    DONE = "done"
    WAITING = "waiting"
    NOT_YET = "not_yet"
    FAILED = "failed"
    NOT_NEEDED = "not_needed"


GLYPHS = {Mark.DONE: "●", Mark.WAITING: "◌", Mark.NOT_YET: "○", Mark.FAILED: "✕", Mark.NOT_NEEDED: "–"}
WORDS = {
    Mark.DONE: "done",
    Mark.WAITING: "waiting",
    Mark.NOT_YET: "not yet",
    Mark.FAILED: "failed",
    Mark.NOT_NEEDED: "not needed",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One of the five. `gap_s` is the time to the next stage that happened; None where it is not known yet."""

    key: str
    label: str
    mark: Mark
    at: datetime | None = None
    deadline: datetime | None = None  # of a stage that is waited for
    waits_for: str = ""
    detail: str = ""  # what was seen, or why it failed or is not needed
    gap_s: float | None = None
    running_since: datetime | None = None  # the gap after this stage is still growing since then

    @property
    def glyph(self) -> str:
        return GLYPHS[self.mark]

    @property
    def word(self) -> str:
        return f"{WORDS[self.mark]} for {self.waits_for}" if self.waits_for else WORDS[self.mark]

    @property
    def hint(self) -> str:
        return f"{self.word}: {self.detail}" if self.detail else self.word


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """An incident with what was proposed, decided and done last."""

    incident: Incident
    recommendation: Recommendation | None = None
    decision: Decision | None = None
    action: Action | None = None
    refused: Action | None = None  # what was tried before this recommendation, and came to nothing

    @property
    def state(self) -> IncidentState:
        return IncidentState(self.incident.state)

    @property
    def counts_gpus(self) -> bool:
        return self.incident.attempt.job.gpus > 0

    @property
    def idle(self) -> int:
        """GPUs (nodes where the job counts none) that stand idle until this goes on; none where it runs elsewhere."""
        if self.incident.attempt.job.state == JobState.REVOKED:
            return 0
        return self.recommendation.gpus_idle if self.recommendation else 0

    @property
    def cost_of_waiting(self) -> str:
        return wording.cost_of_waiting(self.idle, counts_gpus=self.counts_gpus)

    @property
    def ending(self) -> str:
        """Why it ended as it did, without the word for the outcome, which stands before it."""
        told = self.incident.outcome_reason
        word = OUTCOME_WORDS[Outcome(self.incident.outcome)].label if self.incident.outcome else ""
        rest = told.removeprefix(f"{word}: ") if word else told
        return rest[:1].upper() + rest[1:]

    def expired(self, now: datetime) -> bool:
        return self.recommendation is not None and self.recommendation.expires_at <= now

    @property
    def proposes_nothing(self) -> bool:
        return self.recommendation is not None and self.recommendation.action == ActionKind.NOTHING


def build(case: Case) -> tuple[Stage, ...]:
    """The five stages with the gaps between them."""
    incident = case.incident
    stages = [
        Stage(key="detected", label="Detected", mark=Mark.DONE, at=incident.detected_at),
        _recommended(case),
        _acted(case),
        _restored(case),
        _checkpoint(case),
    ]
    return tuple(_with_gaps(stages))


def _with_gaps(stages: list[Stage]) -> list[Stage]:
    """A gap runs from one stage that happened to the next that did; skipped stages in between carry none."""
    shown = list(stages)
    last: int | None = None
    for index, stage in enumerate(stages):
        before = stages[last] if last is not None else None
        if before is not None and before.at is not None and last is not None:
            if stage.at is not None:
                shown[last] = replace(before, gap_s=(stage.at - before.at).total_seconds())
            elif stage.mark is Mark.WAITING:
                shown[last] = replace(before, running_since=before.at)
                break
        if stage.at is not None:
            last = index
    return shown


def _recommended(case: Case) -> Stage:
    incident = case.incident
    stage = Stage(key="recommended", label="Recommended", mark=Mark.NOT_YET)
    if incident.recommended_at is not None and case.state not in (S.DETECTED, S.DIAGNOSED):
        detail = case.recommendation.headline if case.recommendation else ""
        return replace(stage, mark=Mark.DONE, at=incident.recommended_at, detail=detail)
    if case.state is S.CLOSED:
        return replace(stage, mark=Mark.NOT_NEEDED, detail="closed before a recommendation was needed")
    return replace(stage, mark=Mark.WAITING, deadline=incident.deadline_at)


def _acted(case: Case) -> Stage:
    incident, stage = case.incident, Stage(key="acted", label="Acted", mark=Mark.NOT_YET)
    if incident.resolved_by_others:
        return replace(stage, mark=Mark.NOT_NEEDED, at=incident.acted_at, detail="somebody else restarted the job")
    if incident.acted_at is not None:
        return replace(stage, mark=Mark.DONE, at=incident.acted_at, detail=case.action.detail if case.action else "")
    if case.action is not None and case.action.state in (ActionState.FAILED, ActionState.REFUSED):
        return replace(stage, mark=Mark.FAILED, detail=case.action.detail)
    if case.action is not None and case.action.state == ActionState.CONVERGED:  # one that restarts nothing: a drain
        return replace(stage, mark=Mark.DONE, at=case.action.observed_at, detail=case.action.detail)
    not_needed = _why_no_action(case)
    if not_needed:
        return replace(stage, mark=Mark.NOT_NEEDED, detail=not_needed)
    if case.state is S.AWAITING_DECISION:
        expires = case.recommendation.expires_at if case.recommendation else None
        return replace(stage, mark=Mark.WAITING, deadline=expires, waits_for="a decision")
    if case.state is S.ACTING:
        deadline = case.action.deadline_at if case.action else incident.deadline_at
        return replace(stage, mark=Mark.WAITING, deadline=deadline)
    if case.state is S.NEEDS_PERSON:
        return replace(stage, mark=Mark.FAILED, detail=incident.alarm)
    return stage


def _why_no_action(case: Case) -> str:
    """Why nothing is done to the job, or "" where something still may be."""
    if case.decision is not None and case.decision.kind == DecisionKind.REJECT:
        return f"rejected by {case.decision.actor_name}: {case.decision.reason}"
    if case.decision is not None and case.decision.kind == DecisionKind.EXPIRE:
        return "nobody decided in time"
    if case.proposes_nothing:
        return "nothing should be done to the job"
    if case.state is S.WATCHING:
        return "the policy only observes"
    if case.state is S.CLOSED or case.state in (S.RESTORING, S.AWAITING_CHECKPOINT):
        return "we did nothing to the job"
    return ""


def _restored(case: Case) -> Stage:
    incident, stage = case.incident, Stage(key="restored", label="Restored", mark=Mark.NOT_YET)
    if incident.restored_at is not None:
        mark = Mark.DONE if restored_as_expected(incident) else Mark.FAILED
        return replace(stage, mark=mark, at=incident.restored_at, detail=_restored_where(incident))
    if case.state is S.RESTORING:
        return replace(stage, mark=Mark.WAITING, deadline=incident.deadline_at)
    if case.state is S.WATCHING:
        return replace(stage, mark=Mark.WAITING, waits_for="the run to come back")
    if case.state is S.NEEDS_PERSON and incident.acted_at is not None:
        return replace(stage, mark=Mark.FAILED, detail=incident.alarm)
    return _ended(case, stage)


def _checkpoint(case: Case) -> Stage:
    incident, stage = case.incident, Stage(key="checkpoint", label="Next checkpoint", mark=Mark.NOT_YET)
    if incident.checkpoint_at is not None:
        detail = f"step {wording.steps(incident.next_checkpoint_step)} complete"
        return replace(stage, mark=Mark.DONE, at=incident.checkpoint_at, detail=detail)
    if case.state is S.AWAITING_CHECKPOINT:
        return replace(stage, mark=Mark.WAITING, deadline=incident.deadline_at)
    if case.state is S.NEEDS_PERSON and incident.restored_at is not None and restored_as_expected(incident):
        return replace(stage, mark=Mark.FAILED, detail=incident.alarm)
    return _ended(case, stage)


def restored_as_expected(incident: Incident) -> bool:
    return incident.expected_step is None or (incident.restored_step or 0) >= incident.expected_step


def _restored_where(incident: Incident) -> str:
    where = f"at step {wording.steps(incident.restored_step)}" if incident.restored_step else "from scratch"
    if restored_as_expected(incident):
        return where
    return f"{where}; step {wording.steps(incident.expected_step)} was expected"


def _ended(case: Case, stage: Stage) -> Stage:
    """A stage that an ended incident did not reach: failed where it was wanted, else not needed."""
    if case.state is not S.CLOSED:
        return stage
    wanted = case.incident.outcome in (Outcome.GAVE_UP, Outcome.NO_PROGRESS) and case.incident.acted_at is not None
    mark = Mark.FAILED if wanted else Mark.NOT_NEEDED
    return replace(stage, mark=mark, detail=case.incident.outcome_reason)
