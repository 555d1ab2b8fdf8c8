"""What PostgreSQL compares of a value where that is not the value as an engine holds it.

A key is a template over the value, ``{0}``; templates are spelled as the local engine's functions in Python are called
there. `order_key` sorts as PostgreSQL sorts, `equality_key` only tells equal from different and may cost less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.dialects.dialect import Dialect
from planner.dialects.engine_name import EngineName
from planner.ir.physical import element_type, listed
from planner.types import types
from planner.types.base_types import CITEXT, HSTORE, kind_of
from planner.types.ranges import range_or_multirange
from planner.types.types import SqlType, is_wide
from planner.types.user_types import Attribute

AS_IT_IS = "{0}"
"""The key of a value that an engine compares as PostgreSQL does."""


LSN_KEY = "(lpad(split_part({0}, '/', 1), 8, '0') || lpad(split_part({0}, '/', 2), 8, '0'))"
"""What a pg_lsn is ordered by."""
TID_KEY = (
    "(lpad(substring(split_part({0}, ',', 1), 2), 10, '0') || lpad(replace(split_part({0}, ',', 2), ')', ''), 5, '0'))"
)
"""What a tid is ordered by."""
MONEY_KEY = "CAST(translate({0}, '$,.', '') AS BIGINT)"
"""What a money is ordered by: the hundredths."""
WIDE_EQUALITY = "CASE WHEN instr({0}, '.') > 0 THEN trim(TRAILING '.' FROM trim(TRAILING '0' FROM {0})) ELSE {0} END"
"""The text of a numeric without the zeros that it only shows."""


def _wide_order(text: str) -> str:
    digits = "trim(TRAILING '0' FROM replace(replace({0}, '-', ''), '.', ''))"
    whole = "CASE WHEN instr({0}, '.') > 0 THEN instr({0}, '.') - 1 ELSE length({0}) END"
    positive = f"'2' || lpad(CAST({whole} AS {text}), 6, '0') || {digits}"
    complement = f"translate({digits}, '0123456789', '9876543210')"
    negative = f"'1' || lpad(CAST(1000000 - ({whole}) AS {text}), 6, '0') || {complement} || '~'"
    return (
        "CASE left({0}, 1) WHEN 'N' THEN '4' WHEN 'I' THEN '3' "
        f"WHEN '-' THEN CASE WHEN {{0}} = '-Infinity' THEN '0' ELSE {negative} END ELSE {positive} END"
    )


WIDE_ORDER: Mapping[EngineName, str] = {"local": _wide_order("VARCHAR"), "spark": _wide_order("STRING")}
"""What orders the text of a numeric: the number of its whole digits, then its digits; of a negative one the complement.
It is the same for equal numbers."""


_OF_EXTENSIONS = {CITEXT: "lower({0})", HSTORE: "tg_hstore_key({0})"}


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
    if type.oid == types.TID:
        return TID_KEY
    if type.oid == types.MONEY:
        return MONEY_KEY
    if type.oid == types.TIMETZ:
        return "tg_timetz_key({0})"
    if type.oid == types.JSONB:
        return "tg_jsonb_key({0})"
    if is_wide(type):
        return WIDE_ORDER[dialect.name]
    made = kind_of(type.oid)
    if made is not None:
        return _OF_EXTENSIONS[made]
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


def row_order_key(fields: Sequence[Attribute], dialect: Dialect) -> str:
    """What rows with these fields are ordered by: field by field, where NULL is larger than anything else."""
    members = []
    for number, attribute in enumerate(fields):
        field = f"({{0}}).{attribute.physical}"
        members.append((f"n{number}", f"{field} IS NULL"))
        members.append((f"v{number}", order_key(attribute.type, dialect).replace("{0}", field)))
    return f"CASE WHEN {{0}} IS NOT NULL THEN {dialect.struct(members)} END"


def equality_key(type: SqlType, dialect: Dialect) -> str:
    """What tells values of `type` apart: values whose keys are the same are equal."""
    if type.oid == types.BPCHAR and type.typmod >= 0:
        # Padded to one length.
        return AS_IT_IS
    if type.oid == types.JSONB:
        return dialect.json_equality_key
    if type.oid in (types.PG_LSN, types.TID, types.MONEY, types.TIMETZ):
        return AS_IT_IS
    if is_wide(type):
        return WIDE_EQUALITY
    if kind_of(type.oid) == HSTORE:
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


def number_key(type: SqlType, dialect: Dialect, *, equality: bool) -> str:
    """What a numeric of any shape is compared by with one that is wide."""
    text = SqlType(types.NUMERIC, -1, types.WIDE)
    key = equality_key(text, dialect) if equality else order_key(text, dialect)
    return key if is_wide(type) else key.replace("{0}", dialect.shown("{0}", type))


_COMPLEMENT = str.maketrans("0123456789", "9876543210")
_SPECIAL = {"NaN": "4", "Infinity": "3", "-Infinity": "0"}


def numeric_key(text: str) -> str:
    """A text whose place among those of other numbers is that of the number; the same for 1.5 and 1.50.
    It is what `WIDE_ORDER` says to engines."""
    special = _SPECIAL.get(text)
    if special is not None:
        return special
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = (whole + fraction).rstrip("0")
    if text[0] != "-":
        return f"2{len(whole):06d}{digits}"
    return f"1{999999 - len(whole):06d}{digits.translate(_COMPLEMENT)}~"
