"""The external diagnostic service: how it stands, and what it says of a case beside our verdict."""

from __future__ import annotations

from rest_framework import serializers

from recovery.api.fields import Finite, Shape, Word
from recovery.core.opinion import ProviderMode


class ProviderShape(Shape):
    """Whose rules verdicts rest on: ours always; `degraded` where a service is set up and gives no answers."""

    mode = Word(ProviderMode)
    sentence = serializers.CharField()
    remedy = serializers.CharField(help_text='What to do about it; "" where nothing is wrong.')
    tried_at = serializers.DateTimeField(allow_null=True)
    good_at = serializers.DateTimeField(allow_null=True, help_text="Of the last good answer.")


class SecondOpinionShape(Shape):
    """What the service says, bounded but in its own words. Nothing that proposes, decides or acts reads it."""

    provider = serializers.CharField()
    asked_at = serializers.DateTimeField(help_text="When it was last asked about this case.")
    answered_at = serializers.DateTimeField(allow_null=True)
    duration_s = Finite(help_text="Of the call that brought the answer.")
    failure_class = serializers.CharField(help_text='In its own words; "" where it names none.')
    restart = serializers.CharField(help_text='"yes", "no", or "" where it does not say.')
    nodes = serializers.ListField(child=serializers.CharField())
    confidence = Finite(help_text="0 to 1, as it says.")
    reason = serializers.CharField()
    trouble = serializers.CharField(help_text='Why there is no answer; "" where there is, or none yet.')
    remedy = serializers.CharField()


class OpinionScoreShape(Shape):
    """Cases that the service was asked about in the window, against our verdict at the moment of its answer."""

    asked = serializers.IntegerField()
    answered = serializers.IntegerField()
    named_class = serializers.IntegerField(help_text="Of the answered: how many named a class.")
    same_class = serializers.IntegerField()
    named_restart = serializers.IntegerField(help_text="Of the answered: how many said whether to restart.")
    same_restart = serializers.IntegerField()
