"""What the relation tidegate.view_lineage shows: the columns of tables that each column of a view comes from."""

from __future__ import annotations

from adapter.execution_context import Row
from planner.analyze import analyze
from planner.errors import SqlError
from planner.ir.bound import BoundQuery
from planner.ir.lineage import lineage
from planner.queries.relations import parse_view
from planner.resolution.statement import BindContext
from storage.catalog.model import CatalogSnapshot, Relation, Schema


def lineage_rows(catalog: CatalogSnapshot, context: BindContext) -> list[Row]:
    """A row for each pair of columns, of all views whose queries can be bound in `context`. Blocks for a millisecond or
    so for each view."""
    views = [record for record in catalog.all() if isinstance(record, Relation) and record.kind in ("v", "m")]
    return [row for view in sorted(views, key=lambda view: view.oid) for row in _of_view(catalog, context, view)]


def _of_view(catalog: CatalogSnapshot, context: BindContext, view: Relation) -> list[Row]:
    try:
        query = analyze(parse_view(view.definition or ""), context, ())
    except SqlError:
        return []  # It reads what cannot be looked at now: files that are gone, say.
    if not isinstance(query, BoundQuery):
        return []
    rows: list[Row] = []
    for column, sources in zip(view.live_columns(), lineage(query.rel), strict=True):
        for oid, attnum in sorted(sources):
            source = catalog.get(oid)
            if not isinstance(source, Relation):
                continue
            name = next((each.name for each in source.columns if each.attnum == attnum), None)
            if name is not None:
                rows.append(
                    {
                        "view": view.oid,
                        "schemaname": _schema(catalog, view),
                        "viewname": view.name,
                        "column_name": column.name,
                        "source": oid,
                        "source_schema": _schema(catalog, source),
                        "source_name": source.name,
                        "source_column": name,
                    }
                )
    return rows


def _schema(catalog: CatalogSnapshot, relation: Relation) -> str | None:
    schema = catalog.get(relation.schema)
    return schema.name if isinstance(schema, Schema) else None
