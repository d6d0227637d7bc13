"""Whoever asks: what they may do, and their tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from recovery.access import Permission
from recovery.api import tokens
from recovery.api.base import DeskView, Rows
from recovery.api.fields import Shape, Word
from recovery.api.permissions import Access
from recovery.models import ApiToken

LIFETIME = timedelta(days=90)  # of a token whose maker does not say


class Me(DeskView):
    """Tell who is asking and what they may do."""

    required = Access.LOGGED_IN

    class Output(Shape):
        name = serializers.CharField()
        kind = serializers.ChoiceField(choices=["user", "token"], help_text="A session, or a token.")
        permissions = serializers.DictField(
            child=serializers.CharField(), help_text="Each permission that is given, with what it allows."
        )

        class Meta:
            ref_name = "Me"

    @extend_schema(
        responses=Output,
        examples=[
            OpenApiExample(
                "A token of an approver",
                value={
                    "name": "approver (token night shift)",
                    "kind": "token",
                    "permissions": {"view": Permission.VIEW.sentence},
                },
                response_only=True,
            )
        ],
    )
    def get(self, request: Request) -> Response:
        actor = self.actor
        permissions = {each.value: each.sentence for each in Permission if actor.can(each)}
        return Response({"name": actor.name, "kind": actor.kind, "permissions": permissions})


class TokenShape(Shape):
    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The visible part: rd_<prefix>_…")
    scopes = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True, help_text="null: never.")
    revoked_at = serializers.DateTimeField(allow_null=True)
    used_at = serializers.DateTimeField(allow_null=True, help_text="To the minute.")


class NewTokenShape(TokenShape):
    token = serializers.CharField(help_text="The whole token, shown this once: keep it where secrets are kept.")


class NewTokenInput(Shape):
    name = serializers.CharField(max_length=100, help_text="What uses it.")
    scopes = serializers.ListField(
        child=Word(Permission), help_text="What it may do, as far as its owner may.", min_length=1, max_length=20
    )
    expires_at = serializers.DateTimeField(
        allow_null=True, required=False, help_text="90 days from now unless given; null: never."
    )


class Tokens(Rows[ApiToken]):
    """List your own tokens, newest first."""

    required = Permission.TOKEN_MANAGE
    queryset = ApiToken.objects.none()  # names the table for the OpenAPI document; the rows are the asker's own
    serializer_class = TokenShape

    def get_queryset(self) -> Any:
        return tokens.tokens_of(self.actor)

    @extend_schema(
        operation_id="tokens_make",
        request=NewTokenInput,
        responses={201: NewTokenShape},
        examples=[
            OpenApiExample(
                "For a script that watches",
                value={"name": "status board", "scopes": ["view"], "expires_at": "2027-01-01T00:00:00Z"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Make a token.

        It is shown once, in this answer. It can never do more than you may, now or later. A token can't make tokens.
        """
        given = NewTokenInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        now = timezone.now()
        token, text = tokens.make(
            actor=self.actor,
            name=wanted["name"],
            scopes=[Permission(scope) for scope in wanted["scopes"]],
            expires_at=wanted.get("expires_at", now + LIFETIME),
            now=now,
        )
        return Response({**TokenShape(token).data, "token": text}, status=status.HTTP_201_CREATED)


class TokenOne(DeskView):
    """Revoke one of your own tokens.

    At once and for good; revoking it again is no error.
    """

    required = Permission.TOKEN_MANAGE

    @extend_schema(responses={200: TokenShape}, operation_id="tokens_revoke")
    def delete(self, request: Request, pk: int) -> Response:
        return Response(TokenShape(tokens.revoke(token_id=pk, actor=self.actor, now=timezone.now())).data)
