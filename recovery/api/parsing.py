"""What the API accepts: small JSON bodies, known parameters, bounded pages. Anything else is refused by name."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any

from django import forms
from django.db.models import QuerySet
from django_filters import (
    BooleanFilter,
    CharFilter,
    ChoiceFilter,
    IsoDateTimeFilter,
    MultipleChoiceFilter,
    NumberFilter,
    OrderingFilter,
)
from django_filters.fields import IsoDateTimeField
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.exceptions import APIException, ParseError, ValidationError
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from recovery.access import Actor
from recovery.api.authentication import actor_of
from recovery.models import Cluster
from recovery.selectors.scope import visible_to

if TYPE_CHECKING:
    from rest_framework.views import APIView

LARGEST_BODY = 64 * 1024  # bytes; what people send us is a comment and a hash
LARGEST_PAGE = 500
FLAGS = {"true": True, "1": True, "false": False, "0": False}
EARLIEST, LATEST = 1970, 9000  # years
FARTHEST = 1_000_000  # a reader who is so deep in a list wants a filter


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"
    default_detail = "The body is too large."


class SmallJSONParser(BaseParser):
    """JSON as the standard has it: no NaN, and no more than `largest` bytes."""

    media_type = "application/json"
    largest = LARGEST_BODY

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        body = stream.read(self.largest + 1)
        if len(body) > self.largest:
            raise TooLarge(f"The body is larger than {self.largest // 1024} kB.")
        try:
            return json.loads(body.decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The body is no valid JSON: {error}.") from error


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def refuse_unknown(given: Collection[str], known: Collection[str]) -> None:
    """A mistyped filter that is passed over would answer another question than the one asked."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        choices = ", ".join(sorted(known)) or "none at all"
        raise ValidationError({name[:50]: [f"There is no such parameter; choose from: {choices}."] for name in unknown})


class MomentField(IsoDateTimeField):
    """A moment that every database and every time zone can say."""

    def clean(self, value: Any) -> datetime | None:
        moment: datetime | None = super().clean(value)
        if moment is not None and not EARLIEST <= moment.year <= LATEST:
            raise forms.ValidationError(f"Give a moment between the years {EARLIEST} and {LATEST}.")
        return moment


class MomentFilter(IsoDateTimeFilter):
    field_class = MomentField


class FlagField(forms.NullBooleanField):
    """true, false, or not given. Django takes any other word for "not given": the answer to another question."""

    widget = forms.TextInput

    def clean(self, value: Any) -> bool | None:
        if value in (None, ""):
            return None
        found = FLAGS.get(str(value).lower())
        if found is None:
            raise forms.ValidationError("Give true or false.")
        return found


class FlagFilter(BooleanFilter):
    field_class = FlagField


class KeyFilter(NumberFilter):
    """A number that a row can have: a greater one is refused, where a database would fail on it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=2**63 - 1, **options)


def _invalid_choice(choices: Sequence[tuple[str, str]]) -> dict[str, str]:
    known = ", ".join(value for value, _ in choices)
    return {"invalid_choice": f"There is no such choice; choose from: {known}."}


class OneOf(ChoiceFilter):
    """One of some words; another is refused with those that there are."""

    def __init__(self, *, choices: Sequence[tuple[str, str]], **options: Any) -> None:
        super().__init__(choices=choices, error_messages=_invalid_choice(choices), **options)


class SomeOf(MultipleChoiceFilter):
    """Some of the words, by repeating the parameter."""

    def __init__(self, *, choices: Sequence[tuple[str, str]], **options: Any) -> None:
        super().__init__(choices=choices, error_messages=_invalid_choice(choices), **options)


def known_cluster(name: str, actor: Actor) -> str:
    """The name where a cluster has it. Raises Django's ValidationError with those that the actor sees."""
    seen = visible_to(Cluster.objects.order_by("name"), actor)
    if name and not seen.filter(name=name).exists():
        names = ", ".join(seen.values_list("name", flat=True)[:50]) or "none at all"
        raise forms.ValidationError(f"There is no such cluster; choose from: {names}.")
    return name


class ClusterField(forms.CharField):
    actor: Actor | None = None

    def clean(self, value: Any) -> str:
        name = str(super().clean(value))
        return known_cluster(name, self.actor) if self.actor is not None else name


class ClusterFilter(CharFilter):
    field_class = ClusterField

    @property
    def field(self) -> forms.Field:
        """Of whoever asks: no clusters are told of but those that they see."""
        found: forms.Field = super().field
        request = getattr(getattr(self, "parent", None), "request", None)
        if isinstance(found, ClusterField) and request is not None:
            found.actor = actor_of(request)
        return found


class StableOrdering(OrderingFilter):
    """Rows alike keep their places from page to page, the newest first."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.extra["error_messages"] = _invalid_choice(self.extra["choices"])

    def filter(self, rows: QuerySet[Any], value: list[str] | None) -> QuerySet[Any]:
        return rows.order_by(*(self.get_ordering_value(each) for each in value), "-pk") if value else rows


class StrictFilters(DjangoFilterBackend):
    """django-filter, refusing parameters that the list doesn't know."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: APIView) -> QuerySet[Any]:
        filters = self.get_filterset_class(view, queryset)
        known = {"limit", "offset"} | set(filters.base_filters if filters else ())
        refuse_unknown(request.query_params.keys(), known)
        found: QuerySet[Any] = super().filter_queryset(request, queryset, view)
        return found


class BoundedPages(LimitOffsetPagination):
    """`limit` and `offset`. What is out of bounds is refused, not bent: a client must know what it has read."""

    default_limit = 50
    max_limit = LARGEST_PAGE
    limit_query_description = f"How many to return, 1 to {LARGEST_PAGE}; 50 unless given."
    offset_query_description = f"How many to pass over, 0 to {FARTHEST}."

    def get_limit(self, request: Request) -> int:
        return _whole(request, "limit", least=1, most=LARGEST_PAGE, default=self.default_limit)

    def get_offset(self, request: Request) -> int:
        return _whole(request, "offset", least=0, most=FARTHEST, default=0)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The parent's knows OpenAPI 3.0 alone, whose `nullable` is no word of 3.1."""
        found = super().get_paginated_response_schema(schema)
        for link in ("next", "previous"):
            del found["properties"][link]["nullable"]
            found["properties"][link]["type"] = ["string", "null"]
        found["required"] = list(found["properties"])
        return found


def _whole(request: Request, name: str, *, least: int, most: int, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most:
        return int(text)
    raise ValidationError({name: [f"Give a whole number from {least} to {most}."]})
