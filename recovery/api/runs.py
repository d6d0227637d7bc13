"""Runs over all their jobs: where they stand, their progress, their checkpoints."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from recovery import selectors
from recovery.access import Permission
from recovery.api.base import DeskView, Row, Rows
from recovery.api.fields import ClusterRef, Finite, RunRef, Shape, Word
from recovery.api.parsing import ClusterFilter, FlagFilter, KeyFilter, SomeOf, refuse_unknown
from recovery.core.types import CheckpointState, FindingKind, JobState, Phase
from recovery.models import Attempt, Checkpoint, Run

MOST_POINTS = 5000


class RunFilters(django_filters.FilterSet):
    cluster = ClusterFilter(field_name="cluster__name", help_text="The cluster's name.")
    name = django_filters.CharFilter()
    user = django_filters.CharFilter()
    state = SomeOf(choices=[(state.value, state.value) for state in JobState], help_text="Of its newest attempt.")
    open_incident = FlagFilter(
        field_name="open_incident_id", lookup_expr="isnull", exclude=True, help_text="true: with an open incident."
    )

    warned = FlagFilter(
        method="only_warned",
        help_text="true: a save is about to fail, or the last complete checkpoint to be removed (`outlook` says it).",
    )

    def only_warned(self, rows: QuerySet[Run], name: str, value: bool) -> QuerySet[Run]:
        warned = selectors.warned_runs().order_by().values("pk")
        return rows.filter(pk__in=warned) if value else rows.exclude(pk__in=warned)

    class Meta:
        model = Run
        fields: list[str] = []


class CheckpointFilters(django_filters.FilterSet):
    run = KeyFilter(help_text="The run's id.")
    state = SomeOf(
        choices=[(state.value, state.value) for state in CheckpointState],
        help_text="One state, or several by repeating it. Only a complete one can be restored.",
    )

    class Meta:
        model = Checkpoint
        fields: list[str] = []


class OutlookShape(Shape):
    free_bytes = serializers.IntegerField(allow_null=True, help_text="Of the file system that holds the checkpoints.")
    quota_bytes = serializers.IntegerField(allow_null=True, help_text="What the user may still write; null: unknown.")
    needs_bytes = serializers.IntegerField(allow_null=True, help_text="Of the next save, as the last ones were.")
    keeps = serializers.IntegerField(
        allow_null=True, help_text="Checkpoints that rotation keeps; null: none removed yet."
    )
    next_step = serializers.IntegerField(allow_null=True, help_text="Of the next save, by the rhythm of the last ones.")
    next_at = serializers.DateTimeField(allow_null=True, help_text="When the next save is due.")
    space_warning = serializers.CharField(help_text='Why the next save will not fit; "": it fits, as far as is known.')
    space_remedy = serializers.CharField()
    rotation_warning = serializers.CharField(
        help_text='That rotation is about to remove the last complete one; else "".'
    )
    rotation_remedy = serializers.CharField()
    checked_at = serializers.DateTimeField()


class RunShape(Shape):
    id = serializers.IntegerField()
    name = serializers.CharField()
    user = serializers.CharField()
    cluster = ClusterRef()
    checkpoint_dir = serializers.CharField()
    created_at = serializers.DateTimeField()
    state = Word(JobState, or_null=True, help_text="Of its newest attempt.")
    phase = Word(Phase, or_null=True, help_text="Of its newest attempt.")
    blind_reason = serializers.CharField(
        allow_null=True, help_text='Why its newest attempt can\'t be observed; "": it can.'
    )
    finding = Word(
        FindingKind, or_null=True, help_text="What is wrong with its newest attempt, whatever its phase; null: nothing."
    )
    last_step = serializers.IntegerField(allow_null=True, help_text="Of its newest attempt.")
    checkpoint_step = serializers.IntegerField(allow_null=True, help_text="Of its newest complete checkpoint.")
    open_incident_id = serializers.IntegerField(allow_null=True)
    outlook = OutlookShape(allow_null=True, help_text="What lies ahead of its checkpoints; null: none was looked at.")


class CheckpointShape(Shape):
    id = serializers.IntegerField()
    run = RunRef()
    attempt_id = serializers.IntegerField(allow_null=True, help_text="The attempt that wrote it, where that is known.")
    step = serializers.IntegerField()
    path = serializers.CharField()
    state = Word(CheckpointState)
    by_word = serializers.BooleanField(
        help_text="The trainer's word alone stands for it: its folder could not be read."
    )
    detail = serializers.CharField(help_text="Why it is torn or unknown.")
    size_bytes = serializers.IntegerField(allow_null=True)
    first_seen_at = serializers.DateTimeField()
    completed_at = serializers.DateTimeField(allow_null=True)
    checked_at = serializers.DateTimeField()


class SampleShape(Shape):
    attempt_id = serializers.IntegerField()
    rank = serializers.IntegerField(help_text="-1: the trainer reports for all ranks together.")
    step = serializers.IntegerField()
    at = serializers.DateTimeField()
    loss = Finite(help_text="null where none was printed, or no finite number.")
    throughput = Finite(help_text="In the trainer's own unit: compare within one attempt only.")
    step_time_s = Finite()


class SampleQuery(Shape):
    max_points = serializers.IntegerField(
        min_value=2,
        max_value=MOST_POINTS,
        default=selectors.MAX_POINTS,
        help_text="At most so many; where there are more, every n-th and the ends of each attempt.",
    )
    since = serializers.DateTimeField(required=False, help_text="From this moment on.")
    until = serializers.DateTimeField(required=False, help_text="Up to this moment.")
    rank = serializers.IntegerField(
        required=False, min_value=-1, max_value=2**31 - 1, help_text="Without it: the lowest rank that reports."
    )


class Runs(Rows[Run]):
    """List runs with where they stand, newest first."""

    queryset = selectors.runs()
    serializer_class = RunShape
    filterset_class = RunFilters


class RunOne(Row[Run]):
    """Get one run with where it stands."""

    queryset = selectors.runs()
    serializer_class = RunShape


class Checkpoints(Rows[Checkpoint]):
    """List checkpoints, by step."""

    queryset = selectors.checkpoints()
    serializer_class = CheckpointShape
    filterset_class = CheckpointFilters


class RunSamples(DeskView):
    """Get the progress of a run over all its attempts, thinned to what a chart can show."""

    required = Permission.VIEW
    of = Run

    @extend_schema(parameters=[SampleQuery], responses=SampleShape(many=True))
    def get(self, request: Request, pk: int) -> Response:
        selectors.run(run_id=pk)
        return _samples(request, run_id=pk)


class AttemptSamples(DeskView):
    """Get the progress of one attempt, thinned to what a chart can show."""

    required = Permission.VIEW
    of = Attempt

    @extend_schema(parameters=[SampleQuery], responses=SampleShape(many=True))
    def get(self, request: Request, pk: int) -> Response:
        selectors.attempt(attempt_id=pk)
        return _samples(request, attempt_id=pk)


def _samples(request: Request, *, run_id: int | None = None, attempt_id: int | None = None) -> Response:
    query = SampleQuery(data=request.query_params)
    refuse_unknown(request.query_params.keys(), query.fields)
    query.is_valid(raise_exception=True)
    wanted: dict[str, Any] = query.validated_data
    found = selectors.samples_for(run_id=run_id, attempt_id=attempt_id, **wanted)
    return Response(SampleShape(found, many=True).data)
