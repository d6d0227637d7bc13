"""The ledger: every second of a run's wall time in exactly one category (docs/ledger.md).

`history` says what is known, `keep_ledger` puts each moment where it belongs, `totals` and `summary` add up.
"""

from recovery.core.ledger.entries import Category, Entry, Ledger, Tail
from recovery.core.ledger.history import (
    AttemptSpan,
    BlindSpan,
    CaseChange,
    CaseClocks,
    CheckpointDone,
    History,
    PhaseSpan,
    Restored,
    SlowSpan,
    StepSeen,
)
from recovery.core.ledger.incidents import Cost, Gaps, IncidentAccount, gaps_of, incident_accounts
from recovery.core.ledger.keep import extend_ledger, keep_ledger
from recovery.core.ledger.replay import replay_phases, unseen_since
from recovery.core.ledger.summary import (
    Spread,
    Summary,
    badput,
    combine,
    effective_training_time_ratio,
    goodput,
    gpu_goodput,
    grouped,
    interruptions_per_1000_gpu_hours,
    spread,
    summarise,
    within,
)
from recovery.core.ledger.totals import PRODUCTIVE, Totals, clip, totals_by_window, totals_of

__all__ = [
    "PRODUCTIVE",
    "AttemptSpan",
    "BlindSpan",
    "CaseChange",
    "CaseClocks",
    "Category",
    "CheckpointDone",
    "Cost",
    "Entry",
    "Gaps",
    "History",
    "IncidentAccount",
    "Ledger",
    "PhaseSpan",
    "Restored",
    "SlowSpan",
    "Spread",
    "StepSeen",
    "Summary",
    "Tail",
    "Totals",
    "badput",
    "clip",
    "combine",
    "effective_training_time_ratio",
    "extend_ledger",
    "gaps_of",
    "goodput",
    "gpu_goodput",
    "grouped",
    "incident_accounts",
    "interruptions_per_1000_gpu_hours",
    "keep_ledger",
    "replay_phases",
    "spread",
    "summarise",
    "totals_by_window",
    "totals_of",
    "unseen_since",
    "within",
]
