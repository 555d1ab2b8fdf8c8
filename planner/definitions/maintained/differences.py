"""The query for what a materialized view's stored rows lack and have too many, beside what its query gives.

Rows are told apart by what they are, not by what their types hold for equal: 1.0 and 1.00, or -0 and 0, are different
rows to whom reads them. So values of types whose equal values look different are compared as text.
"""

from __future__ import annotations

from planner.definitions.maintained.increments import Change
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


def increment_text(view: Relation, schema: str, change: Change) -> str:
    """SQL for what `change` does to the stored rows, in the form of `differences_text` with one more column in front:
    whether the row is added. A row that is not and has no row id is missing among the stored ones: they are not what
    `change` began from."""
    columns = view.live_columns()
    names = [f"c{column.attnum}" for column in columns]
    listed = ", ".join(names)
    images = ", ".join(map(_image, columns))
    numbered = ", ".join(f"{_image(column)} AS i{number}" for number, column in enumerate(columns, 1))
    image_names = ", ".join(f"i{number}" for number, _ in enumerate(columns, 1))
    stored = ", ".join(f"{quote_identifier(column.name)} AS c{column.attnum}" for column in columns)
    name = f"{quote_identifier(schema)}.{quote_identifier(view.name)}"
    steps = [*((quote_identifier(step), text) for step, text in change.steps)]
    steps += [
        (f"delta ({listed}, weight)", change.text),
        ("ordered", f"SELECT {listed}, weight, row_number() OVER (PARTITION BY {images}, weight) AS place FROM delta"),
        ("paired", f"SELECT {listed}, weight, count(*) OVER (PARTITION BY {images}, place) AS pairs FROM ordered"),
        ("net", f"SELECT {listed}, weight, {numbered} FROM paired WHERE pairs = 1"),
        (
            "gone",
            f"SELECT {listed}, {image_names}, row_number() OVER (PARTITION BY {image_names}) AS place "
            "FROM net WHERE weight < 0",
        ),
        (
            "candidates",
            f"SELECT held.row_id, {', '.join(f'held.i{number}' for number, _ in enumerate(columns, 1))} "
            f"FROM (SELECT row_id, {numbered} FROM (SELECT _row_id AS row_id, {stored} FROM {name}) AS read) AS held "
            f"JOIN (SELECT DISTINCT {image_names} FROM gone) AS wanted ON {_alike('wanted', 'held', len(columns))}",
        ),
        (
            "stored",
            f"SELECT row_id, {image_names}, row_number() OVER (PARTITION BY {image_names} ORDER BY row_id) AS place "
            "FROM candidates",
        ),
    ]
    steps_text = ", ".join(f"{step} AS ({text})" for step, text in steps)
    gone = ", ".join(f"gone.{name}" for name in names)
    return (
        f"WITH {steps_text} SELECT true AS is_added, NULL::bigint AS row_id, {listed} FROM net WHERE weight > 0 "
        f"UNION ALL SELECT false, stored.row_id, {gone} FROM gone LEFT JOIN stored "
        f"ON {_alike('stored', 'gone', len(columns))} AND stored.place = gone.place"
    )


def change_text(change: Change) -> str:
    """SQL for the rows of `change`, each with its weight behind."""
    steps = ", ".join(f"{quote_identifier(step)} AS ({text})" for step, text in change.steps)
    return f"WITH {steps} {change.text}" if steps else change.text


def replacing_text(change: Change) -> str | None:
    """SQL for `Change.replacing`; the view is read with its row ids, as in `increment_text`."""
    if change.replacing is None:
        return None
    steps = ", ".join(f"{quote_identifier(step)} AS ({text})" for step, text in change.steps)
    return f"WITH {steps} {change.replacing}" if steps else change.replacing


def _alike(left: str, right: str, columns: int) -> str:
    """That two rows are the same."""
    return " AND ".join(f"{left}.i{n} IS NOT DISTINCT FROM {right}.i{n}" for n in range(1, columns + 1))
