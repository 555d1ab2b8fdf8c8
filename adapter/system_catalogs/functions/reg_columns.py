"""Columns of the oid aliases (regclass, regtype, ...) on their way to a client: oids with the names they stand for.

An engine gives such a column as int64. A client reads the name in text format and the number in binary format, so the
column becomes a struct of both, `REG_VALUE`; an array of an alias type becomes a list of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import pyarrow as pa

from adapter.execution_context import ExecutionContext
from adapter.system_catalogs.functions import reg_names
from adapter.system_catalogs.functions.contexts import Entered, entered_for
from adapter.system_catalogs.relations.contents import SystemCatalogs
from planner.ir.physical import ELEMENT_ARRAYS, element_type
from planner.types.types import REG_TYPES, SqlType

RecordBatch: TypeAlias = Any

REG_VALUE = pa.struct([pa.field("oid", pa.int64()), pa.field("name", pa.string())])

_OIDS = frozenset(oid for kind in REG_TYPES for oid in (kind, ELEMENT_ARRAYS.get(kind, kind)))


def _kind(type: SqlType) -> str | None:
    element = element_type(type)
    return REG_TYPES.get(type.oid if element is None else element.oid)


def has_reg_columns(columns: Sequence[SqlType]) -> bool:
    """Whether any column is of an alias type, or an array of one."""
    return not _OIDS.isdisjoint([type.oid for type in columns])


async def with_names(
    batches: AsyncIterator[RecordBatch],
    columns: Sequence[SqlType],
    context: ExecutionContext,
    catalogs: SystemCatalogs,
) -> AsyncIterator[RecordBatch]:
    """The batches with names beside the oids of alias types. Closing it closes `batches`."""
    known = entered_for(context, catalogs)
    kinds = [(position, kind) for position, kind in enumerate(map(_kind, columns)) if kind is not None]
    async with aclosing(batches) as source:  # type: ignore[type-var]
        async for batch in source:
            arrays = list(batch.columns)
            for position, kind in kinds:
                arrays[position] = _named(known, kind, arrays[position])
            yield pa.record_batch(arrays, names=batch.schema.names)


def _named(context: Entered, kind: str, column: Any) -> Any:
    if pa.types.is_struct(column.type):
        items, dims = column.flatten()
        named = _named(context, kind, items)
        return pa.StructArray.from_arrays([named, dims], names=["items", "dims"], mask=column.is_null())
    if pa.types.is_list(column.type):
        return pa.array(
            [None if row is None else [_value(context, kind, oid) for oid in row] for row in column.to_pylist()],
            pa.list_(REG_VALUE),
        )
    values: dict[int | None, dict[str, Any] | None] = {None: None}
    for oid in column.unique().to_pylist():
        values[oid] = _value(context, kind, oid)
    return pa.array([values[oid] for oid in column.to_pylist()], REG_VALUE)


def _value(context: Entered, kind: str, oid: int | None) -> dict[str, Any] | None:
    return None if oid is None else {"oid": oid, "name": reg_names.reg_output(context, kind, oid)}
