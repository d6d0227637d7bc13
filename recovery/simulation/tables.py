"""Values out of a TOML table, with errors that say where, what is wrong and what would be right."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

MOST = 1e9
_NOTHING = object()
_PLAIN_NAME = re.compile(r"[\w.\[\]-]{0,50}")  # of a field; any other is shown in quotes


class Table:
    """One table. Values are taken out by name; what is wrong goes into `errors`, and what nobody took is wrong too."""

    def __init__(self, values: object, where: str, errors: list[str]) -> None:
        self.where, self.errors = where, errors
        self._asked: set[str] = set()  # every field that the table takes
        self._wrong: set[str] = set()
        self._values: dict[str, Any] = {}
        if isinstance(values, dict):
            self._values = dict(values)
        else:
            errors.append(f"{where or 'the file'}: must be a table, not {_kind(values)}.")

    def complain(self, name: str, what: str) -> None:
        self.errors.append(f"{self.path(name)}: {what}")

    def path(self, name: str) -> str:
        shown = name if _PLAIN_NAME.fullmatch(name) else repr(name[:50])
        return f"{self.where}.{shown}" if self.where and name else self.where or shown

    def has(self, name: str) -> bool:
        return name in self._values

    def take(self, name: str, default: Any = None) -> Any:
        """The value as it is in the file."""
        self._asked.add(name)
        return self._values.pop(name, default)

    def value(self, name: str, annotation: Any, default: Any) -> Any:
        """The value, checked; the default where there is none, and, with an error, where it is wrong."""
        if not self.has(name):
            return self.take(name, default)
        try:
            return checked(annotation, self.take(name))
        except ValueError as error:
            self._wrong.add(name)
            self.complain(name, f"{error}.")
            return default

    def table(self, name: str) -> Table:
        return Table(self.take(name, {}), self.path(name), self.errors)

    def tables(self, name: str) -> list[Table]:
        """An array of tables: `[[name]]`, any number of times."""
        found = self.take(name, [])
        if not isinstance(found, list):
            self.complain(name, f"must be an array of tables: write [[{self.path(name)}]].")
            return []
        return [Table(item, f"{self.path(name)}[{number}]", self.errors) for number, item in enumerate(found)]

    def only(self, names: Sequence[str]) -> dict[str, Any]:
        """What is there of these fields, unchecked; it complains of any other. Takes all, so it is the last call."""
        found = {name: self._values.pop(name) for name in names if name in self._values}
        self._asked |= set(names)
        self.end()
        return found

    def end(self) -> None:
        """Complain of every field that nobody asked for, and say which there are, the most alike first."""
        for name in self._values:
            alike = get_close_matches(name, sorted(self._asked), n=1)
            listed = [*alike, *sorted(self._asked - set(alike))]
            self.complain(name, f"there is no such field; it takes {', '.join(listed)}.")

    def fields_of(
        self, kind: type[Any], *, names: Mapping[str, str] | None = None, leave: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """What the table says of the fields of dataclass `kind`, checked by their annotations.

        `names` gives fields another name in the file; those in `leave` are not read. Takes all, so it is the last call.
        """
        hints = get_type_hints(kind)
        given: dict[str, Any] = {}
        for name in (field.name for field in fields(kind) if field.name not in leave):
            shown = (names or {}).get(name, name)
            found = self.value(shown, hints[name], _NOTHING)
            if found is not _NOTHING:
                given[name] = found
        self.end()
        return given

    def make(self, kind: type[T], given: dict[str, Any]) -> T | None:
        """A `kind` of what was given; None, with an error, where a field without a default is missing or it won't."""
        missing = [name for name in _required(kind) if name not in given]
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


def _required(kind: type[Any]) -> list[str]:
    return [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]


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
        if "\0" in value:  # neither a path nor an argument can hold it
            raise ValueError("must hold no NUL character")
        return value
    if annotation is bool and isinstance(value, bool):
        return value
    if annotation in (int, float) and not isinstance(value, bool) and isinstance(value, int | float):
        if not 0 <= value <= MOST:  # neither is nan
            raise ValueError(f"must be a number from 0 to {MOST:g}, not {_short(value)}")
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
    raise ValueError(f"must be one of {', '.join(kind)}, not {_short(value)!r}")


def _kind(value: object) -> str:
    return repr(_short(value)) if isinstance(value, str | int | float) else type(value).__name__


def _short(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 64:  # Python refuses to print the largest
        return "a number of more than 64 bits"
    return str(value)[:50]
