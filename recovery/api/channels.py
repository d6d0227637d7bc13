"""Channels by which people are told, and what was sent by them."""

from __future__ import annotations

from http import HTTPStatus

import django_filters
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from recovery.access import Permission
from recovery.api.base import DeskView, Rows
from recovery.api.fields import Shape
from recovery.core.words import CHANNEL_WORDS, DELIVERY_WORDS
from recovery.models import Channel, Delivery
from recovery.pipeline import channels
from recovery.selectors import channel_reads
from recovery.selectors.scope import within
from recovery.tasks import wake_channel

_KINDS = f"One of {', '.join(kind for kind, _ in Channel.KINDS)}."


class ChannelShape(Shape):
    id = serializers.IntegerField()
    name = serializers.CharField(help_text="What the policy's routes and escalations call it.")
    kind = serializers.CharField(help_text=_KINDS)
    target = serializers.SerializerMethodField(
        help_text="Mail addresses; of a web address the host alone, since whoever knows the rest may post there."
    )
    allow_private = serializers.BooleanField(help_text="Addresses within the site may be posted to.")
    enabled = serializers.BooleanField()
    state = serializers.SerializerMethodField(help_text=", ".join(CHANNEL_WORDS))
    good_at = serializers.DateTimeField(allow_null=True, help_text="When a message last arrived.")
    failing_since = serializers.DateTimeField(
        allow_null=True, help_text="null: the last try arrived, or there was none."
    )
    trouble = serializers.CharField(help_text='Why the last try failed, else "".')
    created_at = serializers.DateTimeField()

    class Meta:
        ref_name = "Channel"

    def get_target(self, channel: Channel) -> str:
        return channels.shown_target(channel)

    def get_state(self, channel: Channel) -> str:
        return channel_reads.channel_state(channel, now=timezone.now())


class SecretShape(ChannelShape):
    secret = serializers.CharField(
        help_text='What a webhook is signed with, shown this once; "" for other kinds, which are not signed.'
    )

    class Meta:
        ref_name = "ChannelWithSecret"


class ChannelInput(Shape):
    name = serializers.CharField(max_length=100, help_text="Letters, digits, spaces and the marks . - _")
    kind = serializers.CharField(max_length=20, help_text=_KINDS)
    target = serializers.CharField(
        max_length=1000, help_text="The address to post to, or mail addresses with commas between."
    )
    allow_private = serializers.BooleanField(default=False)

    class Meta:
        ref_name = "ChannelInput"


class ChannelChange(Shape):
    name = serializers.CharField(max_length=100, required=False)
    target = serializers.CharField(max_length=1000, required=False)
    allow_private = serializers.BooleanField(required=False)
    enabled = serializers.BooleanField(required=False, help_text="false: what waits is not sent any more.")

    class Meta:
        ref_name = "ChannelChange"


class DeliveryShape(Shape):
    id = serializers.IntegerField()
    channel = serializers.CharField(source="channel.name")
    key = serializers.CharField(help_text="webhook-id of a webhook: the same at each try.")
    kind = serializers.SerializerMethodField(help_text="What it tells of.")
    severity = serializers.SerializerMethodField()
    title = serializers.SerializerMethodField()
    state = serializers.SerializerMethodField(help_text=", ".join(DELIVERY_WORDS))
    made_at = serializers.DateTimeField()
    tries = serializers.IntegerField()
    try_at = serializers.DateTimeField(allow_null=True, help_text="When it is tried next; null: it is not.")
    sent_at = serializers.DateTimeField(allow_null=True)
    trouble = serializers.CharField(help_text='Why it did not arrive, else "".')

    class Meta:
        ref_name = "Delivery"

    def get_kind(self, delivery: Delivery) -> str:
        return str(delivery.message["kind"])

    def get_severity(self, delivery: Delivery) -> str:
        return str(delivery.message["severity"])

    def get_title(self, delivery: Delivery) -> str:
        return str(delivery.message["title"])

    def get_state(self, delivery: Delivery) -> str:
        return channel_reads.delivery_state(delivery)


