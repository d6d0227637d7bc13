"""What jobs push, and the tokens that let them."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, cast

from django.conf import settings
from django.db import OperationalError
from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import authentication, serializers
from rest_framework.exceptions import APIException, AuthenticationFailed, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import SimpleRateThrottle
from rest_framework.views import APIView

from recovery.access import Permission
from recovery.api import push_tokens
from recovery.api.base import DeskView, Rows
from recovery.api.errors import answer
from recovery.api.fields import Finite, Shape
from recovery.api.parsing import SmallJSONParser
from recovery.api.permissions import Access
from recovery.api.schema import Failure
from recovery.api.tokens import Refused as BadToken
from recovery.core.pushed import KINDS, PHASES
from recovery.models import Cluster, Job, PushToken
from recovery.pipeline import push
from recovery.selectors.scope import visible_to

LARGEST_BATCH = 1024 * 1024  # bytes; a thousand rows of progress have about 150 kB
STATUS = {
    "unknown_job": HTTPStatus.NOT_FOUND,
    "unknown_attempt": HTTPStatus.NOT_FOUND,
    "wrong_job": HTTPStatus.FORBIDDEN,
    "attempt_over": HTTPStatus.CONFLICT,
    "too_many": HTTPStatus.TOO_MANY_REQUESTS,
}


class PushTokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer rdp_<prefix>_<secret>`. Nothing else opens this door, no session and no API token."""

    def authenticate(self, request: Request) -> tuple[Any, PushToken] | None:
        header = authentication.get_authorization_header(request).decode("latin-1")
        scheme, _, text = header.partition(" ")
        if scheme.lower() != "bearer":
            return None
        try:
            token = push_tokens.authenticate(text.strip(), now=timezone.now())
        except BadToken as error:
            raise AuthenticationFailed(str(error)) from error
        return None, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="Recovery Desk"'


class PushThrottle(SimpleRateThrottle):
    """settings.PUSH_RATE requests for each push token, counted by each web process for itself."""

    scope = "push"

    def get_rate(self) -> str | None:
        return settings.PUSH_RATE or None

    def get_cache_key(self, request: Request, view: APIView) -> str | None:
        token = request.auth
        return f"push-{token.pk}" if isinstance(token, PushToken) else self.get_ident(request)


class BatchParser(SmallJSONParser):
    largest = LARGEST_BATCH


class TooManyRows(APIException):
    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"
    default_detail = f"A batch holds {push.MOST_ROWS} rows at most: send several."


@extend_schema_field({"oneOf": [{"type": "number"}, {"type": "string"}]})
class _Moment(serializers.Field):  # type: ignore[type-arg]
    """Of the document only: rows are read by recovery/core/pushed.py."""


class RowShape(Shape):
    """One thing that the training tells. Only `kind` is needed, and `step` with progress."""

    kind = serializers.ChoiceField(choices=KINDS, required=False, help_text="progress unless given.")
    at = _Moment(
        required=False,
        help_text="Seconds since 1970, or ISO 8601 with an offset; unless given, when it came. Believed within the "
        "attempt's life.",
    )
    step = serializers.IntegerField(required=False)
    rank = serializers.IntegerField(required=False, help_text="Unless given the row speaks for all ranks.")
    loss = Finite(required=False)
    throughput = Finite(required=False, help_text="In any unit; only compared within one attempt.")
    step_time_s = Finite(required=False)
    tokens = Finite(required=False, help_text="Trained on since the run began.")
    path = serializers.CharField(required=False, help_text="The folder that holds the run's checkpoints.")
    text = serializers.CharField(required=False, help_text="Of a failure: what the process said.")
    phase = serializers.ChoiceField(choices=list(PHASES), required=False, help_text="With the kind phase.")

    class Meta:
        ref_name = "PushedRow"


