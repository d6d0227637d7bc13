"""Proposals: what a person wants done instead of what Recovery Desk recommends, or undone. Decided like any other."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from recovery.access import Permission
from recovery.api.base import DeskView
from recovery.api.fields import Choice, Shape
from recovery.api.recommendations import CONFLICT, RecommendationShape
from recovery.core.types import ActionKind
from recovery.models import Action, Incident, Recommendation
from recovery.pipeline import propose
from recovery.tasks import client_of, wake_incident


class Why(serializers.CharField):
    """The reason of whoever proposes."""

    def __init__(self) -> None:
        missing: dict[str, Any] = dict.fromkeys(
            ("required", "null", "blank"), "Give a reason: whoever decides must know why."
        )
        help_text = "For the audit trail and for whoever decides."
        super().__init__(max_length=280, help_text=help_text, error_messages=missing)


MADE = OpenApiResponse(RecommendationShape, description="The recommendation that now holds; it waits for a decision.")


class Propose(DeskView):
    """Propose an action.

    It takes the place of the recommendation that holds and waits for a decision, whatever the policy says: nothing is
    done before somebody who may decide approves its hash. `nothing` needs no decision: it is recorded, and the case is
    watched. docs/actions.md lists the actions, what each needs and how it is undone.
    """

    required = Permission.OPERATE
    of = Incident

    class Input(Shape):
        action = Choice([kind.value for kind in ActionKind])
        exclude_nodes = serializers.ListField(
            child=serializers.CharField(max_length=100), max_length=1000, default=list,
            help_text="Of requeue_excluding and resubmit: nodes that the job must not use again.",
        )  # fmt: skip
        parameters = serializers.DictField(
            default=dict,
            help_text="By action. extend_time_limit: seconds, the whole new limit. drain and resume: node. resubmit: "
            "time_limit_s and environment, both optional. restore_older: step.",
        )
        reason = Why()

        class Meta:
            ref_name = "Proposal"

    @extend_schema(
        operation_id="incidents_propose",
        request=Input,
        responses={201: MADE, 409: CONFLICT},
        examples=[
            OpenApiExample(
                "Take a node out of service",
                value={"action": "drain", "parameters": {"node": "gpu-17"}, "reason": "third ECC error this week"},
                request_only=True,
            ),
            OpenApiExample(
                "Restore an older checkpoint",
                value={"action": "restore_older", "parameters": {"step": 820}, "reason": "840 has NaN weights"},
                request_only=True,
            ),
        ],
    )
    def post(self, request: Request, pk: int) -> Response:
        given = self.Input(data=request.data)
        given.is_valid(raise_exception=True)
        data = given.validated_data
        incident = Incident.objects.select_related("run__cluster").get(pk=pk)
        made = propose.propose(
            pk, action=ActionKind(data["action"]), parameters=data["parameters"], exclude_nodes=data["exclude_nodes"],
            reason=data["reason"], actor=self.actor, client=client_of(incident.run.cluster), now=timezone.now(),
        )  # fmt: skip
        return _made(made)


class Undo(DeskView):
    """Propose to undo an action.

    The reverse of it waits for a decision like any other proposal. Where an action can't be undone (any more), the
    answer says so.
    """

    required = Permission.OPERATE
    of = Action

    class Input(Shape):
        reason = Why()

        class Meta:
            ref_name = "Undoing"

    @extend_schema(operation_id="actions_undo", request=Input, responses={201: MADE, 409: CONFLICT})
    def post(self, request: Request, pk: int) -> Response:
        given = self.Input(data=request.data)
        given.is_valid(raise_exception=True)
        action = Action.objects.select_related("incident__run__cluster").get(pk=pk)
        made = propose.undo(
            pk, reason=given.validated_data["reason"], actor=self.actor,
            client=client_of(action.incident.run.cluster), now=timezone.now(),
        )  # fmt: skip
        return _made(made)


def _made(recommendation: Recommendation) -> Response:
    wake_incident(recommendation.incident_id)
    return Response(RecommendationShape(recommendation).data, status=status.HTTP_201_CREATED)
