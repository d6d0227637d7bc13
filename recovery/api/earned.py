"""What each rule of the policy has earned: scorecards, and proposals to let a rule go by itself."""

from __future__ import annotations

from datetime import timedelta

import django_filters
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from recovery.access import Permission
from recovery.api.base import DeskView, Row, Rows
from recovery.api.fields import Shape, Word
from recovery.api.fleet import Reason
from recovery.api.parsing import FlagFilter, refuse_unknown
from recovery.core.score import Scorecard, Share
from recovery.core.types import FailureClass
from recovery.models import Incident, Promotion
from recovery.pipeline import earned
from recovery.pipeline.rehearse import MOST_DAYS
from recovery.selectors.scope import visible_to


class ShareShape(Shape):
    hits = serializers.IntegerField()
    of = serializers.IntegerField()
    least = serializers.SerializerMethodField(help_text="The true share is at least this, at 95 %.")
    most = serializers.SerializerMethodField(help_text="… and at most this.")

    def get_least(self, share: Share) -> float:
        return round(share.interval[0], 4)

    def get_most(self, share: Share) -> float:
        return round(share.interval[1], 4)


class ScorecardShape(Shape):
    rule = serializers.CharField()
    failure_class = Word(FailureClass)
    recommended = serializers.IntegerField()
    decided = serializers.IntegerField(help_text="By people.")
    agreement = ShareShape(help_text="Of what people said, how often they agreed.")
    recovered = ShareShape(help_text="Of the actions whose outcome is known.")
    wrongful = serializers.ListField(child=serializers.IntegerField(), help_text="Incidents.")
    automatic = serializers.IntegerField(help_text="Decided by policy.")
    expired = serializers.IntegerField()
    saved_s = serializers.SerializerMethodField(help_text="People's time to agree.")
    saved_gpu_hours = serializers.SerializerMethodField(help_text="GPUs idle meanwhile.")

    def get_saved_s(self, card: Scorecard) -> float:
        return card.saved.total_seconds()

    def get_saved_gpu_hours(self, card: Scorecard) -> float:
        return round(card.saved_gpu_s / 3600, 2)


class Scorecards(DeskView):
    """List scorecards: one for each rule and failure class, of the incidents that the asker may see."""

    required = Permission.VIEW

    @extend_schema(
        operation_id="scorecards_list",
        parameters=[OpenApiParameter("days", OpenApiTypes.INT, description=f"1 to {MOST_DAYS}, up to now; 90.")],
        responses=ScorecardShape(many=True),
    )
    def get(self, request: Request) -> Response:
        refuse_unknown(request.query_params.keys(), {"days"})
        text = request.query_params.get("days", "90")
        if not (text.isdecimal() and len(text) < 6 and 1 <= int(text) <= MOST_DAYS):
            raise ValidationError({"days": [f"Give a whole number from 1 to {MOST_DAYS}."]})
        only = visible_to(Incident.objects.order_by(), self.actor).values("pk")
        since = timezone.now() - timedelta(days=int(text))
        cards = earned.cards(since=since, only=None if self.actor.sees_everything else only)
        return Response(ScorecardShape(cards, many=True).data)


class PromotionShape(Shape):
    id = serializers.IntegerField()
    rule = serializers.CharField()
    policy_version = serializers.IntegerField(source="policy.number", help_text="That held when it was proposed.")
    reason = serializers.CharField(help_text="The figures that it rests on.")
    proposed_at = serializers.DateTimeField()
    decided_at = serializers.DateTimeField(allow_null=True, help_text="null: it waits for a person.")
    decided_by = serializers.CharField()
    decision_reason = serializers.CharField()
    made_version = serializers.IntegerField(
        source="made.number", allow_null=True, default=None, help_text="That it became; null: none."
    )


class PromotionFilters(django_filters.FilterSet):
    open = FlagFilter(method="filter_open", help_text="true: those that wait for a person; false: decided ones.")

    class Meta:
        model = Promotion
        fields: list[str] = []

    def filter_open(self, rows: QuerySet[Promotion], name: str, value: bool) -> QuerySet[Promotion]:
        return rows.filter(decided_at__isnull=value)


class Promotions(Rows[Promotion]):
    """List proposals to let a rule go by itself, the newest first."""

    queryset = Promotion.objects.select_related("policy", "made")
    serializer_class = PromotionShape
    filterset_class = PromotionFilters


class PromotionOne(Row[Promotion]):
    """Get one proposal to let a rule go by itself."""

    queryset = Promotion.objects.select_related("policy", "made")
    serializer_class = PromotionShape


class AcceptPromotion(DeskView):
    """Let the rule go by itself: a new version of the policy, which holds at once."""

    required = Permission.POLICY_EDIT
    of = Promotion

    @extend_schema(operation_id="promotions_accept", request=Reason, responses=PromotionShape)
    def post(self, request: Request, pk: int) -> Response:
        given = Reason(data=request.data)
        given.is_valid(raise_exception=True)
        earned.accept(pk, reason=given.validated_data["reason"], actor=self.actor, now=timezone.now())
        return Response(PromotionShape(Promotion.objects.select_related("policy", "made").get(pk=pk)).data)


class RejectPromotion(DeskView):
    """Leave the rule as it is, until as many decisions more as its bar asks for were made."""

    required = Permission.POLICY_EDIT
    of = Promotion

    @extend_schema(operation_id="promotions_reject", request=Reason, responses=PromotionShape)
    def post(self, request: Request, pk: int) -> Response:
        given = Reason(data=request.data)
        given.is_valid(raise_exception=True)
        row = earned.reject(pk, reason=given.validated_data["reason"], actor=self.actor, now=timezone.now())
        return Response(PromotionShape(row).data)
