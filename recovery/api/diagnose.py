"""A verdict on logs that are sent, as `manage.py diagnose` gives it. Nothing of them is stored."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from recovery.access import Permission
from recovery.api.base import DeskView
from recovery.api.fields import Finite, Shape, Word
from recovery.api.parsing import SmallJSONParser
from recovery.core.types import Exclude, FailureClass, Restart, Role
from recovery.evaluation import verdict_json
from recovery.offline.record import JobRecordError
from recovery.pipeline.diagnose_text import MOST_BYTES, MOST_LOGS, diagnose_text, text_log


class LogsParser(SmallJSONParser):
    largest = MOST_BYTES + 64 * 1024


class SentLog(Shape):
    name = serializers.CharField(max_length=200, help_text="As it shall stand in the evidence.")
    text = serializers.CharField(
        allow_blank=True, trim_whitespace=False, max_length=MOST_BYTES, help_text="The lines of the log."
    )


class DiagnoseInput(Shape):
    logs = serializers.ListField(child=SentLog(), allow_empty=False, max_length=MOST_LOGS)
    job = serializers.DictField(
        required=False,
        help_text="The scheduler's record, every field optional: state, reason, exit_code, nodes, restart_count, "
        "user_cancelled_by, time_limit_s, elapsed_s, node_events, checkpoints (docs/diagnose.md).",
    )


class FirstFailure(Shape):
    time = serializers.DateTimeField(allow_null=True)
    file = serializers.CharField()
    line = serializers.IntegerField(allow_null=True)
    rank = serializers.IntegerField(allow_null=True)
    node = serializers.CharField(allow_null=True)


class VerdictNodes(Shape):
    verdict = Word(Exclude)
    nodes = serializers.ListField(child=serializers.CharField())


class VerdictLine(Shape):
    file = serializers.CharField()
    line = serializers.IntegerField(allow_null=True)
    text = serializers.CharField()
    rule = serializers.CharField()
    role = Word(Role)


class Verdict(Shape):
    """As `manage.py diagnose --json` prints it. The built-in rules alone judge; what is sent here goes nowhere else."""

    restart = Word(Restart)
    exclude = VerdictNodes()
    confidence = Finite()
    first_failure = FirstFailure(allow_null=True)
    evidence = VerdictLine(many=True)
    reason = serializers.CharField()
    coverage = serializers.DictField(child=serializers.CharField())
    judged_by = serializers.ChoiceField(choices=["built-in rules"])

    def get_fields(self) -> dict[str, Any]:
        return {"class": Word(FailureClass), **super().get_fields()}


class Diagnose(DeskView):
    """Say why a job failed and what to do about it, from its logs. Nothing that is sent is stored."""

    required = Permission.VIEW
    parser_classes = (LogsParser,)

    @extend_schema(operation_id="diagnose", request=DiagnoseInput, responses=Verdict)
    def post(self, request: Request) -> Response:
        given = DiagnoseInput(data=request.data)
        given.is_valid(raise_exception=True)
        logs = [text_log(log["name"], log["text"].encode()) for log in given.validated_data["logs"]]
        try:
            verdict = diagnose_text(logs, given.validated_data.get("job", {}))
        except JobRecordError as error:
            raise ValidationError({"job": [str(error)]}) from error
        return Response(Verdict({**verdict_json(verdict), "judged_by": "built-in rules"}).data)
