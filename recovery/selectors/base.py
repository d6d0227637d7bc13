"""What all reads share."""

from __future__ import annotations

from typing import TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)


class NotFound(Exception):
    """There is no such row; the message names what was looked for."""


def get(rows: QuerySet[M], *, noun: str, pk: int) -> M:
    try:
        return rows.get(pk=pk)
    except ObjectDoesNotExist as error:
        raise NotFound(f"There is no {noun} {pk}.") from error
