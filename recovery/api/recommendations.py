"""Recommendations, and the two decisions that a person can take on one."""

from __future__ import annotations

from dataclasses import asdict

import django_filters
from django.db.models import Q, QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from recovery import selectors
from recovery.access import Permission
from recovery.api.base import DeskView, Row, Rows
from recovery.api.fields import Choice, ClusterRef, Finite, Shape, Word
from recovery.api.parsing import ClusterFilter, FlagFilter, KeyFilter, OneOf
from recovery.api.schema import Failure
from recovery.core.lifecycle import IncidentState
from recovery.core.policy import Approval
from recovery.core.types import ActionKind, DecisionKind, Mode, Rejection
from recovery.models import Agreement, Decision, Recommendation
from recovery.pipeline import decide
from recovery.tasks import wake_incident

HASH = "3f0c8a5d1b2e4f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"


class RecommendationFilters(django_filters.FilterSet):
    incident = KeyFilter(help_text="The incident's id.")
    cluster = ClusterFilter(field_name="incident__run__cluster__name", help_text="The cluster's name.")
    current = FlagFilter(
        field_name="superseded_at", lookup_expr="isnull", help_text="true: the ones that hold; false: superseded ones."
    )
    undecided = FlagFilter(
        method="filter_undecided", help_text="true: those that wait for a person's decision now; false: all others."
    )
    action = OneOf(choices=[(kind.value, kind.value) for kind in ActionKind])

    class Meta:
        model = Recommendation
        fields: list[str] = []

    def filter_undecided(self, rows: QuerySet[Recommendation], name: str, value: bool) -> QuerySet[Recommendation]:
        waiting = Q(superseded_at=None, decision=None, incident__state=IncidentState.AWAITING_DECISION)
        return rows.filter(waiting if value else ~waiting)


class DecisionShape(Shape):
    kind = Word(DecisionKind)
    actor_name = serializers.CharField(help_text="Who decided; a policy's decision is the product's own.")
    reason = serializers.CharField()
    rejection = Word(Rejection, or_null=True, help_text="Why it was rejected, of the short list; null: it was not.")
    overrode = serializers.CharField(help_text='Name of the freeze that it was made in spite of; "": none.')
    at = serializers.DateTimeField()
    hash = serializers.CharField(help_text="Of what was shown and decided on.")


class ApprovalShape(Shape):
    """What deciding takes."""

    count = serializers.IntegerField(help_text="So many different people have to agree.")
    role = serializers.CharField(help_text="Each with this role or more.")
    four_eyes = serializers.BooleanField(help_text="Who proposed it, or whose job it is, does not agree alone.")
    comment = serializers.BooleanField(help_text="Each approval says why.")
    owner = serializers.BooleanField(help_text="The job's user counts as one.")


class AgreementShape(Shape):
    actor_name = serializers.CharField()
    as_owner = serializers.BooleanField(help_text="As the job's user, not by a role.")
    comment = serializers.CharField()
    at = serializers.DateTimeField()


class PassedOverShape(Shape):
    rule = serializers.CharField()
    why = serializers.CharField(help_text="Why it did not decide.")


