"""Part of judge and detect: what is asked for only when an attempt is silent for so long that it might hang."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from recovery.core.detectors.hang import is_silent, waits_for_a_start
from recovery.core.types import AttemptFacts
from recovery.models import Attempt
from recovery.pipeline.facts import attempt_facts, limits
from recovery.pipeline.surroundings import last_written, longest_start, stalled_with


def full_facts(attempt: Attempt, *, now: datetime) -> AttemptFacts:
    """All that is known of `attempt`, and of its silence where it is silent: what excuses it, and who shares it."""
    facts = attempt_facts(attempt, now=now)
    if not is_silent(facts, limits()):
        return facts
    return replace(
        facts, written_at=last_written(attempt), stalled_with=stalled_with(attempt, now=now),
        longest_start_s=longest_start(attempt) if waits_for_a_start(facts) else 0.0,
    )  # fmt: skip
