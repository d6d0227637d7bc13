"""Forms: what people type, checked field by field, and given back whole when it can't be accepted."""

from __future__ import annotations

from typing import Any

from django import forms

from recovery.core.types import Outcome
from recovery.core.words import OUTCOME_WORDS

# What a person may say of a case. Recovered is only said when it was seen.
BY_HAND = (
    Outcome.STOPPED_ON_PURPOSE,
    Outcome.FALSE_ALARM,
    Outcome.GAVE_UP,
    Outcome.FROM_SCRATCH,
    Outcome.RESTORED_OLDER,
)


def _outcome(value: Any) -> Outcome:
    return Outcome(value)


class CloseForm(forms.Form):
    outcome = forms.TypedChoiceField(
        choices=[("", "Choose how it ended")] + [(o.value, OUTCOME_WORDS[o].label) for o in BY_HAND],
        coerce=_outcome,
        error_messages={"required": "Choose how it ended."},
    )
    reason = forms.CharField(
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": "Give a reason: it stands in the audit trail."},
    )


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=300, error_messages={"required": "Give a reason: it stands in the audit trail."}
    )
