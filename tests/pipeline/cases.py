"""An open case on the scripted controller, and what people do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recovery.access import actor_for
from recovery.core.lifecycle import ActionState
from recovery.core.types import ActionKind
from recovery.models import Action, Recommendation
from recovery.pipeline import decide, propose

if TYPE_CHECKING:
    from tests.pipeline.conftest import Desk

SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n"


class Case:
    """An open case and the people around it."""

    def __init__(self, desk: Desk, operator: Any, approver: Any) -> None:
        self.desk, self.operator, self.approver = desk, actor_for(operator), actor_for(approver)

    def propose(self, action: ActionKind, *, nodes: tuple[str, ...] = (), **parameters: Any) -> Recommendation:
        return propose.propose(
            self.desk.incident.pk, action=action, parameters=parameters, exclude_nodes=nodes, reason="it must be",
            actor=self.operator, client=self.desk.slurm, now=self.desk.now,
        )  # fmt: skip

    def approve(self, row: Recommendation | None = None) -> None:
        row = row or self.desk.recommendation
        decide.approve(row.pk, shown_hash=row.hash, actor=self.approver, now=self.desk.now)

    def do(self, action: ActionKind, *, nodes: tuple[str, ...] = (), **parameters: Any) -> Action:
        self.approve(self.propose(action, nodes=nodes, **parameters))
        return self.settle()

    def settle(self) -> Action:
        for _ in range(20):
            self.desk.tick(seconds=5)
            action = Action.objects.latest("pk")
            if action.state not in (ActionState.INTENDED, ActionState.CALLED):
                return action
        raise AssertionError(f"the action does not end: {action.state}, {action.detail}")

    def undo(self, action: Action) -> Action:
        row = propose.undo(
            action.pk, reason="a mistake", actor=self.operator, client=self.desk.slurm, now=self.desk.now
        )
        self.approve(row)
        return self.settle()
