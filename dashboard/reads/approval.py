"""What deciding on one recommendation takes: who has agreed, who is missing, and what holds it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard import wording
from recovery.access import Actor, holds_role
from recovery.core.policy import Approval, Freeze, frozen_by
from recovery.models import Agreement, Recommendation
from recovery.models.access import Role
from recovery.pipeline import decide
from recovery.pipeline.facts import current_rules
from recovery.pipeline.subject import subject_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Needed:
    """Of a recommendation that waits, as one reader sees it."""

    approval: Approval
    agreed: tuple[Agreement, ...]  # the first one first
    missing: int
    involved: tuple[str, ...]  # who can't be the only one to agree; empty where four eyes are not asked for
    owner: str  # the job's user, where the policy counts them; else ""
    freeze: Freeze | None
    may_approve: bool
    may_reject: bool
    may_override: bool
    mine: Agreement | None

    @property
    def who(self) -> str:
        """Who is missing: "an approver", "one more approver", "2 administrators"."""
        if self.missing != 1:
            return f"{self.missing} {self.role}s"
        if self.agreed:
            return f"one more {self.role}"
        return self.article

    @property
    def role(self) -> str:
        return Role(self.approval.role).label.lower()

    @property
    def article(self) -> str:
        return f"{'an' if self.role[0] in 'aeiou' else 'a'} {self.role}"

    @property
    def override_role(self) -> str:
        return Role(self.freeze.override).label.lower() if self.freeze else ""

    @property
    def blocked(self) -> bool:
        """A freeze holds that this reader can't override."""
        return self.freeze is not None and not self.may_override

    @property
    def version(self) -> str:
        """Changes whenever it would read differently."""
        return f"{len(self.agreed)}-{self.freeze.name if self.freeze else ''}"


def needed_for(rows: Iterable[Recommendation], *, actor: Actor, now: datetime) -> dict[int, Needed]:
    """By recommendation, in three queries for all of them."""
    found, rules = list(rows), current_rules()
    agreements: dict[int, list[Agreement]] = {row.pk: [] for row in found}
    for each in Agreement.objects.filter(recommendation__in=agreements).select_related("actor"):
        agreements[each.recommendation_id].append(each)
    return {row.pk: _needed(row, agreements[row.pk], rules, actor=actor, now=now) for row in found}


def _needed(
    row: Recommendation, agreed: Sequence[Agreement], rules: Mapping[str, Any], *, actor: Actor, now: datetime
) -> Needed:
    approval = Approval(**row.approval)
    freeze = frozen_by(rules, cluster=row.incident.run.cluster.name, now=now)
    return Needed(
        approval=approval, agreed=tuple(decide.standing(row, agreed)), missing=decide.still_missing(row, agreed),
        involved=tuple(sorted(decide.involved(row))) if approval.four_eyes else (),
        owner=row.incident.run.user if approval.owner else "", freeze=freeze,
        may_approve=decide.may_approve(actor, row), may_reject=decide.may_reject(actor, row),
        may_override=freeze is not None and holds_role(actor, freeze.override, row),
        mine=next((each for each in agreed if each.actor_id == actor.user_id), None),
    )  # fmt: skip


def what_changed(shown: Recommendation) -> list[str]:
    """Why what somebody had before them holds no longer: what is different now, each as a sentence."""
    fresh = Recommendation.objects.filter(incident=shown.incident_id, superseded_at=None).first()
    if shown.superseded_at is None or fresh is None or fresh.pk == shown.pk:
        attempt = subject_of(shown.incident, shown.parameters)
        state = attempt.state.replace("_", " ")
        return [f"Slurm says now: job {attempt.job.job_id} is {state}, attempt {attempt.number}."]
    told = [f"{shown.superseded_reason}".strip()] if shown.superseded_reason else []
    before, after = _does(shown), _does(fresh)
    if before != after:
        told.append(f"You had read: {before}. Now it is: {after}.")
    if shown.restore_step != fresh.restore_step:
        told.append(f"It would restore {_step(fresh.restore_step)}, not {_step(shown.restore_step)}.")
    if before == after and shown.restore_step == fresh.restore_step:
        told.append("What is proposed is the same, for the job as it is now: read it again.")
    return told


def _does(row: Recommendation) -> str:
    return wording.action(row.action, row.exclude_nodes, row.parameters)


def _step(number: int | None) -> str:
    return "nothing" if number is None else f"step {wording.steps(number)}"