class Channels(Rows[Channel]):
    """List the channels by name, each with how it does.

    They are of the whole site: whose role is for a part of it sees none.
    """

    required = Permission.CHANNEL_MANAGE
    queryset = Channel.objects.order_by("name")
    serializer_class = ChannelShape

    def get_queryset(self) -> QuerySet[Channel]:
        return within(Channel.objects.order_by("name"), self.actor, Permission.CHANNEL_MANAGE)

    @extend_schema(
        operation_id="channels_make", request=ChannelInput, responses={201: SecretShape},
        examples=[
            OpenApiExample(
                "A webhook",
                value={"name": "pager", "kind": "webhook", "target": "https://pager.example.org/hooks/recovery"},
                request_only=True,
            )
        ],
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Make a channel.

        A webhook's secret is shown once, in this answer.
        """
        given = ChannelInput(data=request.data)
        given.is_valid(raise_exception=True)
        channel, secret = channels.make(**given.validated_data, actor=self.actor, now=timezone.now())
        return Response({**ChannelShape(channel).data, "secret": secret}, status=HTTPStatus.CREATED)


class ChannelOne(DeskView):
    required = Permission.CHANNEL_MANAGE
    of = Channel

    @extend_schema(operation_id="channels_change", request=ChannelChange, responses={200: ChannelShape})
    def patch(self, request: Request, pk: int) -> Response:
        """Change a channel, or switch it off or on.

        What is not given stays as it is.
        """
        given = ChannelChange(data=request.data)
        given.is_valid(raise_exception=True)
        row = channels.change(pk, **given.validated_data, actor=self.actor, now=timezone.now())
        return Response(ChannelShape(row).data)

    @extend_schema(operation_id="channels_remove", responses={200: ChannelShape})
    def delete(self, request: Request, pk: int) -> Response:
        """Remove a channel.

        With what it has waiting. Routes of the policy that name it lead nowhere then.
        """
        return Response(ChannelShape(channels.remove(pk, actor=self.actor, now=timezone.now())).data)


class ChannelSecret(DeskView):
    required = Permission.CHANNEL_MANAGE
    of = Channel

    @extend_schema(operation_id="channels_renew_secret", request=None, responses={200: SecretShape})
    def post(self, request: Request, pk: int) -> Response:
        """Renew a webhook's secret.

        It is shown once, in this answer; from now on nothing is signed with the one before.
        """
        channel, secret = channels.renew_secret(pk, actor=self.actor, now=timezone.now())
        return Response({**ChannelShape(channel).data, "secret": secret})


class ChannelTest(DeskView):
    required = Permission.CHANNEL_MANAGE
    of = Channel

    @extend_schema(operation_id="channels_test", request=None, responses={202: DeliveryShape})
    def post(self, request: Request, pk: int) -> Response:
        """Send a test message.

        A worker sends it; read the deliveries to learn whether it arrived.
        """
        delivery = channels.try_out(pk, actor=self.actor, now=timezone.now())
        wake_channel(pk)
        return Response(DeliveryShape(delivery).data, status=HTTPStatus.ACCEPTED)


class DeliveryFilters(django_filters.FilterSet):
    channel = django_filters.CharFilter(field_name="channel__name", help_text="The channel's name.")

    class Meta:
        model = Delivery
        fields: list[str] = []


class Deliveries(Rows[Delivery]):
    """List messages that were sent or wait, the newest first."""

    required = Permission.CHANNEL_MANAGE
    queryset = channel_reads.deliveries()
    serializer_class = DeliveryShape
    filterset_class = DeliveryFilters

    def get_queryset(self) -> QuerySet[Delivery]:
        return within(channel_reads.deliveries(), self.actor, Permission.CHANNEL_MANAGE)


class DeliveryAgain(DeskView):
    required = Permission.CHANNEL_MANAGE
    of = Delivery

    @extend_schema(operation_id="deliveries_again", request=None, responses={202: DeliveryShape})
    def post(self, request: Request, pk: int) -> Response:
        """Send a message that did not arrive now, or once more after it was given up."""
        delivery = channels.try_again(pk, actor=self.actor, now=timezone.now())
        wake_channel(delivery.channel_id)
        return Response(DeliveryShape(delivery).data, status=HTTPStatus.ACCEPTED)
