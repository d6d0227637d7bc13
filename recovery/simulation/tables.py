"""Values out of a TOML table, with errors that say where, what is wrong and what would be right."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

MOST = 1e9


class Table:
    """One table. Values are taken out by name; what is wrong goes into `errors`, and what nobody took is wrong too."""

    def __init__(self, values: object, where: str, errors: list[str]) -> None:
        self.where, self.errors = where, errors
        self._wrong: set[str] = set()
        self._values: dict[str, Any] = {}
        if isinstance(values, dict):
            self._values = dict(values)
        else:
            errors.append(f"{where or 'the file'}: must be a table, not {_kind(values)}.")

    def complain(self, name: str, what: str) -> None:
        self.errors.append(f"{self.path(name)}: {what}")

    def path(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where and name else self.where or name

    def has(self, name: str) -> bool:
        return name in self._values

    def take(self, name: str) -> Any:
        return self._values.pop(name, None)

    def table(self, name: str) -> Table:
        return Table(self._values.pop(name, {}), self.path(name), self.errors)

    def tables(self, name: str) -> list[Table]:
        """An array of tables: `[[name]]`, any number of times."""
        found = self._values.pop(name, [])
        if not isinstance(found, list):
            self.complain(name, f"must be an array of tables: write [[{self.path(name)}]].")
            return []
        return [Table(item, f"{self.path(name)}[{number}]", self.errors) for number, item in enumerate(found)]

    def end(self, known: Sequence[str] = ()) -> None:
        """Complain of every field that nobody took."""
        for name in self._values:
            remedy = f"; it takes {', '.join(sorted(known))}" if known else ""
            self.complain(name, f"there is no such field{remedy}.")

    def fields_of(
        self, kind: type[Any], *, names: Mapping[str, str] | None = None, leave: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """What the table says of the fields of dataclass `kind`, checked by their annotations.

        `names` gives fields another name in the file; those in `leave` are not read. Takes all, so it is the last call.
        """
        hints = get_type_hints(kind)
        renamed = names or {}
        known = {renamed.get(field.name, field.name): field.name for field in fields(kind) if field.name not in leave}
        given: dict[str, Any] = {}
        for shown, name in known.items():
            if shown in self._values:
                try:
                    given[name] = checked(hints[name], self._values.pop(shown))
                except ValueError as error:
                    self._wrong.add(name)
                    self.complain(shown, f"{error}.")
        self.end(tuple(known))
        return given

    def make(self, kind: type[T], given: dict[str, Any], *, required: Sequence[str] = ()) -> T | None:
        """A `kind` of what was given; None, with an error, where that can't be."""
        missing = [name for name in required if name not in given]
        for name in missing:
            if name not in self._wrong:
                self.complain(name, "is missing; add it.")
        if missing:
            return None
        try:
            return kind(**given)
        except ValueError as error:
            self.errors.append(f"{self.where or 'the file'}: {error}")
            return None


def checked(annotation: Any, value: Any) -> Any:
    """The value as the annotation wants it. Raises ValueError, "must be …, not …"."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return checked(next(a for a in arguments if a is not type(None)), value)
    if origin is tuple:
        return _list(arguments[0], value)
    if origin is dict:
        return _texts(value)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return _choice(annotation, value)
    return _plain(annotation, value)


def _plain(annotation: Any, value: Any) -> Any:
    if annotation is str and isinstance(value, str):
        return value
    if annotation is bool and isinstance(value, bool):
        return value
    if annotation in (int, float) and not isinstance(value, bool) and isinstance(value, int | float):
        if not math.isfinite(value) or not 0 <= value <= MOST:
            raise ValueError(f"must be a number from 0 to {MOST:g}, not {value}")
        if annotation is float or isinstance(value, int):
            return annotation(value)
    wanted = {str: "text in quotes", bool: "true or false", int: "a whole number", float: "a number"}[annotation]
    raise ValueError(f"must be {wanted}, not {_kind(value)}")


def _list(inner: Any, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list in brackets, not {_kind(value)}")
    return tuple(checked(inner, item) for item in value)


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError("must be a table of texts")
    return dict(value)


def _choice(kind: type[StrEnum], value: Any) -> StrEnum:
    if value in list(kind):
        return kind(value)
    raise ValueError(f"must be one of {', '.join(kind)}, not {str(value)[:50]!r}")


def _kind(value: object) -> str:
    return f"{str(value)[:50]!r}" if isinstance(value, str | int | float) else type(value).__name__
