"""The form of a person's proposal: one action of those that fit now, and the fields that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django import forms

from recovery.core.types import ActionKind, CheckpointState
from recovery.core.words import ACTION_KIND_WORDS
from recovery.models import Attempt, Checkpoint
from recovery.pipeline.proposals import offered

STEPS = 20  # of the newest complete checkpoints are offered


class ProposeForm(forms.Form):
    """Made for the execution that would be acted on: it offers that one's nodes and its run's complete checkpoints."""

    action = forms.ChoiceField(
        widget=forms.RadioSelect,
        error_messages={
            "required": "Choose what is to be done.",
            "invalid_choice": "That does not fit where the job stands now: choose again.",
        },
    )
    exclude_nodes = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    node = forms.ChoiceField(required=False)
    step = forms.TypedChoiceField(required=False, coerce=int, empty_value=None)
    hours = forms.FloatField(required=False, min_value=0.02, max_value=8700)
    limit_hours = forms.FloatField(required=False, min_value=0.02, max_value=8700)
    environment = forms.CharField(required=False, max_length=5000, widget=forms.Textarea(attrs={"rows": 2}))
    why = forms.CharField(
        max_length=280,
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": "Give a reason: whoever decides must know why."},
    )

    def __init__(self, attempt: Attempt, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kinds = offered(attempt)
        nodes = [(name, name) for name in attempt.nodes]
        whole = Checkpoint.objects.filter(run=attempt.job.run_id, state=CheckpointState.COMPLETE).order_by("-step")
        steps = [(step, str(step)) for step in whole.values_list("step", flat=True)[:STEPS]]
        limit = attempt.job.time_limit_s
        self.choose("action", [(kind.value, ACTION_KIND_WORDS[kind].label) for kind in kinds])
        self.choose("exclude_nodes", nodes)
        self.choose("node", [("", "Choose a node"), *nodes])
        self.choose("step", [("", "Choose a step"), *steps])
        self.fields["hours"].initial = round(limit / 3600 + 1, 2) if limit else None
        self.sentences = [(kind.value, ACTION_KIND_WORDS[kind]) for kind in kinds]

    def choose(self, name: str, choices: Sequence[tuple[Any, str]]) -> None:
        cast(forms.ChoiceField, self.fields[name]).choices = choices

    def clean_environment(self) -> dict[str, str]:
        """One NAME=value a line."""
        lines = [line.strip() for line in self.cleaned_data["environment"].splitlines() if line.strip()]
        pairs = [line.partition("=") for line in lines]
        if any(not equals for _, equals, _ in pairs):
            raise forms.ValidationError("Write one NAME=value a line.")
        return {name.strip(): value.strip() for name, _, value in pairs}

    @property
    def kind(self) -> ActionKind:
        return ActionKind(self.cleaned_data["action"])

    def parameters(self) -> dict[str, Any]:
        """What the chosen action takes of what was typed; fields of others don't count."""
        data, kind = self.cleaned_data, self.kind
        if kind is ActionKind.EXTEND_TIME_LIMIT:
            return {"seconds": (data["hours"] or 0) * 3600}
        if kind in (ActionKind.DRAIN, ActionKind.RESUME):
            return {"node": data["node"]}
        if kind is ActionKind.RESTORE_OLDER:
            return {"step": data["step"]}
        if kind is ActionKind.RESUBMIT:
            hours = data["limit_hours"]
            changes = {"time_limit_s": hours * 3600 if hours else None, "environment": data["environment"]}
            return {name: value for name, value in changes.items() if value}
        return {}

    def nodes(self) -> list[str]:
        takes = self.kind in (ActionKind.REQUEUE_EXCLUDING, ActionKind.RESUBMIT)
        return list(self.cleaned_data["exclude_nodes"]) if takes else []
