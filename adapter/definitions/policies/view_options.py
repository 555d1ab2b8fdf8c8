"""The options of views: security_barrier, security_invoker, and whether they are published (iceberg)."""

from __future__ import annotations

from collections.abc import Iterable

from planner.errors import InvalidParameterValue
from planner.syntax.options import boolean_value

_OPTIONS = ("security_barrier", "security_invoker", "iceberg")


def view_options(given: Iterable[tuple[str, str]], known: tuple[str, ...] = ()) -> tuple[str, ...]:
    """`known`, options as pg_class.reloptions has them, with those that are `given`. Raises 22023."""
    options = dict(option.split("=", 1) for option in known)
    for name, value in given:
        if name not in _OPTIONS:
            raise InvalidParameterValue(f'unrecognized parameter "{name}"')
        if boolean_value(value) is None:
            raise InvalidParameterValue(f'invalid value for boolean option "{name}": {value}')
        options.pop(name, None)
        options[name] = value
    return tuple(f"{name}={value}" for name, value in options.items())


def without_options(names: Iterable[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """`known` without the options of these names."""
    left = set(names)
    return tuple(option for option in known if option.split("=", 1)[0] not in left)
