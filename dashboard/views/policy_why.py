"""Why? Which rule of the policy would decide about a job, by itself or for an incident."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard import rule_form
from dashboard.page import DeskRequest, page
from recovery import selectors
from recovery.core.policy import Question, Traits
from recovery.core.types import FailureClass
from recovery.core.words import FAILURE_LABELS
from recovery.models import Incident, Job
from recovery.pipeline.ruling import traits_of
from recovery.pipeline.why import traits_of_newest, why, why_each
from recovery.policy_drafts import rules_of
from recovery.selectors.scope import visible_to

NAMES = ("cluster", "partition", "account", "user", "qos", "job_name")
MOST = 1_000_000  # GPUs or nodes


class QuestionForm(forms.Form):
    """What is asked. Nothing is needed: an empty field is an unknown trait, no class stands for each."""

    failure_class = forms.ChoiceField(
        label="Failure class",
        required=False,
        choices=[("", "each"), *((str(key), label) for key, (label, _) in FAILURE_LABELS.items())],
    )
    confidence = forms.FloatField(
        label="Confidence of the verdict, 0 to 1", required=False, min_value=0, max_value=1,
        widget=forms.NumberInput(attrs={"step": "any"}),
    )  # fmt: skip
    cluster = forms.CharField(required=False, max_length=200)
    partition = forms.CharField(required=False, max_length=200)
    account = forms.CharField(required=False, max_length=200)
    user = forms.CharField(required=False, max_length=200)
    qos = forms.CharField(label="QOS", required=False, max_length=200)
    job_name = forms.CharField(label="Job name", required=False, max_length=300)
    labels = forms.CharField(label="Labels of its comment, like team=vision", required=False, max_length=2000)
    gpus = forms.IntegerField(label="GPUs", required=False, min_value=0, max_value=MOST)
    nodes = forms.IntegerField(required=False, min_value=0, max_value=MOST)

    def clean_labels(self) -> dict[str, str]:
        try:
            return dict(rule_form.LABELS.read(self.cleaned_data["labels"]))
        except rule_form.Unreadable as error:
            raise forms.ValidationError(f"Labels: {error}") from error

    def question(self, request: DeskRequest) -> Question:
        """What a valid form asks. A verdict of unknown confidence counts as sure."""
        given = self.cleaned_data
        confidence = given["confidence"]
        traits = Traits(
            **{name: given[name] for name in NAMES},
            labels=given["labels"],
            gpus=given["gpus"] or 0,
            nodes=given["nodes"] or 0,
        )
        return Question(
            traits=traits, failure_class=FailureClass(given["failure_class"] or FailureClass.UNKNOWN),
            confidence=1.0 if confidence is None else confidence, at=request.now,
        )  # fmt: skip


@require_GET
@page()
def policy_why(request: DeskRequest) -> HttpResponse:
    version = selectors.current_policy()
    about, given = _about(request)
    form = QuestionForm(given, label_suffix="")
    context: dict[str, Any] = {"version": version, "form": form, "about": about, "place": "policies"}
    if form.is_valid():
        rules, question = rules_of(version), form.question(request)
        if form.cleaned_data["failure_class"]:
            context["answer"] = why(rules, question)
        else:
            context["answers"] = why_each(rules, question)
    return render(request, "policies/why.html", context, status=200 if form.is_valid() else 422)


def _about(request: DeskRequest) -> tuple[Incident | Job | None, dict[str, Any]]:
    """What the address names, and what it and the fields say of the job."""
    if key := request.GET.get("incident"):
        related = ("run__cluster", "attempt__job")
        incident = _one(Incident.objects.select_related(*related), key, request)
        said = _typed(traits_of(incident))
        return incident, said | {"failure_class": incident.failure_class, "confidence": incident.confidence}
    if key := request.GET.get("job"):
        job = _one(Job.objects.select_related("cluster"), key, request)
        return job, _typed(traits_of_newest(job)) | {"failure_class": request.GET.get("failure_class", "")}
    return None, request.GET.dict()


def _one(rows: Any, key: str, request: DeskRequest) -> Any:
    found = visible_to(rows, request.actor).filter(pk=int(key)).first() if key.isdecimal() and len(key) < 19 else None
    if found is None:
        raise Http404("There is no such job or incident.")
    return found


def _typed(traits: Traits) -> dict[str, Any]:
    said = {name: getattr(traits, name) for name in (*NAMES, "gpus", "nodes")}
    return said | {"labels": rule_form.LABELS.show(traits.labels)}
