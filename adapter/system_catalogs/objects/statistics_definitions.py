"""CREATE STATISTICS as text: pg_get_statisticsobjdef and its like."""

from __future__ import annotations

from adapter.system_catalogs.objects.definitions import bind_context, qualified_relation_name
from adapter.system_catalogs.objects.objects import CatalogObjects
from planner.definitions.expression_text import ObjectNames
from planner.definitions.index_expressions import key_texts
from planner.definitions.row_expressions import shown_expression
from planner.syntax.identifiers import quote_identifier
from storage.catalog.model import Relation
from storage.catalog.record import ExtendedStatistics

_KINDS = {"d": "ndistinct", "f": "dependencies", "m": "mcv"}


def statistics_definition(
    objects: CatalogObjects, oid: int, path: tuple[int, ...] | None, names: ObjectNames
) -> str | None:
    """pg_get_statisticsobjdef: the whole command; None when there is no such object. `names` is what regclass and the
    like show."""
    record = _statistics(objects, oid)
    if record is None:
        return None
    name = f"{quote_identifier(objects.defined_in(record.schema))}.{quote_identifier(record.name)}"
    kinds = "" if len(record.kinds) in (0, len(_KINDS)) else f" ({', '.join(_KINDS[each] for each in record.kinds)})"
    table = qualified_relation_name(objects, record.relation, path)
    return f"CREATE STATISTICS {name}{kinds} ON {statistics_columns(objects, oid, names)} FROM {table}"


def statistics_columns(objects: CatalogObjects, oid: int, names: ObjectNames) -> str | None:
    """pg_get_statisticsobjdef_columns: what stands behind ON."""
    record = _statistics(objects, oid)
    if record is None:
        return None
    relation, context = _relation(objects, record), bind_context(objects)
    places = (*record.columns, *(0 for _ in record.expressions))
    return ", ".join(key_texts(relation, places, record.expressions, context, pretty=True, objects=names))


def statistics_expressions(objects: CatalogObjects, oid: int, names: ObjectNames) -> list[str] | None:
    """pg_get_statisticsobjdef_expressions: the expressions; None when there are none."""
    record = _statistics(objects, oid)
    if record is None or not record.expressions:
        return None
    relation, context = _relation(objects, record), bind_context(objects)
    return [shown_expression(relation, text, context, pretty=False, objects=names) for text in record.expressions]


def _statistics(objects: CatalogObjects, oid: int) -> ExtendedStatistics | None:
    return next((record for record in objects.statistics if record.oid == oid), None)


def _relation(objects: CatalogObjects, record: ExtendedStatistics) -> Relation:
    relation = objects.snapshot.get(record.relation)
    assert isinstance(relation, Relation)
    return relation
