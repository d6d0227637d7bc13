"""Alarms: what people should know of attempts that go on. Nothing is done on one."""

from __future__ import annotations

import django_filters
from django.db.models import QuerySet
from rest_framework import serializers

from recovery.api.base import Rows
from recovery.api.fields import ClusterRef, RunRef, Shape, Word
from recovery.api.parsing import ClusterFilter, FlagFilter, KeyFilter, SomeOf
from recovery.core.detectors import AlarmKind
from recovery.core.types import Role
from recovery.models import Alarm
from recovery.selectors import alarm_reads


class AlarmFilters(django_filters.FilterSet):
    cluster = ClusterFilter(field_name="run__cluster__name", help_text="The cluster's name.")
    run = KeyFilter(help_text="The run's id.")
    kind = SomeOf(choices=[(kind.value, kind.value) for kind in AlarmKind], help_text="One kind, or several.")
    holds = FlagFilter(method="filter_holds", help_text="true: those that hold; false: those that are over.")

    class Meta:
        model = Alarm
        fields: list[str] = []

    def filter_holds(self, rows: QuerySet[Alarm], name: str, value: bool) -> QuerySet[Alarm]:
        return rows.filter(ended_at__isnull=value)


class AlarmLine(Shape):
    text = serializers.CharField()
    source = serializers.CharField(  # type: ignore[assignment]  # taken out of the class, so it hides nothing
        help_text="A log file's path, or who says it."
    )
    line = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True)
    role = Word(Role)
    rule = serializers.CharField()
    rank = serializers.IntegerField(allow_null=True)
    node = serializers.CharField()


class AlarmShape(Shape):
    id = serializers.IntegerField()
    kind = Word(AlarmKind)
    run = RunRef()
    cluster = ClusterRef(source="run.cluster")
    attempt_id = serializers.IntegerField()
    reason = serializers.CharField(help_text="One sentence.")
    remedy = serializers.CharField(help_text="What a person can do about it.")
    since = serializers.DateTimeField(help_text="When it began, as far as can be told.")
    raised_at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField(help_text="Of the last look that found it so.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="null: it holds.")
    evidence = AlarmLine(many=True)


class Alarms(Rows[Alarm]):
    """List alarms, those that hold first, then the newest."""

    queryset = alarm_reads.alarms()
    serializer_class = AlarmShape
    filterset_class = AlarmFilters
