"""Columns of composite types in files that were written when the types had other fields.

The engine casts a struct to one that has fields of the same names and others, which are NULL then, but not to one with
which it has no field in common: that is written out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.dialects.of_engine import dialect_of
from planner.ir.physical import element_type, listed
from planner.types.types import SqlType
from planner.types.user_types import attributes

if TYPE_CHECKING:
    from adapter.engines.local.database import Connection


def read_composite(connection: Connection, source: str, name: str, type_: SqlType) -> str:
    """SQL that reads the column `name` (quoted) of the files `source` as a composite `type_`, or one made of such."""
    found = connection.execute(f"SELECT {name} FROM {source} LIMIT 0").description
    assert found is not None
    return _read(name, found[0][1], type_)


def _read(sql: str, held: Any, type_: SqlType, depth: int = 0) -> str:
    local = dialect_of("local")
    plain = local.cast(sql, type_)
    if _is_castable(held, type_):
        return plain
    if type_.dimensioned:
        items = _read(f"{sql}.items", _child(held, "items"), listed(type_), depth)
        made = local.struct([("items", items), ("dims", f"{sql}.dims")])
        return f"CASE WHEN {sql} IS NOT NULL THEN {made} END"
    element = element_type(type_)
    if element is not None:
        item = f"e{depth}"
        return f"list_transform({sql}, lambda {item}: {_read(item, _child(held, 'child'), element, depth + 1)})"
    members = []
    for field in attributes(type_.oid) or ():
        inner = _child(held, field.physical)
        read = f"CAST(NULL AS {local.type_name(field.type)})"
        if inner is not None:
            read = _read(f"{sql}.{field.physical}", inner, field.type, depth)
        members.append((field.physical, read))
    return f"CASE WHEN {sql} IS NOT NULL THEN {local.struct(members)} END"


def _is_castable(held: Any, type_: SqlType) -> bool:
    """Whether every struct in values of the engine's type `held` has a field of the one that it is to be."""
    if type_.dimensioned:
        return _is_castable(_child(held, "items"), listed(type_))
    element = element_type(type_)
    if element is not None:
        return _is_castable(_child(held, "child"), element)
    fields = attributes(type_.oid)
    if fields is None:
        return True
    common = [(inner, field.type) for field in fields if (inner := _child(held, field.physical)) is not None]
    return bool(common) and all(_is_castable(inner, type) for inner, type in common)


def _child(held: Any, name: str) -> Any:
    """The type of a member of the engine's type `held`; None when it has none of this name."""
    return dict(held.children).get(name)
