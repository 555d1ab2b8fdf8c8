"""What maintenance looks at a table's rows with: a superuser's eyes and settings under which values have one form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adapter.execution.statement import Running
from planner.syntax.identifiers import quote_identifier
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, CatalogSnapshot, Relation, Schema

_SETTINGS = {
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "row_security": "on",
    "tidegate.as_of": "",
}


@contextmanager
def looking_as_superuser(running: Running, engine: str | None = None) -> Iterator[None]:
    """Whoever may maintain a table need not be allowed to read it, and policies are not for it. `engine`: the one that
    reads, None for the one that the session says."""
    session = running.session
    values, brought, expanded = session.values, session.brought, session.expanded
    changed = values.within(BOOTSTRAP_SUPERUSER_OID)
    for name, value in {**_SETTINGS, **({} if engine is None else {"engine": engine})}.items():
        changed = changed.with_local(name, value)
    try:
        session.values, session.expanded = changed, frozenset()
        yield
    finally:
        session.values, session.brought, session.expanded = values, brought, expanded


def name_of(catalog: CatalogSnapshot, relation: Relation) -> str:
    """Its name in SQL, with that of its schema."""
    schema = catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    return f"{quote_identifier(schema.name)}.{quote_identifier(relation.name)}"
