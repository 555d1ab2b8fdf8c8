"""Rows as hstores, and hstores put into rows (hstore_from_record and hstore_populate_record in hstore_io.c).

Both are expressions over the fields of a row, which have to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from planner.errors import DatatypeMismatch, FeatureNotSupported
from planner.functions import of_extensions
from planner.ir.nodes import (
    ArrayConstructor,
    Call,
    Case,
    Cast,
    FieldSelect,
    IsNull,
    Let,
    LetValue,
    Literal,
    RowConstructor,
    Scalar,
)
from planner.ir.rewrite import is_volatile
from planner.resolution.casting import explicit_cast, finish_row
from planner.resolution.operators import BOOLEAN
from planner.resolution.records import record_fields
from planner.resolution.statement import Level
from planner.types.base_types import base_type
from planner.types.type_names import array_of
from planner.types.types import RECORD, TEXT, SqlType
from planner.types.user_types import attributes

_TEXT = SqlType(TEXT)


def _routine(type: SqlType, name: str, args: Sequence[Scalar], result: SqlType) -> Call:
    made = base_type(type.oid)
    assert made is not None
    (signature,) = of_extensions.functions(made, name)
    return Call(signature=signature, args=tuple(args), type=result)


def _fields(level: Level, row: Scalar) -> Sequence[tuple[str, SqlType]]:
    """The names and types of the row's fields. Raises 42804 for what is no row, 0A000 where they are not known."""
    if row.type.oid != RECORD and attributes(row.type.oid) is None:
        raise DatatypeMismatch("first argument must be a rowtype")
    known = record_fields(level, row)
    if known is None:
        raise FeatureNotSupported("hstores of records whose fields are not known are not supported")
    return known


def _once(level: Level, value: Scalar, body: Callable[[Scalar], Scalar]) -> Scalar:
    """`body` of a value that it has several times."""
    if not is_volatile(value):
        return body(value)
    statement = level.statement
    id, statement.next_id = statement.next_id, statement.next_id + 1
    result = body(LetValue(id=id, type=value.type))
    return Let(id=id, value=value, body=result, type=result.type)


def _items(row: Scalar, fields: Sequence[tuple[str, SqlType]]) -> Sequence[Scalar]:
    if isinstance(row, RowConstructor):
        return row.items
    if isinstance(row, Literal) and row.value is None:
        return [Literal(value=None, type=type) for _, type in fields]
    return [FieldSelect(arg=row, name=name, type=type, index=index) for index, (name, type) in enumerate(fields)]


def hstore_of_row(level: Level, row: Scalar, type: SqlType) -> Scalar:
    """hstore(record), a value of `type`: the texts of the fields by their names."""
    row = finish_row(level.statement, row)
    fields = _fields(level, row)
    null = Literal(value=None, type=type)

    def made(known: Scalar) -> Scalar:
        names = [Literal(value=name, type=_TEXT) for name, _ in fields]
        texts = [_routine(type, "hstore_output", (null, item), _TEXT) for item in _items(known, fields)]
        keys, values = (ArrayConstructor(items=tuple(items), type=SqlType(array_of(TEXT))) for items in (names, texts))
        return _routine(type, "hstore_of_lists", (null, keys, values), type)

    return made(row) if isinstance(row, RowConstructor) else _once(level, row, made)


def populated(level: Level, row: Scalar, pairs: Scalar, location: int) -> Scalar:
    """populate_record(row, pairs): the row with the values of the keys that are called as its fields are."""
    row = finish_row(level.statement, row)
    fields = _fields(level, row)

    def field(given: Scalar, name: str, type: SqlType, item: Scalar) -> Scalar:
        key = Literal(value=name, type=_TEXT)
        text = _routine(pairs.type, "hstore_value", (given, key), _TEXT)
        # As its input function reads it: what is too long is refused.
        value: Scalar = Cast(arg=text, type=type, explicit=False)
        if type.domain:
            value = explicit_cast(level.statement, text, type, location)
        is_there = _routine(pairs.type, "hstore_has", (given, key), BOOLEAN)
        return Case(whens=((is_there, value),), otherwise=item, type=type)

    def made(known: Scalar, given: Scalar) -> Scalar:
        items = [
            field(given, name, type, item) for (name, type), item in zip(fields, _items(known, fields), strict=True)
        ]
        names = tuple(name for name, _ in fields)
        result = RowConstructor(items=tuple(items), names=names, type=known.type)
        if isinstance(given, Literal) and given.value is not None:
            return result
        missing = IsNull(arg=given, negated=False, type=BOOLEAN)
        return Case(whens=((missing, known),), otherwise=result, type=known.type)

    result = _once(level, row, lambda known: _once(level, pairs, lambda given: made(known, given)))
    if result.type.oid == RECORD:
        level.statement.records[id(result)] = (result, tuple(fields))
    return result


def _of_row(level: Level, given: Sequence[Scalar], args: Sequence[Scalar], type: SqlType) -> Scalar:
    return hstore_of_row(level, given[0], type)


def _populated(level: Level, given: Sequence[Scalar], args: Sequence[Scalar], type: SqlType) -> Scalar:
    return populated(level, given[0], args[1], level.statement.location(given[0]))


EXPRESSIONS: Mapping[str, Callable[[Level, Sequence[Scalar], Sequence[Scalar], SqlType], Scalar]] = {
    "hstore_from_record": _of_row,
    "hstore_populate_record": _populated,
}
"""By their names in the catalog (`planner.extensions.natives`): what a call is, of the arguments as they are written
and as the function takes them, and the type of its result."""

POPULATE = "#="


def over_rows(level: Level, call: Call, row: Scalar, location: int) -> Scalar:
    """What an operator of an extension over a row, as it is written, is; all other calls are themselves."""
    if call.signature.name != POPULATE or of_extensions.type_of(call.signature) is None:
        return call
    return populated(level, row, call.args[1], location)
