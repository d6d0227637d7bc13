"""What people stop: automation everywhere, everything for one run, a question, a decision that is not begun."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from recovery.access import Permission
from recovery.api.base import DeskView
from recovery.api.fields import Shape
from recovery.api.fleet import Reason
from recovery.api.incidents import ActionShape
from recovery.api.recommendations import CONFLICT
from recovery.models import Action, Incident, KillSwitch, Run
from recovery.pipeline import decide, pauses
from recovery.tasks import wake_incident


def _reason(request: Request) -> str:
    given = Reason(data=request.data)
    given.is_valid(raise_exception=True)
    return str(given.validated_data["reason"])


class KillSwitchShape(Shape):
    pulled = serializers.BooleanField(help_text="true: policies do nothing by themselves on any cluster.")
    pulled_at = serializers.DateTimeField(allow_null=True)
    pulled_by = serializers.CharField()
    reason = serializers.CharField()


def _switch() -> Response:
    row = KillSwitch.objects.first()
    state: dict[str, Any] = {"pulled": False, "pulled_at": None, "pulled_by": "", "reason": ""}
    if row is not None:
        state = {"pulled": True, "pulled_at": row.pulled_at, "pulled_by": row.pulled_by, "reason": row.reason}
    return Response(KillSwitchShape(state).data)


class KillSwitchState(DeskView):
    """Get whether automation is stopped everywhere."""

    required = Permission.VIEW

    @extend_schema(operation_id="kill_switch_retrieve", responses=KillSwitchShape)
    def get(self, request: Request) -> Response:
        return _switch()


class PullKillSwitch(DeskView):
    """Stop automation on every cluster, at once.

    What policies decided and what is not begun yet goes to a person; people can still approve.
    """

    required = Permission.OPERATE

    @extend_schema(operation_id="kill_switch_pull", request=Reason, responses=KillSwitchShape)
    def post(self, request: Request) -> Response:
        pauses.pull_kill_switch(reason=_reason(request), actor=self.actor, now=timezone.now())
        return _switch()


class ResetKillSwitch(DeskView):
    """Arm automation again, on clusters that are not paused themselves."""

    required = Permission.POLICY_EDIT

    @extend_schema(operation_id="kill_switch_reset", request=Reason, responses=KillSwitchShape)
    def post(self, request: Request) -> Response:
        pauses.reset_kill_switch(reason=_reason(request), actor=self.actor, now=timezone.now())
        return _switch()


class HandsShape(Shape):
    """Who has taken a run over."""

    run_id = serializers.IntegerField(source="pk")
    hands_off_at = serializers.DateTimeField(allow_null=True, help_text="null: nobody has.")
    hands_off_by = serializers.CharField()
    hands_off_reason = serializers.CharField()


class TakeOver(DeskView):
    """Take a run over: until it is given back nothing is done for it by policy, nor asked. It is still watched."""

    required = Permission.OPERATE
    of = Run

    @extend_schema(operation_id="runs_take_over", request=Reason, responses={200: HandsShape, 409: CONFLICT})
    def post(self, request: Request, pk: int) -> Response:
        pauses.take_over(pk, reason=_reason(request), actor=self.actor, now=timezone.now())
        return Response(HandsShape(Run.objects.get(pk=pk)).data)


class GiveBack(DeskView):
    """Give a run back: the policy decides about it again."""

    required = Permission.OPERATE
    of = Run

    @extend_schema(operation_id="runs_give_back", request=Reason, responses={200: HandsShape, 409: CONFLICT})
    def post(self, request: Request, pk: int) -> Response:
        pauses.give_back(pk, reason=_reason(request), actor=self.actor, now=timezone.now())
        return Response(HandsShape(Run.objects.get(pk=pk)).data)


class SnoozedShape(Shape):
    incident_id = serializers.IntegerField(source="pk")
    snoozed_until = serializers.DateTimeField(allow_null=True)
    snoozed_by = serializers.CharField()


class Snooze(DeskView):
    """Put a question out of the queue for a while; it still expires in time, and comes back with whatever is new."""

    required = Permission.OPERATE
    of = Incident

    class Input(Shape):
        until = serializers.DateTimeField(
            allow_null=True, help_text="At most 24 hours from now; null: back into the queue at once."
        )

        class Meta:
            ref_name = "Snoozing"

    @extend_schema(operation_id="incidents_snooze", request=Input, responses=SnoozedShape)
    def post(self, request: Request, pk: int) -> Response:
        given = self.Input(data=request.data)
        given.is_valid(raise_exception=True)
        until: datetime | None = given.validated_data["until"]
        if until is None:
            pauses.wake(pk, actor=self.actor, now=timezone.now())
        else:
            pauses.snooze(pk, until=until, actor=self.actor, now=timezone.now())
        return Response(SnoozedShape(Incident.objects.get(pk=pk)).data)


class Withdraw(DeskView):
    """Take back a decision whose action is not begun: nothing is done, and the case is watched."""

    required = Permission.DECIDE
    of = Action

    @extend_schema(operation_id="actions_withdraw", request=Reason, responses={200: ActionShape, 409: CONFLICT})
    def post(self, request: Request, pk: int) -> Response:
        reason = _reason(request)
        try:
            action = decide.withdraw(pk, reason=reason, actor=self.actor, now=timezone.now())
        except ValueError as missing:
            raise ValidationError({"reason": [str(missing)]}) from missing
        wake_incident(action.incident_id)
        return Response(ActionShape(action).data)