class BatchShape(Shape):
    batch = serializers.CharField(
        max_length=push.LONGEST_ID, help_text="Any text that this sender never uses twice: sent again it is known."
    )
    job = serializers.CharField(max_length=40, help_text="Slurm's id; of an array task ARRAY_TASK.")
    restart = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=2**31 - 1,
        help_text="SLURM_RESTART_COUNT; unless given the newest attempt.",
    )  # fmt: skip
    dropped = serializers.IntegerField(
        default=0, min_value=0, max_value=2**62, help_text="Rows that the sender had no room for, since it began."
    )
    client = serializers.IntegerField(required=False, help_text="The client's version.")
    rows = serializers.ListField(
        child=serializers.JSONField(), help_text=f"At most {push.MOST_ROWS}; none tells that the sender lives."
    )

    class Meta:
        ref_name = "PushedBatch"


class _BatchDocument(BatchShape):
    """As BatchShape, with its rows described; they are checked one by one, so that a bad one spoils no other."""

    rows = RowShape(many=True)  # type: ignore[assignment]

    class Meta:
        ref_name = "PushedBatch"


class RefusedRow(Shape):
    index = serializers.IntegerField(help_text="The row's place in `rows`, from 0.")
    field = serializers.CharField(help_text='"" where the row as a whole is wrong.')
    message = serializers.CharField()

    class Meta:
        ref_name = "RefusedRow"


class AcceptedShape(Shape):
    accepted = serializers.IntegerField(help_text="Rows that are kept, or were before.")
    again = serializers.BooleanField(help_text="The batch was here before; nothing changed.")
    refused = RefusedRow(many=True, help_text="Rows that were not taken; the others were.")

    class Meta:
        ref_name = "Accepted"


