"""Part of act: what became of an action's calls, by their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recovery.core.plans import Step
from recovery.models import Action

REFUSED, FOR_NOW = "refused: ", "refused for now: "  # how the result of a call begins that Slurm said no to
ACCEPTED = "accepted"


def was_refused(call: Mapping[str, Any]) -> bool:
    return str(call.get("result", "")).startswith((REFUSED, FOR_NOW))


def begun_in(action: Action) -> frozenset[str]:
    """Operations that may have had an effect: a call was begun that Slurm did not refuse for good.

    What shows although all calls were refused is somebody else's doing. Our key is tried once, whatever the answer.
    """
    return frozenset(
        call["operation"]
        for call in action.calls
        if call["operation"] == Step.SET_ADMIN_COMMENT or not str(call.get("result", "")).startswith(REFUSED)
    )


def accepted_in(action: Action) -> frozenset[str]:
    """Operations to whose last call Slurm said yes."""
    last = {call["operation"]: str(call.get("result", "")) for call in action.calls}
    return frozenset(operation for operation, result in last.items() if result.startswith(ACCEPTED))
