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
from recovery.api.fields import Finite, Shape
from recovery.api.permissions import Access
from recovery.models import Cluster


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

    @extend_schema(responses=ClusterShape)
    def get(self, request: Request, pk: int) -> Response:
        return Response(ClusterShape(selectors.cluster_picture(cluster_id=pk, now=timezone.now())).data)


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

        class Meta:
            ref_name = "Health"

    @extend_schema(responses=Output)
    def get(self, request: Request) -> Response:
        now = timezone.now()
        overdue_s, limit_s = selectors.overdue_s(now=now), selectors.overdue_limit_s()
        stale = [each.cluster.name for each in selectors.cluster_pictures(now=now) if each.stale]
        return Response(
            {
                "status": "degraded" if stale or overdue_s > limit_s else "ok",
                "overdue_s": overdue_s,
                "overdue_limit_s": limit_s,
                "stale_clusters": stale,
                "needs_person": selectors.needs_person().count(),
            }
        )
