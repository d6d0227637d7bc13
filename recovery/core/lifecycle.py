"""States of an incident and of an action, and which changes between them are legal.

One table for pages, charts, API and docs: value, label, icon, colour and a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class IncidentState(StrEnum):
    DETECTED = "detected"
    DIAGNOSED = "diagnosed"
    RECOMMENDED = "recommended"
    AWAITING_DECISION = "awaiting_decision"
    WATCHING = "watching"
    ACTING = "acting"
    RESTORING = "restoring"
    AWAITING_CHECKPOINT = "awaiting_checkpoint"
    NEEDS_PERSON = "needs_person"
    CLOSED = "closed"


class ActionState(StrEnum):
    INTENDED = "intended"  # committed, the scheduler was not called yet
    CALLED = "called"  # at least one call was begun; what it did must be observed
    CONVERGED = "converged"
    REFUSED = "refused"  # the facts changed between approval and execution; nothing was done
    FAILED = "failed"


S = IncidentState

# Every open state may go to CLOSED: a job can end or be cancelled at any time.
TRANSITIONS: dict[IncidentState, frozenset[IncidentState]] = {
    # to DETECTED itself: a worse fault of the same attempt was seen before the first one was worked out
    S.DETECTED: frozenset({S.DETECTED, S.DIAGNOSED, S.CLOSED}),
    S.DIAGNOSED: frozenset({S.DETECTED, S.RECOMMENDED, S.CLOSED}),
    S.RECOMMENDED: frozenset({S.AWAITING_DECISION, S.WATCHING, S.ACTING, S.DETECTED, S.CLOSED}),
    # back to DETECTED: the facts changed, the case is looked at again
    # to itself: a person proposed something else
    S.AWAITING_DECISION: frozenset({S.AWAITING_DECISION, S.ACTING, S.WATCHING, S.DETECTED, S.RESTORING, S.CLOSED}),
    # nothing is done by us: observing, rejected, or a person must change something; the run may still come back
    S.WATCHING: frozenset({S.WATCHING, S.AWAITING_DECISION, S.RESTORING, S.DETECTED, S.CLOSED}),
    # to WATCHING: what was done (a hold, a drain) restarts nothing
    S.ACTING: frozenset({S.RESTORING, S.WATCHING, S.DETECTED, S.NEEDS_PERSON, S.CLOSED}),
    S.RESTORING: frozenset({S.AWAITING_CHECKPOINT, S.AWAITING_DECISION, S.NEEDS_PERSON, S.CLOSED}),
    # back to RESTORING: the run was started yet again before its checkpoint
    S.AWAITING_CHECKPOINT: frozenset({S.RESTORING, S.AWAITING_DECISION, S.NEEDS_PERSON, S.CLOSED}),
    S.NEEDS_PERSON: frozenset({S.RESTORING, S.AWAITING_DECISION, S.WATCHING, S.CLOSED}),
    S.CLOSED: frozenset(),
}

ACTION_TRANSITIONS: dict[ActionState, frozenset[ActionState]] = {
    ActionState.INTENDED: frozenset(
        {ActionState.CALLED, ActionState.CONVERGED, ActionState.REFUSED, ActionState.FAILED}
    ),
    ActionState.CALLED: frozenset({ActionState.CONVERGED, ActionState.REFUSED, ActionState.FAILED}),
    ActionState.CONVERGED: frozenset(),
    ActionState.REFUSED: frozenset(),
    ActionState.FAILED: frozenset(),
}

OPEN_STATES = frozenset(S) - {S.CLOSED}
PERSON_STATES = frozenset({S.AWAITING_DECISION, S.NEEDS_PERSON})  # what a person has to look at now


@dataclass(frozen=True, slots=True)
class StateWords:
    """How one state looks and reads everywhere. `tone` names a colour token of the style sheet."""

    label: str
    icon: str
    tone: str
    sentence: str


INCIDENT_WORDS: dict[IncidentState, StateWords] = {
    S.DETECTED: StateWords("Detected", "●", "warning", "A fault was seen; its cause is being worked out."),
    S.DIAGNOSED: StateWords(
        "Diagnosed", "●", "warning", "The cause is known as far as the evidence goes; a recommendation follows."
    ),
    S.RECOMMENDED: StateWords("Recommended", "●", "warning", "A recommendation exists; the policy is being asked."),
    S.AWAITING_DECISION: StateWords(
        "Needs a decision", "◆", "critical", "A person must approve or reject the recommendation."
    ),
    S.WATCHING: StateWords("Watching", "◌", "info", "Nothing is done to the job now; we watch whether it comes back."),
    S.ACTING: StateWords("Acting", "▶", "accent", "The action was decided; the scheduler's effect is being observed."),
    S.RESTORING: StateWords(
        "Waiting for restore", "◌", "accent", "The run was set to start again; its restored step was not seen yet."
    ),
    S.AWAITING_CHECKPOINT: StateWords(
        "Waiting for checkpoint", "◌", "accent", "Restored; the next complete checkpoint was not seen yet."
    ),
    S.NEEDS_PERSON: StateWords(
        "Needs a person", "▲", "critical", "Something is not as expected; automation stopped for this case."
    ),
    S.CLOSED: StateWords("Closed", "✓", "muted", "The case is over."),
}
