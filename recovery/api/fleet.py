"""Outbreaks (runs that failed together), suspect nodes, and the strikes that make them suspects."""

from __future__ import annotations

from http import HTTPStatus

import django_filters
from django.db.models import Prefetch, QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from recovery.access import Permission
from recovery.api.base import DeskView, Row, Rows, visible
from recovery.api.fields import ClusterRef, Finite, RunRef, Shape, Word
from recovery.api.parsing import ClusterFilter, FlagFilter, MomentFilter
from recovery.core.fleet import SharedKind
from recovery.core.node_memory import ToldBy
from recovery.core.types import FailureClass
from recovery.models import Cluster, Incident, NodeStrike, Outbreak, Suspect
from recovery.pipeline.fleet import end_outbreak
from recovery.pipeline.suspects import add_suspect, remove_suspect
from recovery.selectors import NotFound, fleet_reads


class SharedShape(Shape):
    kind = Word(SharedKind)
    what = serializers.CharField(help_text="The switch, the folder, the rule, the nodes.")
    runs = serializers.IntegerField(help_text="How many of the runs share it.")
    sentence = serializers.CharField()


class OutbreakShape(Shape):
    id = serializers.IntegerField()
    cluster = ClusterRef()
    headline = serializers.CharField(help_text="How many runs failed, how fast, and what they share.")
    shared = SharedShape(many=True, help_text="What they have in common, the most telling first; empty: only the time.")
    runs = serializers.IntegerField(help_text="That failed in it, each once.")
    began_at = serializers.DateTimeField(help_text="Of the first failure.")
    last_failed_at = serializers.DateTimeField()
    opened_at = serializers.DateTimeField(help_text="When it was seen to be one.")
    closed_at = serializers.DateTimeField(allow_null=True, help_text="null: exclusions and drains are held.")
    closed_reason = serializers.CharField()
    restart_from = serializers.DateTimeField(help_text="The next restart of one of its jobs may begin then.")
    incidents = serializers.SerializerMethodField(help_text="Ids of its incidents that you may see, oldest first.")

    def get_incidents(self, outbreak: Outbreak) -> list[int]:
        return sorted(incident.pk for incident in outbreak.incidents.all())


class OutbreakFilters(django_filters.FilterSet):
    cluster = ClusterFilter(field_name="cluster__name", help_text="The cluster's name.")
    open = FlagFilter(method="filter_open", help_text="true: exclusions and drains are held; false: over.")

    class Meta:
        model = Outbreak
        fields: list[str] = []

    def filter_open(self, rows: QuerySet[Outbreak], name: str, value: bool) -> QuerySet[Outbreak]:
        return rows.filter(closed_at__isnull=value)


def with_incidents(rows: QuerySet[Outbreak], view: DeskView) -> QuerySet[Outbreak]:
    """With those of their incidents that the reader may see: an outbreak goes beyond a scope, its cases don't."""
    return rows.prefetch_related(Prefetch("incidents", queryset=visible(Incident.objects.all(), view)))


class Outbreaks(Rows[Outbreak]):
    """List outbreaks: open ones first, then the newest."""

    queryset = fleet_reads.outbreaks()
    serializer_class = OutbreakShape
    filterset_class = OutbreakFilters

    def get_queryset(self) -> QuerySet[Outbreak]:
        return with_incidents(super().get_queryset(), self)


class OutbreakOne(Row[Outbreak]):
    """Get one outbreak."""

    queryset = fleet_reads.outbreaks()
    serializer_class = OutbreakShape

    def get_queryset(self) -> QuerySet[Outbreak]:
        return with_incidents(super().get_queryset(), self)


class Reason(Shape):
    reason = serializers.CharField(max_length=280, help_text="For the audit trail.")

    class Meta:
        ref_name = "Reason"


class EndOutbreak(DeskView):
    """End an outbreak.

    Its failures don't belong together, or what caused them is over: nodes may be left out again, restarts wait no more.
    Ending it again is no error.
    """

    required = Permission.OPERATE
    of = Outbreak

    @extend_schema(operation_id="outbreaks_end", request=Reason, responses=OutbreakShape)
    def post(self, request: Request, pk: int) -> Response:
        given = Reason(data=request.data)
        given.is_valid(raise_exception=True)
        found = fleet_reads.outbreak_detail(outbreak_id=pk).outbreak
        end_outbreak(found, reason=given.validated_data["reason"], actor=self.actor, now=timezone.now())
        return Response(OutbreakShape(with_incidents(fleet_reads.outbreaks(), self).get(pk=pk)).data)


