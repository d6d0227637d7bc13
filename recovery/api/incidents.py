"""Incidents: the open and closed cases, from detection to the next complete checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import django_filters
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from recovery import selectors
from recovery.access import Permission
from recovery.api.base import DeskView, Rows
from recovery.api.fields import ClusterRef, Finite, JobRef, RunRef, Shape, Word
from recovery.api.opinions import ProviderShape, SecondOpinionShape
from recovery.api.parsing import ClusterFilter, FlagFilter, KeyFilter, MomentFilter, OneOf, SomeOf, StableOrdering
from recovery.api.recommendations import RecommendationShape
from recovery.core.lifecycle import INCIDENT_WORDS, PERSON_STATES, ActionState, IncidentState
from recovery.core.types import ActionKind, Exclude, FailureClass, FindingKind, Outcome, Restart, Role
from recovery.core.verify import CheckKey, CheckState
from recovery.models import Incident
from recovery.pipeline.propose import undoable
from recovery.pipeline.report import incident_report


class IncidentFilters(django_filters.FilterSet):
    state = SomeOf(
        choices=[(state.value, INCIDENT_WORDS[state].label) for state in IncidentState],
        help_text="One state, or several by repeating the parameter.",
    )
    open = FlagFilter(method="filter_open", help_text="true: not closed; false: closed.")
    needs_person = FlagFilter(
        method="filter_needs_person", help_text="true: waits for a person now, to decide or to look."
    )
    kind = OneOf(choices=[(kind.value, kind.value) for kind in FindingKind])
    failure_class = SomeOf(choices=[(each.value, each.value) for each in FailureClass])
    outcome = SomeOf(choices=[(each.value, each.value) for each in Outcome])
    cluster = ClusterFilter(field_name="run__cluster__name", help_text="The cluster's name.")
    run = KeyFilter(help_text="The run's id.")
    outbreak = KeyFilter(help_text="The outbreak's id: its incidents.")
    user = django_filters.CharFilter(field_name="run__user", help_text="Whose run it is.")
    detected_after = MomentFilter(
        field_name="detected_at", lookup_expr="gte", help_text="ISO 8601, this moment included."
    )
    detected_before = MomentFilter(
        field_name="detected_at", lookup_expr="lt", help_text="ISO 8601, this moment excluded."
    )
    ordering = StableOrdering(fields=["detected_at", "closed_at"], help_text="Newest detection first unless given.")

    class Meta:
        model = Incident
        fields: list[str] = []

    def filter_open(self, rows: QuerySet[Incident], name: str, value: bool) -> QuerySet[Incident]:
        return rows.exclude(state=IncidentState.CLOSED) if value else rows.filter(state=IncidentState.CLOSED)

    def filter_needs_person(self, rows: QuerySet[Incident], name: str, value: bool) -> QuerySet[Incident]:
        return rows.filter(state__in=PERSON_STATES) if value else rows.exclude(state__in=PERSON_STATES)


class Moments(Shape):
    """When what was seen; null where it was not (yet)."""

    failed_at = serializers.DateTimeField(help_text="When the fault began, as far as can be told.")
    detected_at = serializers.DateTimeField()
    recommended_at = serializers.DateTimeField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    acted_at = serializers.DateTimeField(allow_null=True, help_text="The action was seen to have converged.")
    restored_at = serializers.DateTimeField(allow_null=True)
    checkpoint_at = serializers.DateTimeField(allow_null=True, help_text="The next checkpoint was complete.")
    closed_at = serializers.DateTimeField(allow_null=True)
    deadline_at = serializers.DateTimeField(allow_null=True, help_text="By when the moment now waited for is due.")


class DangerShape(Shape):
    """What the restarted job is about to destroy; null where nothing is in danger."""

    at = serializers.DateTimeField(source="danger_at", help_text="About when; a time that has passed: at any moment.")
    step = serializers.IntegerField(source="danger_step", help_text="Of the good checkpoint.")
    sentence = serializers.CharField(source="danger", help_text="How it is destroyed.")

    def to_representation(self, incident: Incident) -> dict[str, Any] | None:  # type: ignore[override]
        return None if incident.danger_at is None else super().to_representation(incident)


class IncidentShape(Shape):
    id = serializers.IntegerField()
    state = Word(IncidentState)
    state_label = serializers.SerializerMethodField(help_text="The state as the pages say it.")
    kind = Word(FindingKind)
    headline = serializers.CharField(help_text="What happened, where and when, in one sentence.")
    alarm = serializers.CharField(help_text='What is not as expected; "" where nothing is.')
    trouble = Word(
        Outcome, or_null=True, help_text="What the verification says went wrong so far; null while all is as expected."
    )
    advice = serializers.CharField(help_text='What to do about it; "" where nothing is wrong.')
    danger = DangerShape(allow_null=True, source="*")
    error = serializers.CharField(help_text='Why the last look at this case failed; "" where it did not.')
    failed_looks = serializers.IntegerField(help_text="So many looks failed one after the other.")
    next_look_at = serializers.DateTimeField(allow_null=True, help_text="When it is looked at (or tried) again.")
    cluster = ClusterRef(source="run.cluster")
    run = RunRef()
    job = JobRef(source="attempt.job")
    attempt_id = serializers.IntegerField(help_text="The attempt that failed.")
    new_attempt_id = serializers.IntegerField(allow_null=True, help_text="The attempt that came back.")
    outbreak_id = serializers.IntegerField(allow_null=True, help_text="Of the runs that failed with it, if any did.")
    recommendation_id = serializers.SerializerMethodField(help_text="The recommendation that holds, if there is one.")

    failure_class = Word(FailureClass, or_null=True)
    restart = Word(Restart, or_null=True, help_text="What should be done about the job.")
    exclude = Word(Exclude, or_null=True, help_text="What should be done about its nodes.")
    confidence = Finite(help_text="Of the diagnosis, 0 to 1.")
    reason = serializers.CharField(help_text="The diagnosis in one sentence.")

    moments = Moments(source="*")
    failed_step = serializers.IntegerField(allow_null=True, help_text="The last step seen before the fault.")
    expected_step = serializers.IntegerField(allow_null=True, help_text="Of the newest complete checkpoint then.")
    restored_step = serializers.IntegerField(allow_null=True)
    next_checkpoint_step = serializers.IntegerField(allow_null=True)
    resolved_by_others = serializers.BooleanField(help_text="Somebody else restarted the job.")
    outcome = Word(Outcome, or_null=True)
    outcome_reason = serializers.CharField()

    def get_state_label(self, incident: Incident) -> str:
        return INCIDENT_WORDS[IncidentState(incident.state)].label

    def get_recommendation_id(self, incident: Incident) -> int | None:
        recommendation = selectors.current_recommendation(incident)
        return recommendation.pk if recommendation else None


class EvidenceShape(Shape):
    text = serializers.CharField()
    source = serializers.CharField(  # type: ignore[assignment]  # taken out of the class, so it hides nothing
        help_text='A log file, or "scheduler" or "node".'
    )
    role = Word(Role, help_text="The earliest cause wins.")
    rule = serializers.CharField(help_text="The rule that matched.")
    line = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True)
    rank = serializers.IntegerField(allow_null=True)
    node = serializers.CharField(allow_null=True)


class PlaceShape(Shape):
    source = serializers.CharField(  # type: ignore[assignment]  # taken out of the class, so it hides nothing
        help_text="load line, first step line, tracker file, checkpoint, or a field of the scheduler's record."
    )
    says = serializers.CharField()
    file = serializers.CharField()
    line = serializers.IntegerField(allow_null=True)
    by_word = serializers.BooleanField(help_text="The trainer's word alone stands for it.")


class CheckShape(Shape):
    """One of the three things that must be seen before a case closes as recovered."""

    key = Word(CheckKey)
    state = Word(CheckState)
    expected = serializers.CharField()
    seen = serializers.CharField()
    places = PlaceShape(many=True, help_text="Where it was seen.")
    contradictions = serializers.ListField(child=serializers.CharField())
    at = serializers.DateTimeField(allow_null=True)
    deadline_at = serializers.DateTimeField(allow_null=True)
    deadline_from = serializers.CharField(help_text="What the deadline was learned from.")
    queued_s = Finite(help_text="Seconds in the queue, which no deadline counts.")
    held_s = Finite(default=None, help_text="Seconds held in the queue, or suspended: in no deadline either.")
    held_since = serializers.DateTimeField(default=None, help_text="It is so now, since then.")
    attempt_id = serializers.IntegerField(allow_null=True)


class FindingShape(Shape):
    attempt_id = serializers.IntegerField(
        allow_null=True, help_text="Of another execution of the run that failed beside it; null: the case's own."
    )
    kind = Word(FindingKind)
    at = serializers.DateTimeField()
    since = serializers.DateTimeField(help_text="When the fault began, as far as can be told.")
    reason = serializers.CharField()
    confidence = Finite()
    evidence = EvidenceShape(many=True)


class DiagnosisShape(Shape):
    nodes = serializers.ListField(child=serializers.CharField(), help_text="To be excluded.")
    evidence = EvidenceShape(many=True)
    first_failure = EvidenceShape(allow_null=True)
    coverage = serializers.DictField(
        child=serializers.CharField(), help_text="What was looked for, and whether it was found."
    )


class Clocks(Shape):
    """Seconds between the moments, null where one of the two was not seen (yet); and what the incident cost, null until
    the ledger of its run was kept (within a minute).
    """

    detect_s = Finite(help_text="From the fault to its detection.")
    recommend_s = Finite(help_text="From then to the recommendation.")
    decide_s = Finite(help_text="From then to the decision.")
    act_s = Finite(help_text="From then until the action was seen to have converged.")
    restore_s = Finite(help_text="From then until the run was seen to be restored.")
    next_checkpoint_s = Finite(help_text="From then until its next checkpoint was complete.")
    total_s = Finite(help_text="From the fault to the next complete checkpoint.")
    steps_lost = serializers.IntegerField(allow_null=True)
    gpu_hours_lost = Finite(help_text="Training that was lost, by the ledger.")
    stalled_gpu_hours = Finite(help_text="Held from the fault to its detection.")
    decision_wait_s = Finite(help_text="The run's time that waiting for the decision took.")
    decision_held_gpu_hours = Finite(help_text="GPU-hours that the run held meanwhile.")
    decision_gpu_hours = Finite(help_text="GPU-hours that it would have used meanwhile, held or not.")


class CallShape(Shape):
    operation = serializers.CharField()
    command = serializers.CharField(allow_null=True)
    begun_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    result = serializers.CharField(allow_null=True)
    answer = serializers.CharField(required=False, help_text="What the call gave: of submit the new job's id.")


class ActionShape(Shape):
    id = serializers.IntegerField()
    kind = Word(ActionKind)
    state = Word(ActionState)
    exclude_nodes = serializers.ListField(child=serializers.CharField())
    parameters = serializers.DictField(help_text="Of the action, by its name; docs/actions.md lists them.")
    calls = CallShape(many=True, help_text="Every call to the scheduler, in order.")
    detail = serializers.CharField()
    intended_at = serializers.DateTimeField()
    called_at = serializers.DateTimeField(allow_null=True)
    observed_at = serializers.DateTimeField(allow_null=True, help_text="When its outcome was seen.")
    deadline_at = serializers.DateTimeField()


class EventShape(Shape):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor_kind = serializers.CharField(help_text="user, token or system.")
    actor_name = serializers.CharField()
    verb = serializers.CharField()
    old = serializers.CharField()
    new = serializers.CharField()
    reason = serializers.CharField()


class IncidentDetailShape(IncidentShape):
    diagnosis = DiagnosisShape(allow_null=True)
    second_opinion = SecondOpinionShape(allow_null=True, help_text="Of an external diagnostic service; evidence alone.")
    provider = ProviderShape()
    verification = CheckShape(many=True, help_text="Runs again, restored, next checkpoint; empty before a restart.")
    clocks = Clocks()
    recommendation = RecommendationShape(allow_null=True, help_text="The one that holds.")
    superseded = RecommendationShape(many=True, help_text="Earlier ones, newest first.")
    findings = FindingShape(many=True)
    actions = ActionShape(many=True)
    undoable = serializers.ListField(child=serializers.IntegerField(), help_text="Ids of actions that can be undone.")
    events = EventShape(many=True, help_text="The audit trail of this case, oldest first.")

    def to_representation(self, detail: selectors.IncidentDetail) -> dict[str, Any]:
        incident = detail.incident
        return {
            **IncidentShape(incident).data,
            "diagnosis": DiagnosisShape(incident.diagnosis).data if incident.diagnosis else None,
            "second_opinion": SecondOpinionShape(detail.second_opinion).data if detail.second_opinion else None,
            "provider": ProviderShape(selectors.provider_status(now=timezone.now())).data,
            "verification": CheckShape(incident.verification, many=True).data,
            "clocks": Clocks(asdict(incident_report(incident, now=timezone.now()))).data,
            "recommendation": RecommendationShape(detail.recommendation).data if detail.recommendation else None,
            "superseded": RecommendationShape(detail.superseded, many=True).data,
            "findings": FindingShape(detail.findings, many=True).data,
            "actions": ActionShape(detail.actions, many=True).data,
            "undoable": [action.pk for action in undoable(incident, detail.actions, now=timezone.now())],
            "events": EventShape(detail.events, many=True).data,
        }


class Incidents(Rows[Incident]):
    """List incidents: those whose good checkpoint is in danger first, the soonest before, then the newest first."""

    queryset = selectors.incidents()
    serializer_class = IncidentShape
    filterset_class = IncidentFilters


class IncidentOne(DeskView):
    """Get one incident with its diagnosis, evidence, clocks, recommendations, actions and events."""

    required = Permission.VIEW
    of = Incident

    @extend_schema(responses=IncidentDetailShape)
    def get(self, request: Request, pk: int) -> Response:
        return Response(IncidentDetailShape(selectors.incident_detail(incident_id=pk)).data)
