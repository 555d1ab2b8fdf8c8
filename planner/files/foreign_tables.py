"""Foreign tables in FROM: rows of files, which are looked up when the statement runs, as the columns were declared.

Files hold values of few types. What they have no counterpart for is read as text, and becomes a value of its type as it
would in a cast: so lengths, the rules of domains and the like hold for it too.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from planner.functions import registry
from planner.ir.file_rows import FILE_ROWS, ForeignRead
from planner.ir.nodes import Call, Case, ColumnRef, CteScan, Field, IsNull, Literal, Project, Rel, Scalar
from planner.ir.physical import ARRAY_ELEMENTS, ELEMENT_ARRAYS
from planner.resolution.casting import apply_type_modifier, explicit_cast, with_shape
from planner.resolution.statement import Statement
from planner.syntax.file_names import is_remote, says_types, table_format
from planner.syntax.options import boolean_value
from planner.types import types as t
from planner.types.types import SqlType, column_type, numeric_precision_scale, type_of_column
from storage.catalog.model import Relation

_HELD = frozenset(
    {t.BOOL, t.INT2, t.INT4, t.INT8, t.FLOAT4, t.FLOAT8, t.BYTEA, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.TEXT}
)
_WRITTEN = _HELD - {t.BYTEA, t.TIME}
"""Those that texts of CSV and JSON are read as."""

_ASKED = frozenset({t.BOOL, t.INT2, t.INT4, t.INT8, t.FLOAT4, t.FLOAT8, t.BYTEA, t.TEXT})
"""Those that Spark has from other databases as they are there."""

_ARRAYS = {ELEMENT_ARRAYS[oid] for oid in _HELD}
_JSON_ARRAYS = {ELEMENT_ARRAYS[oid] for oid in _HELD - {t.BYTEA}}
MAX_PRECISION = 38


def read_type(type: SqlType, *, written: bool, remote: bool = False, json: bool = False) -> SqlType:
    """As what values of `type` are read; `written`: from texts; `json`: from JSON; `remote`: from another database."""
    if json and type.oid in (t.JSON, t.JSONB):
        return SqlType(t.JSON)
    if type.oid in (_ASKED if remote else _WRITTEN if written else _HELD):
        return column_type(type.oid)
    if type.oid == t.NUMERIC and type.typmod >= 0 and type == column_type(t.NUMERIC, type.typmod):
        digits = numeric_precision_scale(type.typmod)
        if digits is not None and 0 <= digits[1] <= digits[0] <= MAX_PRECISION:
            return type
    if (
        type.oid in (_JSON_ARRAYS if json else _ARRAYS)
        and not type.dimensioned
        and (json or not written)
        and not remote
    ):
        return column_type(type.oid)
    if type.oid in ARRAY_ELEMENTS and not type.dimensioned and not written and not remote:
        return column_type(ELEMENT_ARRAYS[t.TEXT])
    return SqlType(t.TEXT)


def foreign_rows(statement: Statement, relation: Relation, fields: tuple[Field, ...]) -> Rel:
    """The rows of a foreign table, as `fields` of its live columns."""
    assert relation.foreign is not None
    written = not says_types(table_format(relation.foreign.options))
    remote = is_remote(relation.foreign.options)
    json = table_format(relation.foreign.options) == "json"
    names = file_names(relation)
    id = FILE_ROWS - len(statement.files) - len(statement.foreign)
    forced = [] if table_format(relation.foreign.options) != "csv" else _forced(relation)
    held = [
        SqlType(t.TEXT)
        if column.attnum in forced
        else read_type(type_of_column(column).without_domain(), written=written, remote=remote, json=json)
        for column in relation.live_columns()
    ]
    raw = tuple(statement.new_field(name, type) for name, type in zip(names, held, strict=True))
    statement.foreign[id] = ForeignRead(
        oid=relation.oid, role=statement.required.role, columns=tuple(zip(names, held, strict=True))
    )
    null = dict(relation.foreign.options).get("null", "")
    values = [
        _with_nulls(ColumnRef(id=field.id, type=field.type), relation.foreign.column_options(column.attnum), null)
        if column.attnum in forced
        else ColumnRef(id=field.id, type=field.type)
        for field, column in zip(raw, relation.live_columns(), strict=True)
    ]
    exprs = tuple(_declared(statement, value, place.type) for value, place in zip(values, fields, strict=True))
    return Project(input=CteScan(cte=id, fields=raw), exprs=exprs, fields=fields)


def file_names(relation: Relation) -> list[str]:
    """What the files call each live column: by the option column_name, or as the table does; by its place where the
    files have no names."""
    assert relation.foreign is not None
    headless = boolean_value(dict(relation.foreign.options).get("header", "on")) is False
    names = []
    for column in relation.live_columns():
        own = dict(relation.foreign.column_options(column.attnum)).get("column_name")
        names.append(own if own is not None else f"f{column.attnum - 1}" if headless else column.name)
    return names


def _forced(relation: Relation) -> list[int]:
    """The attnums of columns whose NULLs are not those that CSV has by itself."""
    assert relation.foreign is not None
    return [
        attnum
        for attnum, options in relation.foreign.columns
        if any(boolean_value(value) for name, value in options if name in ("force_null", "force_not_null"))
    ]


def _with_nulls(read: ColumnRef, options: Iterable[tuple[str, str]], null: str) -> Scalar:
    """A text of CSV, NULL where it is `null` without quotes, with the column's options: see COPY's FORCE_NULL (it is
    NULL in quotes too) and FORCE_NOT_NULL (it is not without)."""
    given = {name for name, value in options if boolean_value(value)}
    whens: list[tuple[Scalar, Scalar]] = []
    word, type = Literal(value=null, type=read.type), read.type
    if "force_not_null" in given:
        whens.append((IsNull(arg=read, negated=False, type=SqlType(t.BOOL)), word))
    if "force_null" in given:
        same = next(each for each in registry.operators("=") if tuple(each.args) == (t.TEXT, t.TEXT))
        equal = Call(signature=same, args=(read, word), type=SqlType(t.BOOL))
        whens.append((equal, Literal(value=None, type=type)))
    return Case(whens=tuple(whens), otherwise=read, type=type)


def _declared(statement: Statement, read: Scalar, type: SqlType) -> Scalar:
    """What is read as a value of the declared type."""
    if read.type == type:
        return read
    value = explicit_cast(statement, read, replace(type, typmod=-1), -1)
    return with_shape(statement, apply_type_modifier(statement, value, type, explicit=False), type)