class RecommendationShape(Shape):
    id = serializers.IntegerField()
    incident_id = serializers.IntegerField()
    cluster = ClusterRef(source="incident.run.cluster")
    action = Word(ActionKind)
    exclude_nodes = serializers.ListField(child=serializers.CharField())
    parameters = serializers.DictField(help_text="Of the action, by its name; docs/actions.md lists them.")
    proposed_by = serializers.CharField(help_text='The person who proposed it; "": Recovery Desk itself.')
    headline = serializers.CharField(help_text="What is proposed, in one sentence.")
    reasons = serializers.ListField(child=serializers.CharField())
    operations = serializers.ListField(
        child=serializers.CharField(), help_text="The exact scheduler operations, in order."
    )
    restore_step = serializers.IntegerField(
        allow_null=True, help_text="Of the checkpoint it will restore from; null: it would start from scratch."
    )
    restore_path = serializers.CharField()
    steps_at_stake = serializers.IntegerField(allow_null=True, help_text="Work since that checkpoint, already lost.")
    gpu_hours_at_stake = Finite()
    gpus_idle = serializers.IntegerField(help_text="What waiting costs: so many GPUs stand idle.")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    superseded_at = serializers.DateTimeField(allow_null=True, help_text="null: it holds.")
    superseded_reason = serializers.CharField()
    hash = serializers.CharField(help_text="Send it back with a decision: it says what you have seen.")
    mode = Word(Mode, or_null=True, help_text="How far the policy lets the product go here.")
    mode_reason = serializers.CharField(help_text="The rule that says so.")
    policy_version = serializers.IntegerField(source="policy.number", allow_null=True, default=None)
    rule = serializers.CharField(help_text="Of the policy: the one that decided.")
    passed_over = PassedOverShape(many=True, help_text="Rules before it, and why they did not decide.")
    shadow = serializers.BooleanField(help_text="It would have gone by itself; its rule is in shadow.")
    amends_id = serializers.IntegerField(allow_null=True, help_text="The question that it was proposed instead of.")
    approval = serializers.SerializerMethodField(help_text="What deciding on it takes.")
    agreements = AgreementShape(many=True, help_text="Who has agreed so far, the first one first.")
    missing = serializers.SerializerMethodField(help_text="So many more have to agree; 0 once it is decided.")
    decision = serializers.SerializerMethodField()

    @extend_schema_field(ApprovalShape())
    def get_approval(self, recommendation: Recommendation) -> dict[str, object]:
        return asdict(Approval(**recommendation.approval))

    @extend_schema_field(serializers.IntegerField())
    def get_missing(self, recommendation: Recommendation) -> int:
        if selectors.decision_on(recommendation) or recommendation.superseded_at is not None:
            return 0
        return decide.still_missing(recommendation, list(recommendation.agreements.all()))

    @extend_schema_field(DecisionShape(allow_null=True))
    def get_decision(self, recommendation: Recommendation) -> dict[str, object] | None:
        decision = selectors.decision_on(recommendation)
        return dict(DecisionShape(decision).data) if decision else None


class Recommendations(Rows[Recommendation]):
    """List recommendations, newest first."""

    queryset = selectors.recommendations()
    serializer_class = RecommendationShape
    filterset_class = RecommendationFilters


class RecommendationOne(Row[Recommendation]):
    """Get one recommendation with its decision."""

    queryset = selectors.recommendations()
    serializer_class = RecommendationShape


class ShownHash(serializers.RegexField):
    """The hash of exactly what whoever decides has seen."""

    def __init__(self) -> None:
        super().__init__(
            r"^[0-9a-f]{64}$",
            error_messages=dict.fromkeys(
                ("required", "null", "blank", "invalid"),
                "Send the hash of the recommendation as you read it: a decision binds to what was shown.",
            ),
        )


CONFLICT = OpenApiResponse(
    Failure,
    description="`out_of_date`: what was shown no longer holds, so nothing was decided; read it again. "
    "`already_decided`: somebody was first; the message says who. `frozen`: a freeze holds; the message says until "
    "when, and which role can decide with `override`.",
    examples=[
        OpenApiExample(
            "Somebody was first",
            value={
                "error": {
                    "code": "already_decided",
                    "message": "approver decided first, at 14:22:11 UTC: approve.",
                    "fields": {},
                }
            },
        ),
        OpenApiExample(
            "Looked at again since",
            value={
                "error": {
                    "code": "out_of_date",
                    "message": "The case was looked at again since; read the newer recommendation and decide on that.",
                    "fields": {},
                }
            },
        ),
    ],
)


class ApprovedShape(Shape):
    """One person's approval: the decision, or an agreement to which more have to come."""

    decided = serializers.BooleanField(help_text="false: more have to agree, and nothing is done yet.")
    missing = serializers.IntegerField(help_text="So many more.")
    kind = Word(DecisionKind)
    actor_name = serializers.CharField()
    reason = serializers.CharField()
    at = serializers.DateTimeField()
    hash = serializers.CharField(help_text="Of what was shown and approved.")


