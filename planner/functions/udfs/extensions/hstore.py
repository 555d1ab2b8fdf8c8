"""hstore: what its operators and functions do with values as they are held (PostgreSQL 15, appendix F.18; hstore_op.c).

Arrays come as all their elements and, where they are no ordinary lists, their dimensions (`planner.ir.array_value`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from planner.errors import ArraySubscriptError, NullValueNotAllowed
from planner.functions.udfs.table import Udf
from planner.values.json.json_text import normalize_jsonb, quote_json
from planner.values.opaque.hstore_text import order_key, ordered, pairs_of, parse_hstore, show_hstore

_Texts = Sequence[str | None]
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_JSON_TRUTH = {"t": "true", "f": "false"}


def _no_null_key() -> NullValueNotAllowed:
    return NullValueNotAllowed("null value not allowed for hstore key")


def _dimensions(items: _Texts, dims: Sequence[int] | None) -> int:
    return dims[0] if dims else 1 if items else 0


def of_pair(key: str | None, value: str | None) -> str | None:
    """hstore(text, text)."""
    return None if key is None else show_hstore({key: value})


def of_list(items: _Texts | None, dims: Sequence[int] | None) -> str | None:
    """hstore(text[]): keys and values by turns, or in two columns."""
    if items is None:
        return None
    count = _dimensions(items, dims)
    if count > 2:
        raise ArraySubscriptError("wrong number of array subscripts")
    if count == 2 and dims is not None and dims[2] != 2:
        raise ArraySubscriptError("array must have two columns")
    if len(items) % 2:
        raise ArraySubscriptError("array must have even number of elements")
    return _of(items[::2], items[1::2])


def of_lists(
    keys: _Texts | None, key_dims: Sequence[int] | None, values: _Texts | None, dims: Sequence[int] | None
) -> str | None:
    """hstore(text[], text[]): without values, all are NULL."""
    if keys is None:
        return None
    if _dimensions(keys, key_dims) > 1 or (values is not None and _dimensions(values, dims) > 1):
        raise ArraySubscriptError("wrong number of array subscripts")
    if values is None:
        values = [None] * len(keys)
    elif len(keys) != len(values) or (keys and (key_dims or [1, 0, 1])[2] != (dims or [1, 0, 1])[2]):
        raise ArraySubscriptError("arrays must have same bounds")
    return _of(keys, values)


def _of(keys: _Texts, values: _Texts) -> str:
    pairs: list[tuple[str, str | None]] = []
    for key, value in zip(keys, values, strict=True):
        if key is None:
            raise _no_null_key()
        pairs.append((key, value))
    return show_hstore(ordered(pairs))


def value_of(text: str, key: str) -> str | None:
    """``->`` with a key."""
    return pairs_of(text).get(key)


def values_of(text: str, keys: _Texts) -> list[str | None]:
    """``->`` with several keys."""
    pairs = pairs_of(text)
    return [None if key is None else pairs.get(key) for key in keys]


def slice_of(text: str, keys: _Texts) -> str:
    """slice()."""
    wanted = set(keys)
    return show_hstore({key: value for key, value in pairs_of(text).items() if key in wanted})


def has(text: str, key: str) -> bool:
    """``?``."""
    return key in pairs_of(text)


def has_any(text: str, keys: _Texts) -> bool:
    """``?|``. A key that is NULL counts for nothing."""
    return not pairs_of(text).keys().isdisjoint(key for key in keys if key is not None)


def has_all(text: str, keys: _Texts) -> bool:
    """``?&``. A key that is NULL counts for nothing."""
    return pairs_of(text).keys() >= {key for key in keys if key is not None}


def is_defined(text: str, key: str) -> bool:
    """defined()."""
    return pairs_of(text).get(key) is not None


def without_key(text: str, key: str) -> str:
    """``-`` with a key."""
    return without_keys(text, [key])


def without_keys(text: str, keys: _Texts) -> str:
    """``-`` with several keys."""
    unwanted = set(keys)
    return show_hstore({key: value for key, value in pairs_of(text).items() if key not in unwanted})


def without_pairs(text: str, other: str) -> str:
    """``-`` with an hstore, whose pairs go: a key stays if its value is another."""
    unwanted = pairs_of(other).items()
    return show_hstore(dict(pair for pair in pairs_of(text).items() if pair not in unwanted))


def joined(text: str, other: str) -> str:
    """``||``: of the pairs of both those of the second where they have the same key."""
    if not other:
        return text
    return show_hstore(ordered({**pairs_of(text), **pairs_of(other)}.items()))


def assigned(text: str, key: str | None, value: str | None) -> str:
    """What SET of a subscript makes."""
    if key is None:
        raise NullValueNotAllowed("hstore subscript in assignment must not be null")
    return show_hstore(ordered({**pairs_of(text), key: value}.items()))


def contains(text: str, other: str) -> bool:
    """``@>``."""
    return pairs_of(text).items() >= pairs_of(other).items()


def keys(text: str) -> list[str]:
    """akeys()."""
    return list(pairs_of(text))


def values(text: str) -> list[str | None]:
    """avals()."""
    return list(pairs_of(text).values())


def flat(text: str) -> list[str | None]:
    """hstore_to_array(): keys and values by turns."""
    return [item for pair in pairs_of(text).items() for item in pair]


def matrix_dimensions(text: str) -> list[int] | None:
    """The dimensions of hstore_to_matrix()."""
    count = len(pairs_of(text))
    return [2, count, 2, 1, 1] if count else None


def as_json(text: str, loose: bool) -> str:
    """hstore_to_json(), and hstore_to_json_loose(), where what looks like a number or a boolean is one."""
    return "{" + ", ".join(f"{quote_json(key)}: {_json(value, loose)}" for key, value in pairs_of(text).items()) + "}"


def as_jsons(texts: _Texts) -> list[str | None]:
    """Each of a list as hstore_to_json() has it."""
    return [None if text is None else as_json(text, False) for text in texts]


def as_jsonb(text: str, loose: bool) -> str:
    """hstore_to_jsonb(), and hstore_to_jsonb_loose()."""
    return normalize_jsonb(as_json(text, loose))


def _json(value: str | None, loose: bool) -> str:
    if value is None:
        return "null"
    if loose:
        if value in _JSON_TRUTH:
            return _JSON_TRUTH[value]
        if _JSON_NUMBER.fullmatch(value):
            return value
    return quote_json(value)


def key_of(text: str) -> bytes:
    """What it is ordered by."""
    return order_key(pairs_of(text))


def all_in(texts: _Texts) -> list[str | None]:
    """Each of a list read as hstore_in does."""
    return [None if text is None else parse_hstore(text) for text in texts]


_T, _L, _D, _B = "VARCHAR", "VARCHAR[]", "INTEGER[]", "BOOLEAN"

UDFS: Mapping[str, Udf] = {
    "tg_hstore_in": Udf((_T,), _T, parse_hstore),
    "tg_hstore_all_in": Udf((_L,), _L, all_in),
    "tg_hstore_key": Udf((_T,), "BLOB", key_of),
    "tg_hstore_of_pair": Udf((_T, _T), _T, of_pair, nulls=True),
    "tg_hstore_of_list": Udf((_L, _D), _T, of_list, nulls=True),
    "tg_hstore_of_lists": Udf((_L, _D, _L, _D), _T, of_lists, nulls=True),
    "tg_hstore_value": Udf((_T, _T), _T, value_of),
    "tg_hstore_values_of": Udf((_T, _L), _L, values_of),
    "tg_hstore_slice": Udf((_T, _L), _T, slice_of),
    "tg_hstore_has": Udf((_T, _T), _B, has),
    "tg_hstore_has_any": Udf((_T, _L), _B, has_any),
    "tg_hstore_has_all": Udf((_T, _L), _B, has_all),
    "tg_hstore_is_defined": Udf((_T, _T), _B, is_defined),
    "tg_hstore_without_key": Udf((_T, _T), _T, without_key),
    "tg_hstore_without_keys": Udf((_T, _L), _T, without_keys),
    "tg_hstore_without_pairs": Udf((_T, _T), _T, without_pairs),
    "tg_hstore_joined": Udf((_T, _T), _T, joined),
    "tg_hstore_assigned": Udf((_T, _T, _T), _T, assigned, nulls=True),
    "tg_hstore_contains": Udf((_T, _T), _B, contains),
    "tg_hstore_keys": Udf((_T,), _L, keys),
    "tg_hstore_values": Udf((_T,), _L, values),
    "tg_hstore_flat": Udf((_T,), _L, flat),
    "tg_hstore_matrix_dimensions": Udf((_T,), _D, matrix_dimensions),
    "tg_hstore_json": Udf((_T, _B), _T, as_json),
    "tg_hstore_jsons": Udf((_L,), _L, as_jsons),
    "tg_hstore_jsonb": Udf((_T, _B), _T, as_jsonb),
}