class SuspectShape(Shape):
    id = serializers.IntegerField()
    cluster = ClusterRef()
    node = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField(help_text="Then it runs out, unless another failure begins on it.")
    score = Finite(help_text="What its strikes weigh together; null: a person put it on the list.")
    reason = serializers.CharField()
    added_by = serializers.CharField(help_text='The person; "": its strikes.')
    ended_at = serializers.DateTimeField(allow_null=True)
    ended_by = serializers.CharField(help_text='The person; "" where it ran out.')
    ended_reason = serializers.CharField()


class SuspectInput(Shape):
    node = serializers.CharField(max_length=100, help_text="By name.")
    reason = serializers.CharField(max_length=280, help_text="Shown wherever the node is left out.")
    until = serializers.DateTimeField(help_text="At most a year from now.")


class SuspectFilters(django_filters.FilterSet):
    cluster = ClusterFilter(field_name="cluster__name", help_text="The cluster's name.")
    node = django_filters.CharFilter(help_text="The node's name.")

    class Meta:
        model = Suspect
        fields: list[str] = []


class Suspects(Rows[Suspect]):
    """List the nodes that are suspects now: what persons put there first, then the worst."""

    queryset = Suspect.objects.none()  # by the moment of asking
    serializer_class = SuspectShape
    filterset_class = SuspectFilters

    def get_queryset(self) -> QuerySet[Suspect]:
        return fleet_reads.suspects(now=timezone.now())


class AddSuspect(DeskView):
    """Put a node of the cluster on the list of suspects."""

    required = Permission.OPERATE
    of = Cluster

    @extend_schema(
        operation_id="suspects_add", request=SuspectInput, responses={201: SuspectShape},
        examples=[
            OpenApiExample(
                "Until it was looked at",
                value={"node": "gpu-17", "reason": "ticket 4711", "until": "2026-12-24T12:00:00Z"},
                request_only=True,
            )
        ],
    )  # fmt: skip
    def post(self, request: Request, pk: int) -> Response:
        given = SuspectInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        if not Cluster.objects.filter(pk=pk).exists():
            raise NotFound(f"There is no cluster {pk}.")
        row = add_suspect(
            pk, wanted["node"], reason=wanted["reason"], until=wanted["until"], actor=self.actor, now=timezone.now()
        )
        return Response(SuspectShape(row).data, status=HTTPStatus.CREATED)


class RemoveSuspect(DeskView):
    """Take a node off the list of suspects.

    Failures that began on it until now count no more.
    """

    required = Permission.OPERATE
    of = Suspect

    @extend_schema(operation_id="suspects_remove", request=Reason, responses=SuspectShape)
    def post(self, request: Request, pk: int) -> Response:
        given = Reason(data=request.data)
        given.is_valid(raise_exception=True)
        row = remove_suspect(pk, reason=given.validated_data["reason"], actor=self.actor, now=timezone.now())
        row.refresh_from_db()
        return Response(SuspectShape(row).data)


class StrikeShape(Shape):
    id = serializers.IntegerField()
    cluster = ClusterRef()
    node = serializers.CharField()
    at = serializers.DateTimeField()
    incident_id = serializers.IntegerField()
    run = RunRef(source="incident.run")
    failure_class = Word(FailureClass)
    proven = serializers.BooleanField(help_text="false: the verdict only suspected the node.")
    told_by = Word(ToldBy, help_text="Who says that it began there.")
    reason = serializers.CharField()
    elsewhere = serializers.BooleanField(
        allow_null=True, help_text="How the run went on: true on other nodes, false on this one; null: not seen."
    )


class StrikeFilters(django_filters.FilterSet):
    cluster = ClusterFilter(field_name="cluster__name", help_text="The cluster's name.")
    node = django_filters.CharFilter(help_text="The node's name.")
    after = MomentFilter(field_name="at", lookup_expr="gte", help_text="ISO 8601, this moment included.")

    class Meta:
        model = NodeStrike
        fields: list[str] = []


class Strikes(Rows[NodeStrike]):
    """List strikes: failures that began on one node, newest first."""

    queryset = fleet_reads.strikes()
    serializer_class = StrikeShape
    filterset_class = StrikeFilters
