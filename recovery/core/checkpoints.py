"""Pure rules over looks at checkpoint folders. The looking itself is done by `recovery.sources.checkpoints`."""

from __future__ import annotations

from dataclasses import dataclass

from recovery.core.types import CheckpointState


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointLook:
    """What one look at one checkpoint found.

    `state` COMPLETE means "the structure is complete at this moment"; `settle` turns looks into a verdict.
    `fingerprint` digests names, sizes and modification times of all files: equal fingerprints mean that nothing was
    written in between. `detail` says why the state isn't complete: one sentence, at most 300 characters.
    """

    step: int
    path: str
    state: CheckpointState
    detail: str
    size_bytes: int
    fingerprint: str


def settle(previous: CheckpointLook | None, look: CheckpointLook) -> CheckpointState:
    """The state to store for `look`, given the look before it (a poll earlier) at the same checkpoint.

    Only *complete* needs proof: two looks, one after the other, with equal fingerprints (facts: modification times
    alone can't be trusted, and a writer may pause). Until then it is announced. Every other state holds at once: a
    checkpoint that shows a hole must not be restored from while we wait for a second look.
    """
    if look.state is not CheckpointState.COMPLETE:
        return look.state
    unchanged = (
        previous is not None
        and previous.path == look.path
        and previous.fingerprint == look.fingerprint
        and look.fingerprint != ""
    )
    return CheckpointState.COMPLETE if unchanged else CheckpointState.ANNOUNCED
