"""Clusters, and how old the picture of each is; the health of the product itself."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from recovery import selectors
from recovery.access import Permission
from recovery.api.base import DeskView, Rows
from recovery.api.fields import Finite, Shape, Word
from recovery.api.opinions import ProviderShape
from recovery.api.permissions import Access
from recovery.doctor import Group, Report, State
from recovery.doctor.stored import ask_again, report_on
from recovery.models import Cluster
from recovery.selectors.scope import visible_to
from recovery.tasks import wake_examination


class NodeCounts(Shape):
    """How many nodes Slurm says are in each state."""

    up = serializers.IntegerField()
    draining = serializers.IntegerField()
    drained = serializers.IntegerField()
    down = serializers.IntegerField()
    unknown = serializers.IntegerField()


class ClusterShape(Shape):
    id = serializers.IntegerField(source="cluster.id")
    name = serializers.CharField(source="cluster.name")
    backend = serializers.CharField(source="cluster.backend", help_text="cli or simulator.")
    enabled = serializers.BooleanField(source="cluster.enabled", help_text="false: it is not looked at.")
    release = serializers.CharField(source="cluster.release", help_text="Slurm's.")
    accounting = serializers.BooleanField(
        source="cluster.accounting", help_text="Whether Slurm can tell of past attempts."
    )
    poll_interval_s = Finite(source="cluster.poll_interval_s")
    seen_at = serializers.DateTimeField(
        source="cluster.seen_at", allow_null=True, help_text="Of the last good picture."
    )
    tried_at = serializers.DateTimeField(source="cluster.tried_at", allow_null=True)
    age_s = Finite(help_text="Of the last good picture; null: there never was one.")
    stale = serializers.BooleanField(help_text="Too old, or the last try failed: nothing acts on it.")
    error = serializers.CharField(source="cluster.error", help_text='Of the last try; "" where it was good.')
    paused_at = serializers.DateTimeField(
        source="cluster.paused_at", allow_null=True, help_text="Since when a person has stopped automation."
    )
    paused_by = serializers.CharField(source="cluster.paused_by")
    paused_reason = serializers.CharField(source="cluster.paused_reason")
    running_jobs = serializers.IntegerField()
    pending_jobs = serializers.IntegerField()
    blind_attempts = serializers.IntegerField(help_text="What runs and can't be observed.")
    nodes = NodeCounts()


class Clusters(Rows[Cluster]):
    """List clusters by name, each with the age of its picture."""

    queryset = selectors.clusters()
    serializer_class = ClusterShape

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or ()
        pictures = selectors.pictures_of(page, now=timezone.now())
        return self.get_paginated_response(ClusterShape(pictures, many=True).data)


class ClusterOne(DeskView):
    """Get one cluster with the age of its picture."""

    required = Permission.VIEW
    of = Cluster

    @extend_schema(responses=ClusterShape)
    def get(self, request: Request, pk: int) -> Response:
        return Response(ClusterShape(selectors.cluster_picture(cluster_id=pk, now=timezone.now())).data)


class ResultShape(Shape):
    group = Word(Group)
    what = serializers.CharField()
    detail = serializers.CharField(help_text="What was found.")
    remedy = serializers.CharField(help_text='What to change; "" where there is nothing.')
    state = Word(State, help_text="not_tried: a try would change something, or there was nothing to try it on.")
    at = serializers.DateTimeField(help_text="When it was observed.")


class ReportShape(Shape):
    at = serializers.DateTimeField(allow_null=True, help_text="When the look ended; null: there was none yet.")
    under_way = serializers.BooleanField(help_text="Another look is due, or a worker is at it.")
    state = Word(State, help_text="The worst of the results.")
    summary = serializers.CharField()
    results = ResultShape(many=True)

    class Meta:
        ref_name = "Examination"


class Examine(DeskView):
    """Get what can be seen and done on one cluster, as a worker last found it; POST: let a worker look again.

    Nothing here waits for Slurm: the answer to POST is the report as it is, with `under_way` true.
    """

    required = Permission.OPERATE
    of = Cluster

    @extend_schema(operation_id="clusters_examination", responses=ReportShape)
    def get(self, request: Request, pk: int) -> Response:
        return Response(ReportShape(self._report(pk)).data)

    @extend_schema(operation_id="clusters_examine", request=None, responses=ReportShape)
    def post(self, request: Request, pk: int) -> Response:
        cluster = selectors.cluster_picture(cluster_id=pk, now=timezone.now()).cluster
        ask_again(cluster, actor=self.actor, now=timezone.now())
        wake_examination(pk)
        return Response(ReportShape(self._report(pk)).data)

    def _report(self, pk: int) -> Report:
        cluster = selectors.cluster_picture(cluster_id=pk, now=timezone.now()).cluster
        return report_on(cluster, now=timezone.now())


class Health(DeskView):
    """Tell that this web process answers.

    For load balancers and containers: asks nothing of the database, needs no log-in and says nothing else.
    """

    required = Access.OPEN
    authentication_classes = ()
    throttle_classes = ()

    class Output(Shape):
        status = serializers.ChoiceField(choices=["ok"])

        class Meta:
            ref_name = "Alive"

    @extend_schema(responses=Output)
    def get(self, request: Request) -> Response:
        return Response({"status": "ok"})


class HealthDetails(DeskView):
    """Tell whether the product does its work.

    `degraded` where work is overdue (no worker or no beat runs) or the picture of an enabled cluster is stale.
    `manage.py doctor` says more, on the machine itself.
    """

    required = Permission.VIEW

    class Output(Shape):
        status = serializers.ChoiceField(choices=["ok", "degraded"])
        overdue_s = serializers.FloatField(help_text="For how long the most overdue work waits for a worker.")
        overdue_limit_s = serializers.FloatField(help_text="From here on it counts as degraded.")
        stale_clusters = serializers.ListField(child=serializers.CharField(), help_text="By name.")
        needs_person = serializers.IntegerField(help_text="Incidents that wait for a person now.")
        provider = ProviderShape()

        class Meta:
            ref_name = "Health"

    @extend_schema(responses=Output)
    def get(self, request: Request) -> Response:
        now = timezone.now()
        overdue_s, limit_s = selectors.overdue_s(now=now), selectors.overdue_limit_s()
        watched = visible_to(selectors.clusters().filter(enabled=True), self.actor)
        stale = [cluster.name for cluster in watched if cluster.is_stale(now)]
        return Response(
            {
                "status": "degraded" if stale or overdue_s > limit_s else "ok",
                "overdue_s": overdue_s,
                "overdue_limit_s": limit_s,
                "stale_clusters": stale,
                "needs_person": visible_to(selectors.needs_person(), self.actor).count(),
                "provider": ProviderShape(selectors.provider_status(now=now)).data,
            }
        )
