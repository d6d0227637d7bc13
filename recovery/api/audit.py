"""The audit trail: its events, the state of its chain, and an export that carries the chain."""

from __future__ import annotations

from typing import Any

import django_filters
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from recovery.access import EVERYTHING, Permission, require
from recovery.api.base import DeskView, Rows
from recovery.api.fields import Shape
from recovery.api.parsing import KeyFilter, MomentFilter, refuse_unknown
from recovery.models import Event
from recovery.pipeline import audit_chain as chain
from recovery.pipeline import audit_export
from recovery.selectors import audit_reads

MOST = 10_000  # events in one export


class EventFilters(django_filters.FilterSet):
    actor = django_filters.CharFilter(field_name="actor_name", lookup_expr="icontains", help_text="Part of a name.")
    verb = django_filters.CharFilter(lookup_expr="startswith", help_text='Its beginning, such as "policy".')
    subject_kind = django_filters.CharFilter(help_text="incident, action, policy, cluster, account, …")
    subject_id = django_filters.CharFilter(help_text="Of that kind.")
    incident = KeyFilter(field_name="incident_id", help_text="The incident's id.")
    request_id = django_filters.CharFilter(help_text="As answers carry it in X-Request-ID.")
    since = MomentFilter(field_name="at", lookup_expr="gte", help_text="ISO 8601, this moment included.")
    until = MomentFilter(field_name="at", lookup_expr="lt", help_text="ISO 8601, this moment excluded.")

    class Meta:
        model = Event
        fields: list[str] = []


class AuditEventShape(Shape):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor_kind = serializers.CharField(help_text="user, token or system.")
    actor_name = serializers.CharField()
    origin = serializers.CharField(help_text="A client's address, or what ran on which host.")
    request_id = serializers.CharField()
    subject_kind = serializers.CharField()
    subject_id = serializers.CharField()
    incident_id = serializers.IntegerField(allow_null=True)
    verb = serializers.CharField()
    old = serializers.CharField()
    new = serializers.CharField()
    reason = serializers.CharField()
    data = serializers.DictField()  # type: ignore[assignment]  # the base class has a property of that name


class Events(Rows[Event]):
    """List events of the audit trail, the newest first."""

    serializer_class = AuditEventShape
    filterset_class = EventFilters
    queryset = audit_reads.find_events(audit_reads.EventQuery())


class ChainShape(Shape):
    sealed_id = serializers.IntegerField(help_text="The newest event that is sealed.")
    sealed_at = serializers.DateTimeField(allow_null=True)
    verified_id = serializers.IntegerField(allow_null=True, help_text="Up to here the trail was whole.")
    verified_at = serializers.DateTimeField(allow_null=True, help_text="When that verification began.")
    bad_id = serializers.IntegerField(allow_null=True, help_text="The first bad row; null where none was found.")
    bad_reason = serializers.CharField()
    bad_at = serializers.DateTimeField(allow_null=True)
    archived_id = serializers.IntegerField(source="base_id", help_text="Events up to here were archived; 0: none.")
    anchor = serializers.SerializerMethodField(help_text="Keep it elsewhere, for verify_audit --anchor.")

    def get_anchor(self, row: Any) -> str:
        return f"{row.sealed_id}:{row.sealed_digest}"


class AuditState(DeskView):
    """Get how far the audit trail is sealed and verified, and the first bad row where there is one."""

    required = Permission.AUDIT_VIEW

    @extend_schema(responses=ChainShape)
    def get(self, request: Request) -> Response:
        return Response(ChainShape(audit_reads.audit_chain()).data)


class ExportQuery(Shape):
    after = serializers.IntegerField(
        default=0, min_value=0, max_value=2**63 - 1, help_text="Only events after this id."
    )
    limit = serializers.IntegerField(default=MOST, min_value=1, max_value=MOST, help_text="So many at most.")


class AuditExport(DeskView):
    """Get sealed events as JSON lines that carry their chain; the next export goes on after the last id.

    Files are verified together, in their order: manage.py verify_audit --file FILE --file FILE.
    """

    required = Permission.AUDIT_VIEW

    @extend_schema(parameters=[ExportQuery], responses={(200, "application/x-ndjson"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponse:
        require(self.actor, Permission.AUDIT_VIEW, EVERYTHING)
        refuse_unknown(request.query_params.keys(), ExportQuery().fields)
        query = ExportQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        chain.seal(now=timezone.now())
        try:
            text = "".join(audit_export.lines(**query.validated_data))
        except audit_export.Unfit as problem:
            raise ValidationError({"after": [str(problem)]}) from problem
        return HttpResponse(text, content_type="application/x-ndjson", headers={"Cache-Control": "no-store"})
