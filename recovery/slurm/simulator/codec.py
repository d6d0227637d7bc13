"""Dataclasses to and from JSON values, by their annotations.

Covers what the world's state is made of: dataclasses, enums, X | None, tuple[X, ...], list[X], dict[str, X] and plain
JSON values. A field that has its default is left out, and a missing key takes it; an unknown one is an error, as it
would be lost at the next save.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def encode(value: Any) -> Any:
    """The JSON value for `value`."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    kind: Any = type(value)
    told = ((name, getattr(value, name), default) for name, default in _defaults(kind))
    return {name: encode(item) for name, item, default in told if item is not default and item != default}


def decode(kind: type[T], value: Any) -> T:
    """The `kind` that `encode` made `value` of. Raises TypeError, ValueError or KeyError where it was not."""
    wanted: Any = kind
    made: T = _decoder(wanted)(value)
    return made


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Each field with its default; one that equals nothing where it has none."""
    return tuple((field.name, _default(field)) for field in dataclasses.fields(kind))


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _optional(_decoder(next(a for a in arguments if a is not type(None))))
    if origin is tuple:
        return _sequence(tuple, _decoder(arguments[0]))
    if origin is list:
        return _sequence(list, _decoder(arguments[0]))
    if origin is dict:
        inner = _decoder(arguments[1])
        return lambda value: {key: inner(item) for key, item in value.items()}
    if dataclasses.is_dataclass(kind):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return lambda value: value


def _optional(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else inner(value)


def _sequence(make: Callable[[Any], Any], inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: make([inner(item) for item in value])


def _record(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    inner = {name: _decoder(hints[name]) for name in _names(kind)}

    def make(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError(f"a {kind.__name__} can't be made of {type(value).__name__}")
        return kind(**{name: inner[name](item) for name, item in value.items()})

    return make
