"""What PostgreSQL compares of a value where that is not the value as an engine holds it.

A key is a template over the value, ``{0}``; templates are spelled as the local engine's functions in Python are called
there. `order_key` sorts as PostgreSQL sorts, `equality_key` only tells equal from different and may cost less.
"""

from __future__ import annotations

from planner.dialects.engine_name import EngineName
from planner.ir.physical import element_type
from planner.types import types
from planner.types.types import SqlType

OPERATORS = ("=", "<>", "<", ">", "<=", ">=")

AS_IT_IS = "{0}"
"""The key of a value that an engine compares as PostgreSQL does."""

_INTERVAL = "(CAST({0}.months AS {w}) * 2592000000000 + CAST({0}.days AS {w}) * 86400000000 + CAST({0}.micros AS {w}))"
"""An interval is as long as its parts together: a month is 30 days, a day 24 hours."""

_FRACTIONS = r'("(?:[^"\\]|\\.)*")|(\.[0-9]*[1-9])0*|\.0+'
"""The strings of a JSON text, kept by group 1, and the fractions of its numbers, of which group 2 keeps what counts."""


def interval_key(place: str, engine: EngineName) -> str:
    """The duration by which PostgreSQL compares the interval at `place` (``{0}``)."""
    return _INTERVAL.replace("{0}", place).replace("{w}", "HUGEINT" if engine == "local" else "DECIMAL(19,0)")


def order_key(type: SqlType, engine: EngineName) -> str:
    """What values of `type` are ordered and compared by."""
    if type.oid == types.BPCHAR:
        return "rtrim({0}, ' ')" if engine == "local" else "rtrim({0})"
    if type.oid == types.INTERVAL:
        return interval_key("{0}", engine)
    if type.oid in (types.INET, types.CIDR):
        return "tg_inet_key({0})"
    if type.oid == types.JSONB:
        return "tg_jsonb_key({0})"
    element = element_type(type)
    if element is None:
        return AS_IT_IS
    value = _in_a_lambda(order_key(element, engine))
    if engine == "spark":
        # PostgreSQL orders NULL elements last, Spark first.
        value = f"named_struct('n', e IS NULL, 'v', {value})"
    return AS_IT_IS if value == "e" else _each(value, engine)


def equality_key(type: SqlType, engine: EngineName) -> str:
    """What tells values of `type` apart: values whose keys are the same are equal."""
    if type.oid == types.BPCHAR and type.typmod >= 0:
        # Padded to one length.
        return AS_IT_IS
    if type.oid == types.JSONB:
        # Members are in order and spaces in place already, but 1.50 is 1.5.
        if engine == "local":
            return f"regexp_replace({{0}}, '{_FRACTIONS}', '\\1\\2', 'g')"
        return f"regexp_replace({{0}}, r'{_FRACTIONS}', '$1$2')"
    element = element_type(type)
    if element is None:
        return order_key(type, engine)
    value = _in_a_lambda(equality_key(element, engine))
    return AS_IT_IS if value == "e" else _each(value, engine)


def _in_a_lambda(element: str) -> str:
    """The key of the element ``e`` of an array. Functions in Python are called in no lambda: what needs one is compared
    as it is."""
    return "e" if "tg_" in element else element.replace("{0}", "e")


def _each(value: str, engine: EngineName) -> str:
    return f"list_transform({{0}}, lambda e: {value})" if engine == "local" else f"transform({{0}}, e -> {value})"
