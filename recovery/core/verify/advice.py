"""What to do where a restart did not go as expected: one text for each outcome."""

from __future__ import annotations

from recovery.core.speech import steps
from recovery.core.types import Outcome


def advise(
    trouble: Outcome,
    *,
    expected_step: int | None,
    step: int | None = None,
    in_danger: bool = False,
    unseen: str = "",
) -> str:
    """What a person should do. `step` is the one that matters: restored, failed at, or trained up to.

    `unseen`: what would make the attempt be seen, where it can't be. "" for outcomes that ask for nothing.
    """
    good = f"step {steps(expected_step)}" if expected_step is not None else "the last complete checkpoint"
    first = "Cancel the job;"
    if in_danger:
        first = f"Cancel the job before {good} is gone (a hold does not stop a job that runs). Then"
    match trouble:
        case Outcome.FROM_SCRATCH:
            return (
                f"{first} see why it did not load {good}: is the checkpoint folder passed to the trainer, does the "
                f"tracker file name it, is it whole? Start it again when it will."
            )
        case Outcome.RESTORED_OLDER:
            again = f"{steps(expected_step - step)} steps" if expected_step is not None and step is not None else "them"
            return (
                f"{first} start it again from {good} if that one is whole and the lost steps are worth it; "
                f"else let it train {again} again, and close the case as restored older."
            )
        case Outcome.SAME_FAILURE:
            return (
                f"Don't restart it again as it is: it fails at step {steps(step)} each time. Look at the first failure "
                "line; the data of that step, the code or the checkpoint must change, or an older one be restored."
            )
        case Outcome.NO_PROGRESS if unseen:
            return f"It may well train, unseen. {unseen} If the log shows no step either, cancel or requeue it."
        case Outcome.NO_PROGRESS:
            return (
                "Look at the job's log: does it still load, compile, or wait for ranks that never came? If nothing "
                "moves, cancel or requeue it; one node of its allocation may be bad."
            )
        case Outcome.NO_CHECKPOINT:
            return (
                f"Everything since {good} is lost if it stops now. Look for errors of its saves, for space and quota "
                "of the checkpoint folder, and whether it saves at all; don't let it reach its time limit like this."
            )
        case _:
            return ""