class Approve(DeskView):
    """Approve a recommendation.

    The approval binds to what `hash` stands for: job, attempt, nodes, action and parameters. If any of that has
    changed, nothing is decided and the answer is 409. Where the policy asks for more people the answer says how many
    are `missing`, and nothing is done before the last one. What the scheduler then does is observed, and the incident
    tells of it.
    """

    required = Permission.DECIDE
    of = Recommendation

    class Input(Shape):
        hash = ShownHash()
        comment = serializers.CharField(max_length=500, allow_blank=True, default="", help_text="For the audit trail.")
        override = serializers.CharField(
            max_length=300, allow_blank=True, default="",
            help_text="In a freeze: why it is approved in spite of it. Takes the role that the freeze names.",
        )  # fmt: skip

        class Meta:
            ref_name = "Approving"

    @extend_schema(
        operation_id="recommendations_approve",
        request=Input,
        responses={200: ApprovedShape, 409: CONFLICT},
        examples=[
            OpenApiExample(
                "Approve what was read",
                value={"hash": HASH, "comment": "gpu-02 is already with the vendor"},
                request_only=True,
            ),
            OpenApiExample(
                "Approved",
                value={
                    "decided": True,
                    "missing": 0,
                    "kind": "approve",
                    "actor_name": "approver",
                    "reason": "gpu-02 is already with the vendor",
                    "at": "2026-01-11T14:22:11.204Z",
                    "hash": HASH,
                },
                response_only=True,
                status_codes=["200"],
            ),
        ],
    )
    def post(self, request: Request, pk: int) -> Response:
        given = self.Input(data=request.data)
        given.is_valid(raise_exception=True)
        data = given.validated_data
        try:
            made = decide.approve(
                pk, shown_hash=data["hash"], actor=self.actor, comment=data["comment"], override=data["override"],
                now=timezone.now(),
            )  # fmt: skip
        except ValueError as missing:
            raise ValidationError({"comment": [str(missing)]}) from missing
        wake_incident(made.recommendation.incident_id)
        return Response(_approved(made))


class Reject(DeskView):
    """Reject a recommendation, with a reason of the short list, in words, or both.

    Nothing is done to the job; the case is watched on. Binds to `hash` as an approval does.
    """

    required = Permission.DECIDE
    of = Recommendation

    class Input(Shape):
        hash = ShownHash()
        rejection = Choice(
            [each.value for each in Rejection],
            default=Rejection.OTHER.value, help_text="What the policy's scorecard learns from.",
        )  # fmt: skip
        reason = serializers.CharField(
            max_length=500, allow_blank=True, default="",
            help_text="For the audit trail and for whoever looks next. `other` needs one.",
        )  # fmt: skip

        class Meta:
            ref_name = "Rejecting"

    @extend_schema(
        operation_id="recommendations_reject",
        request=Input,
        responses={200: DecisionShape, 409: CONFLICT},
        examples=[
            OpenApiExample(
                "Reject what was read",
                value={"hash": HASH, "rejection": "not_now", "reason": "The node is being replaced."},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request, pk: int) -> Response:
        given = self.Input(data=request.data)
        given.is_valid(raise_exception=True)
        data = given.validated_data
        try:
            decision = decide.reject(
                pk, shown_hash=data["hash"], actor=self.actor, reason=data["reason"],
                rejection=Rejection(data["rejection"]), now=timezone.now(),
            )  # fmt: skip
        except ValueError as missing:
            raise ValidationError({"reason": [str(missing)]}) from missing
        wake_incident(decision.recommendation.incident_id)
        return Response(DecisionShape(decision).data)


def _approved(made: Decision | Agreement) -> dict[str, object]:
    decided = isinstance(made, Decision)
    return {
        "decided": decided,
        "missing": 0 if decided else decide.still_missing(made.recommendation),
        "kind": DecisionKind.APPROVE,
        "actor_name": made.actor_name,
        "reason": made.reason if isinstance(made, Decision) else made.comment,
        "at": made.at,
        "hash": made.hash,
    }
