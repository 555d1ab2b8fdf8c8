"""The rows of pg_catalog that are the same in every database: PostgreSQL's (`planner.catalog_data`), and those of the
schema `tidegate`, which belongs to the server and is stored in no catalog.

What is in that schema belongs to the extension plpgsql, the one that every database has: so dumps, which are to be
restored elsewhere, leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from adapter.execution_context import Row
from adapter.system_catalogs.objects.attribute_rows import attribute_row
from adapter.system_catalogs.objects.function_rows import user_row
from planner.catalog_data import content as catalog_data
from planner.catalog_data.content import RelationColumn, RelationRow
from planner.functions.own_routines import is_query, own_routines, routine_comment
from planner.types.own_relations import OWN_RELATIONS, OwnRelation
from storage.catalog.model import OWN_SCHEMA, OWN_SCHEMA_OID

_PG_CLASS, _PG_PROC, _PG_NAMESPACE = 1259, 1255, 2615
_INTERNAL_LANGUAGE = 12
_SCHEMA_COMMENT = "what PostgreSQL has no place for: the server seen from inside, and its own functions"
_SCHEMA_PRIVILEGES = ["postgres=UC/postgres", "=U/postgres"]


@cache
def builtin_columns(name: str) -> Mapping[str, Sequence[Any]]:
    """The rows of a relation of pg_catalog that are in every database, column by column."""
    data = catalog_data.columns(name)
    if name not in _OWN_ROWS:
        return data
    rows = list(_OWN_ROWS[name]())
    return {column: [*values, *(row.get(column) for row in rows)] for column, values in data.items()}


@cache
def builtin_relations() -> tuple[RelationRow, ...]:
    """The tables and views that are in every database."""
    own = (
        RelationRow(
            oid=relation.oid,
            schema=OWN_SCHEMA.name,
            name=name,
            kind="v",
            row_type_oid=0,
            columns=tuple(
                RelationColumn(column, of.type_oid, -1, of.type_oid, -1, False)
                for column, of in relation.columns.items()
            ),
        )
        for name, relation in OWN_RELATIONS.items()
    )
    return (*catalog_data.relations().values(), *own)


def own_members() -> Iterator[tuple[int, int]]:
    """The catalog and the oid of the schema `tidegate` and of all that is in it."""
    yield _PG_NAMESPACE, OWN_SCHEMA_OID
    yield from ((_PG_CLASS, relation.oid) for relation in OWN_RELATIONS.values())
    yield from ((_PG_PROC, oid) for oid in own_routines())


def _view_privileges(relation: OwnRelation) -> list[str]:
    reader = "pg_read_all_stats" if relation.monitors else ""
    return ["postgres=arwdDxt/postgres", f"{reader}=r/postgres"]


def _classes() -> Iterator[Row]:
    data = catalog_data.columns("pg_class")
    place = data["relname"].index("pg_user")
    like = {name: values[place] for name, values in data.items()}
    for name, relation in OWN_RELATIONS.items():
        yield {
            **like,
            "oid": relation.oid,
            "relname": name,
            "relnamespace": OWN_SCHEMA_OID,
            "reltype": 0,
            "relnatts": len(relation.columns),
            # No query is behind them.
            "relhasrules": False,
            "relacl": _view_privileges(relation),
        }


def _attributes() -> Iterator[Row]:
    for relation in OWN_RELATIONS.values():
        for number, (name, column) in enumerate(relation.columns.items(), 1):
            yield attribute_row(relation.oid, number, name, column.type_oid)


def _namespaces() -> Iterator[Row]:
    yield {"oid": OWN_SCHEMA_OID, "nspname": OWN_SCHEMA.name, "nspowner": OWN_SCHEMA.owner,
           "nspacl": _SCHEMA_PRIVILEGES}  # fmt: skip


def _functions() -> Iterator[Row]:
    for record in own_routines().values():
        row = user_row(record)
        yield row if is_query(record.oid) else {**row, "prolang": _INTERNAL_LANGUAGE}


def _descriptions() -> Iterator[Row]:
    def row(class_oid: int, oid: int, number: int, text: str) -> Row:
        return {"objoid": oid, "classoid": class_oid, "objsubid": number, "description": text}

    yield row(_PG_NAMESPACE, OWN_SCHEMA_OID, 0, _SCHEMA_COMMENT)
    for relation in OWN_RELATIONS.values():
        yield row(_PG_CLASS, relation.oid, 0, relation.comment)
        for number, column in enumerate(relation.columns.values(), 1):
            yield row(_PG_CLASS, relation.oid, number, column.comment)
    for oid in own_routines():
        yield row(_PG_PROC, oid, 0, routine_comment(oid))


def _first_privileges() -> Iterator[Row]:
    """By these pg_dump knows what was granted since."""

    def row(class_oid: int, oid: int, privileges: Sequence[str]) -> Row:
        return {"objoid": oid, "classoid": class_oid, "objsubid": 0, "privtype": "e", "initprivs": privileges}

    yield row(_PG_NAMESPACE, OWN_SCHEMA_OID, _SCHEMA_PRIVILEGES)
    yield from (row(_PG_CLASS, each.oid, _view_privileges(each)) for each in OWN_RELATIONS.values())


_OWN_ROWS: Mapping[str, Callable[[], Iterator[Row]]] = {
    "pg_attribute": _attributes,
    "pg_class": _classes,
    "pg_description": _descriptions,
    "pg_init_privs": _first_privileges,
    "pg_namespace": _namespaces,
    "pg_proc": _functions,
}
