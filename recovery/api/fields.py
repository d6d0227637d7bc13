"""Fields that this API's answers share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from recovery.models import Cluster

Shape = serializers.Serializer[Any]


class Choice(serializers.ChoiceField):
    """One of some words that are given to us; another is refused with those that there are."""

    def __init__(self, choices: Sequence[str], **kwargs: Any) -> None:
        known = ", ".join(choices)
        refused = {"invalid_choice": f"There is no such choice; choose from: {known}."}
        super().__init__(choices=list(choices), error_messages={**refused}, **kwargs)


class Word(serializers.ChoiceField):
    """One word of an enum of the domain. With `or_null`: null where there is none yet, which tables keep as ""."""

    def __init__(self, words: type[StrEnum], *, or_null: bool = False, **kwargs: Any) -> None:
        super().__init__(choices=[str(word) for word in words], allow_null=or_null, **kwargs)

    def to_representation(self, value: Any) -> Any:
        return str(value) if value else None


@extend_schema_field({"type": "number", "format": "double"})
class Finite(serializers.FloatField):
    """A number that JSON can say: null for what is unknown, not a number or infinite (a loss can be all three)."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_null=True, **kwargs)

    def to_representation(self, value: float) -> Any:
        return value if math.isfinite(value) else None


class ClusterRef(Shape):
    """The cluster that a row is of, and how far the row can be trusted: it is as old as the cluster's picture."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    seen_at = serializers.DateTimeField(allow_null=True, help_text="Of the last good picture; null: there never was.")
    stale = serializers.SerializerMethodField(help_text="The picture is too old, or the last look failed.")

    def get_stale(self, cluster: Cluster) -> bool:
        return cluster.is_stale(timezone.now())


class RunRef(Shape):
    id = serializers.IntegerField()
    name = serializers.CharField()
    user = serializers.CharField()


class JobRef(Shape):
    id = serializers.IntegerField(help_text="Ours: it never names another job.")
    job_id = serializers.CharField(help_text="Slurm's, which it reuses one day.")
    name = serializers.CharField()
