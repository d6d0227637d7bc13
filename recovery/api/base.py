"""What all views of the API are made of."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from django.db.models import Model, QuerySet
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from recovery.access import Actor, Permission
from recovery.api.authentication import actor_of
from recovery.api.permissions import Access
from recovery.selectors import NotFound
from recovery.selectors.scope import reach, visible_to

M = TypeVar("M", bound=Model)


class DeskView(APIView):
    """Declares what it requires (recovery/api/permissions.py); nothing it answers may be kept by a cache."""

    required: ClassVar[Permission | Access]
    of: ClassVar[type[Model] | None] = None  # what the address names by its key: where it is not visible there is none
    metadata_class = None  # what OPTIONS would tell stands in the OpenAPI document

    @property
    def actor(self) -> Actor:
        return actor_of(self.request)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.of is not None and isinstance(self.required, Permission):
            reach(self.of, kwargs["pk"], self.actor, self.required)

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {**super().default_response_headers, "Cache-Control": "no-store"}


class Rows(DeskView, generics.ListAPIView[M]):
    """A list of what the actor may see: filtered, in a stated order, in bounded pages."""

    required = Permission.VIEW

    def get_queryset(self) -> QuerySet[M]:
        return visible(super().get_queryset(), self)


class Row(DeskView, generics.RetrieveAPIView[M]):
    """One row of a list by its id."""

    required = Permission.VIEW

    def get_queryset(self) -> QuerySet[M]:
        return visible(super().get_queryset(), self)

    def get_object(self) -> M:
        pk = self.kwargs["pk"]
        row = self.get_queryset().filter(pk=pk).first()
        if row is None:
            raise NotFound(f"There is no {self.get_queryset().model._meta.verbose_name} {pk}.")
        return row


def visible(rows: QuerySet[M], view: DeskView) -> QuerySet[M]:
    """The OpenAPI document asks for the rows' model without anybody who asks."""
    return rows if getattr(view, "swagger_fake_view", False) else visible_to(rows, view.actor)


class NoSuchAddress(DeskView):
    """Whatever has no view: the one shape of errors holds here too."""

    required = Access.OPEN
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise NotFound("There is nothing at this address; /api/v1/openapi.json lists what there is.")

    def get(self, request: Request, **kwargs: Any) -> Response:
        raise NotImplementedError  # `initial` has answered, whatever the method

    post = put = patch = delete = get
