"""Verification: did the restarted job continue where it was expected to, by when must it, and what would it destroy?

A restarted job is not a recovered job. Only what is seen counts: the checkpoint that the trainer says it loaded, its
word that it starts without one, the first step it reports, the tracker file, and the next checkpoint.
"""

from recovery.core.verify.advice import advise
from recovery.core.verify.danger import Danger, danger_ahead, save_interval
from recovery.core.verify.deadlines import Deadline, Start, checkpoint_time, first_step_time, restore_time
from recovery.core.verify.record import Check, CheckKey, CheckState, Place
from recovery.core.verify.restore import Restore, RestoreVerdict, Source, Told, judge_restore

__all__ = [
    "Check",
    "CheckKey",
    "CheckState",
    "Danger",
    "Deadline",
    "Place",
    "Restore",
    "RestoreVerdict",
    "Source",
    "Start",
    "Told",
    "advise",
    "checkpoint_time",
    "danger_ahead",
    "first_step_time",
    "judge_restore",
    "restore_time",
    "save_interval",
]  # fmt: skip
