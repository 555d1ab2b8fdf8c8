"""The query for what a materialized view's stored rows lack and have too many, beside what its query gives.

Rows are told apart by what they are, not by what their types hold for equal: 1.0 and 1.00, or -0 and 0, are different
rows to whom reads them. So values of types whose equal values look different are compared as text.
"""

from __future__ import annotations

from planner.syntax.identifiers import quote_identifier
from planner.types import types as t
from storage.catalog.model import Column, Relation

_EXACT = frozenset({
    t.BOOL, t.INT2, t.INT4, t.INT8, t.OID, t.TEXT, t.VARCHAR, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.UUID,
    t.BYTEA,
})  # fmt: skip
"""Types whose values are equal only when they are the same."""


def _image(column: Column) -> str:
    name = f"c{column.attnum}"
    return name if column.type_oid in _EXACT else f"{name}::text"


def differences_text(view: Relation, schema: str) -> str:
    """SQL whose first column is the row id of a stored row that is too many, NULL for one that is missing, and whose
    others are the row's columns. The view is read with its row ids (`BindContext.numbered`)."""
    columns = view.live_columns()
    names = [f"c{column.attnum}" for column in columns]
    listed = ", ".join(names)
    aliases = f"({listed})" if names else ""
    keys = ", ".join(map(_image, columns)) or "true"
    stored = ", ".join(f"{quote_identifier(column.name)} AS c{column.attnum}" for column in columns)
    comma = ", " if names else ""
    name = f"{quote_identifier(schema)}.{quote_identifier(view.name)}"
    return (
        f"SELECT row_id{comma}{listed} FROM ("
        f"SELECT row_id{comma}{listed}, count(*) OVER (PARTITION BY {keys}{comma}place) AS pairs FROM ("
        f"SELECT row_id{comma}{listed}, row_number() OVER (PARTITION BY {keys} ORDER BY row_id) AS place "
        f"FROM (SELECT _row_id AS row_id{comma}{stored} FROM {name}) AS stored "
        f"UNION ALL SELECT NULL::bigint{comma}{listed}, row_number() OVER (PARTITION BY {keys}) "
        f"FROM ({view.definition}) AS given{aliases}) AS sides) AS counted WHERE pairs = 1"
    )