class Ingest(DeskView):
    """Push what a job says of itself.

    Rows that are right are kept, also where others of the batch are not: those are named by index and field. A batch
    whose answer was lost is sent again as it was; nothing is stored twice. Wait as long as `Retry-After` says after
    429, and after 404 where the job has only just started: the desk learns of it at its next look at the cluster.
    """

    required = Access.PUSH
    authentication_classes = (PushTokenAuthentication,)
    throttle_classes = (PushThrottle,)
    parser_classes = (BatchParser,)

    @extend_schema(
        operation_id="ingest",
        request=_BatchDocument,
        responses={
            200: AcceptedShape,
            403: OpenApiResponse(Failure, "The token is not for this job."),
            404: OpenApiResponse(
                Failure, "The job, or this attempt, was not seen yet; `Retry-After` says when to ask."
            ),
            409: OpenApiResponse(Failure, "The attempt is over and judged: no more is taken for it."),
            413: OpenApiResponse(Failure, "The batch is too large; the message names the limit."),
        },
        examples=[
            OpenApiExample(
                "Two steps and a checkpoint",
                value={
                    "batch": "gpu-01-4242-17",
                    "job": "4711",
                    "restart": 0,
                    "rows": [
                        {"at": 1768137600.5, "step": 119, "loss": 2.34, "step_time_s": 1.21},
                        {"at": 1768137601.7, "step": 120, "loss": 2.31, "step_time_s": 1.2},
                        {"kind": "save_durable", "at": 1768137609.1, "step": 120, "path": "/ckpt/llama-70b"},
                    ],
                },
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        given = BatchShape(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        if len(wanted["rows"]) > push.MOST_ROWS:
            raise TooManyRows
        if re.fullmatch(r"[\x20-\x7e]{1,64}", wanted["batch"]) is None:
            raise ValidationError({"batch": ["Use printable ASCII characters, at most 64."]})
        batch = push.Batch(
            batch_id=wanted["batch"], job_id=wanted["job"], restart=wanted.get("restart"), rows=wanted["rows"],
            dropped=wanted["dropped"],
        )  # fmt: skip
        try:
            taken = push.accept(cast(PushToken, request.auth), batch, now=timezone.now())
        except push.Refused as refused:
            return _refused(refused)
        except OperationalError:
            message = "The database is busy; nothing of the batch was taken. Send it again as it is."
            return answer(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", message, None, **_wait(push.LATER_S))
        if batch.rows and not taken.accepted:
            raise ValidationError({f"rows.{each.index}.{each.field}": [each.message] for each in taken.refused[:50]})
        return Response(AcceptedShape(taken).data)


def _refused(refused: push.Refused) -> Response:
    return answer(STATUS[refused.code], refused.code, str(refused), None, **_wait(refused.retry_after_s))


def _wait(seconds: int | None) -> dict[str, str]:
    return {} if seconds is None else {"Retry-After": str(seconds)}


class PushTokenShape(Shape):
    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The visible part: rdp_<prefix>_…")
    reach = serializers.CharField(help_text="What it pushes for, as a sentence.")
    cluster = serializers.CharField(source="cluster.name")
    job = serializers.IntegerField(source="job_id", allow_null=True, help_text="Our id of the one job, else null.")
    user = serializers.CharField(help_text='The Slurm user whose jobs it pushes for, else "".')
    made_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)
    used_at = serializers.DateTimeField(allow_null=True, help_text="To the minute.")

    class Meta:
        ref_name = "PushToken"


class NewPushTokenShape(PushTokenShape):
    token = serializers.CharField(help_text="The whole token, shown this once: keep it where secrets are kept.")

    class Meta:
        ref_name = "NewPushToken"


class PushTokenInput(Shape):
    name = serializers.CharField(max_length=100, help_text="What uses it.")
    cluster = serializers.CharField(help_text="By name.")
    job = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=2**63 - 1, help_text="Our id of one job."
    )
    user = serializers.CharField(required=False, default="", allow_blank=True, help_text="A Slurm user's name.")
    expires_at = serializers.DateTimeField(required=False, help_text="90 days from now unless given; at most 2 years.")

    class Meta:
        ref_name = "PushTokenInput"


class PushTokens(Rows[PushToken]):
    """List push tokens, newest first."""

    required = Permission.TOKEN_MANAGE
    queryset = push_tokens.push_tokens()
    serializer_class = PushTokenShape

    @extend_schema(
        operation_id="push_tokens_make", request=PushTokenInput, responses={201: NewPushTokenShape},
        examples=[
            OpenApiExample(
                "For one user's jobs", value={"name": "alice's scripts", "cluster": "alpha", "user": "alice"},
                request_only=True,
            )
        ],
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Make a push token.

        It is shown once, in this answer. For one job, for one Slurm user's jobs, or for all jobs of the cluster.
        """
        given = PushTokenInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted, now = given.validated_data, timezone.now()
        cluster = visible_to(Cluster.objects.filter(name=wanted["cluster"]), self.actor).first()
        if cluster is None:
            raise ValidationError({"cluster": [f"There is no cluster {wanted['cluster'][:50]!r}."]})
        job = visible_to(Job.objects.filter(pk=wanted.get("job") or 0), self.actor).first()
        if wanted.get("job") and job is None:
            raise ValidationError({"job": [f"There is no job {wanted['job']}."]})
        token, text = push_tokens.make(
            actor=self.actor, name=wanted["name"], cluster=cluster, job=job, user=wanted["user"].strip(),
            expires_at=wanted.get("expires_at"), now=now,
        )  # fmt: skip
        return Response({**PushTokenShape(token).data, "token": text}, status=HTTPStatus.CREATED)


class PushTokenOne(DeskView):
    """Revoke a push token.

    At once and for good; revoking it again is no error.
    """

    required = Permission.TOKEN_MANAGE
    of = PushToken

    @extend_schema(responses={200: PushTokenShape}, operation_id="push_tokens_revoke")
    def delete(self, request: Request, pk: int) -> Response:
        return Response(PushTokenShape(push_tokens.revoke(token_id=pk, actor=self.actor, now=timezone.now())).data)
