"""How categories and gaps read on every page; their colours are in static/css/reports.css."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recovery.core.ledger.entries import Category
from recovery.core.ledger.totals import PRODUCTIVE

C = Category


@dataclass(frozen=True, slots=True)
class CategoryWords:
    label: str
    sentence: str


CATEGORY_WORDS: Mapping[Category, CategoryWords] = {
    C.KEPT: CategoryWords("Kept", "Trained, and in a complete checkpoint, or a later attempt continued from there."),
    C.NOT_YET_KEPT: CategoryWords("Not yet kept", "Trained, and in no complete checkpoint yet."),
    C.SLOWED: CategoryWords("Slowed", "Trained and not lost, at less than the attempt's own pace."),
    C.LOST: CategoryWords("Lost", "Trained, but the run continued from before it, or ended without it."),
    C.SAVING: CategoryWords("Saving", "A checkpoint was saved while training stood still."),
    C.EVALUATING: CategoryWords("Evaluating", "An evaluation ran while training stood still."),
    C.RESTORE: CategoryWords("Restore", "Until the trainer said that its checkpoint was loaded."),
    C.START_UP: CategoryWords("Start-up", "Before the first step: processes, set-up, compilation."),
    C.UNKNOWN: CategoryWords("Unknown", "An attempt ran, and couldn't be observed."),
    C.ACTING: CategoryWords("Acting", "From the decision until the action was seen to have converged."),
    C.QUEUE_WAIT: CategoryWords("Queue", "Submitted and not started."),
    C.STALLED: CategoryWords("Stalled", "From the fault to its detection."),
    C.DECIDING: CategoryWords("Deciding", "From the detection to the decision, and while a case needed a person."),
    C.IDLE: CategoryWords("Idle", "After a failure while nobody was about to do anything, or between two jobs."),
}

# From the bottom of a picture to its top: what survived first, then what could have been avoided, then the rest.
PICTURE_ORDER = (
    *PRODUCTIVE, C.LOST, C.STALLED, C.DECIDING, C.ACTING, C.RESTORE, C.START_UP, C.SAVING, C.EVALUATING, C.QUEUE_WAIT,
    C.IDLE, C.UNKNOWN,
)  # fmt: skip

GAP_LABELS: Mapping[str, str] = {
    "detect": "Time to detect",
    "recommend": "… to recommend",
    "decide": "… to decide",
    "act": "… to act",
    "restore": "… to restore",
    "next_checkpoint": "… to the next checkpoint",
    "total": "From the fault to the next checkpoint",
}
