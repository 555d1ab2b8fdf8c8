"""What PostgreSQL compares of a value where that is not the value as an engine holds it.

A key is a template over the value, ``{0}``; templates are spelled as the local engine's functions in Python are called
there. `order_key` sorts as PostgreSQL sorts, `equality_key` only tells equal from different and may cost less.
"""

from __future__ import annotations

from planner.dialects.dialect import Dialect
from planner.ir.physical import element_type, listed
from planner.types import types
from planner.types.ranges import range_or_multirange
from planner.types.types import SqlType

AS_IT_IS = "{0}"
"""The key of a value that an engine compares as PostgreSQL does."""


LSN_KEY = "(lpad(split_part({0}, '/', 1), 8, '0') || lpad(split_part({0}, '/', 2), 8, '0'))"
"""What a pg_lsn is ordered by."""


def order_key(type: SqlType, dialect: Dialect) -> str:
    """What values of `type` are ordered and compared by."""
    if type.oid == types.BPCHAR:
        return dialect.without_trailing_blanks("{0}")
    if type.oid == types.INTERVAL:
        return dialect.interval_key("{0}")
    if type.oid in (types.INET, types.CIDR):
        return "tg_inet_key({0})"
    if type.oid == types.PG_LSN:
        return LSN_KEY
    if type.oid == types.JSONB:
        return "tg_jsonb_key({0})"
    ranges = range_or_multirange(type.oid)
    if ranges is not None and ranges.subtype == types.NUMERIC:
        return "tg_range_key({0})"
    element = element_type(type)
    if element is None:
        return AS_IT_IS
    if type.dimensioned:
        return _with_dimensions(order_key(listed(type), dialect), dialect)
    key = dialect.element_key("e", _in_a_lambda(order_key(element, dialect)))
    return AS_IT_IS if key == "e" else dialect.transform("{0}", "e", key)


def equality_key(type: SqlType, dialect: Dialect) -> str:
    """What tells values of `type` apart: values whose keys are the same are equal."""
    if type.oid == types.BPCHAR and type.typmod >= 0:
        # Padded to one length.
        return AS_IT_IS
    if type.oid == types.JSONB:
        return dialect.json_equality_key
    if type.oid == types.PG_LSN:
        return AS_IT_IS
    element = element_type(type)
    if element is None:
        return order_key(type, dialect)
    if type.dimensioned:
        return _with_dimensions(equality_key(listed(type), dialect), dialect)
    key = _in_a_lambda(equality_key(element, dialect))
    return AS_IT_IS if key == "e" else dialect.transform("{0}", "e", key)


def _with_dimensions(items: str, dialect: Dialect) -> str:
    """The key of an array: of its elements, then how many dimensions there are, their lengths and lower bounds. An
    ordinary list has its own written out."""
    integer = dialect.scalar_types[types.INT4]
    own = dialect.array(["1", f"CAST({dialect.length('({0}).items')} AS {integer})", "1"])
    members = [("i", items.replace("{0}", "({0}).items")), ("d", f"coalesce(({{0}}).dims, {own})")]
    return f"CASE WHEN {{0}} IS NOT NULL THEN {dialect.struct(members)} END"


def _in_a_lambda(element: str) -> str:
    """The key of the element ``e`` of an array. Functions in Python are called in no lambda: what needs one is compared
    as it is."""
    return "e" if element.startswith("tg_") else element.replace("{0}", "e")
