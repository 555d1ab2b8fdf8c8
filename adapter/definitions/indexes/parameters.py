"""What indexes and their operator classes are told: WITH (...), and the options of a class behind a key.

They are checked, kept and shown; nothing is done with them. The bounds and the messages are PostgreSQL's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from adapter.definitions.common.storage_parameters import Bounds, checked_parameters
from planner.errors import InvalidParameterValue
from planner.types.operator_classes import Option, options_of


def _buffering(value: str) -> str:
    if value.lower() not in ("on", "off", "auto"):
        raise InvalidParameterValue(
            f'invalid value for enum option "buffering": {value}', detail='Valid values are "on", "off", and "auto".'
        )
    return value


class _Known(Struct, frozen=True, kw_only=True):
    """The parameters of an access method, as `checked_parameters` takes them."""

    numbers: Mapping[str, Bounds] = {}
    flags: Collection[str] = ()
    others: Mapping[str, Callable[[str], str]] = {}


_FILLFACTOR: Mapping[str, Bounds] = {"fillfactor": (10, 100)}
_OF_METHODS: Mapping[str, _Known] = {
    "btree": _Known(numbers=_FILLFACTOR, flags=("deduplicate_items",)),
    "hash": _Known(numbers=_FILLFACTOR),
    "gist": _Known(numbers=_FILLFACTOR, others={"buffering": _buffering}),
    "spgist": _Known(numbers=_FILLFACTOR),
    "gin": _Known(numbers={"gin_pending_list_limit": (64, 2_147_483_647)}, flags=("fastupdate",)),
    "brin": _Known(numbers={"pages_per_range": (1, 131_072)}, flags=("autosummarize",)),
}

_OF_CLASSES: Mapping[Option, Mapping[str, Bounds]] = {
    Option.BLOOM: {
        "n_distinct_per_range": (-1.0, 2_147_483_647.0),
        "false_positive_rate": (0.0001, 0.25),
    },
    Option.MINMAX_MULTI: {"values_per_range": (8, 256)},
    Option.SIGNATURES: {"siglen": (1, 2024)},
}


def storage_parameters(options: Sequence[tuple[str, str]], method: str) -> tuple[str, ...]:
    """WITH (...) of an index as pg_class.reloptions has it. Raises 22023."""
    known = _OF_METHODS[method]
    found = checked_parameters(options, known.numbers, known.flags, known.others)
    return tuple(f"{name}={value}" for name, value in found.items())


def class_options(classes: Sequence[int], given: Sequence[Sequence[tuple[str, str]]]) -> tuple[tuple[str, ...], ...]:
    """What the operator classes of the keys are told, as `Index.class_options` has it. Raises 22023."""
    if not any(given):
        return ()
    checked = []
    for oid, options in zip(classes, given, strict=True):
        option = options_of(oid)
        found = checked_parameters(options, {} if option is None else _OF_CLASSES[option], ())
        checked.append(tuple(f"{name}={value}" for name, value in found.items()))
    return tuple(checked)
