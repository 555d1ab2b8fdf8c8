"""Which relations, and which columns of them, the definitions of views, functions and policies name."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from adapter.system_catalogs.objects.definitions import bind_context
from adapter.system_catalogs.objects.objects import CatalogObjects
from planner.calls.user_functions import statements_of
from planner.definitions.columns.noted import ColumnUse, Noted, condition_query
from planner.definitions.routines import with_arguments
from planner.errors import SqlError
from planner.syntax.parse import split_and_parse
from planner.types.type_scope import types_of
from storage.catalog.access import Policy
from storage.catalog.model import Relation
from storage.catalog.record import Record
from storage.catalog.routines import Function


class Named(Struct, frozen=True):
    """The relations that a definition names itself, and the columns."""

    relations: frozenset[int]
    columns: frozenset[ColumnUse]

    def parts(self, relation: int) -> list[int]:
        """The columns of the relation that it names, or 0 for the relation where it names none."""
        return sorted(attnum for oid, attnum in self.columns if oid == relation) or [0]


_known: dict[int, tuple[Record, tuple[Record | None, ...], Named]] = {}
"""By oid: the very records that it was worked out from, that of the definition and those of what it depends on. Records
are immutable, so an entry never lies."""

_MAX_KNOWN = 10_000


def named_by(objects: CatalogObjects, record: Relation | Function | Policy) -> Named:
    """What the definition of a view, a function with a standard body or a policy names."""
    used = tuple(objects.snapshot.get(oid) for oid in record.depends_on)
    known = _known.get(record.oid)
    if known is not None and known[0] is record and all(a is b for a, b in zip(known[1], used, strict=True)):
        return known[2]
    try:
        with types_of(objects.snapshot, ()):
            found = list(_noted(objects, record))
        named = Named(
            frozenset(oid for each in found for oid in each.relations()),
            frozenset(column for each in found for column in each.columns()),
        )
    except SqlError:
        # One that cannot be bound any more.
        named = Named(frozenset(record.depends_on), frozenset())
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    _known[record.oid] = (record, used, named)
    return named


def _noted(objects: CatalogObjects, record: Relation | Function | Policy) -> Iterator[Noted]:
    context = bind_context(objects)
    if isinstance(record, Relation):
        if record.definition is not None:
            yield Noted(split_and_parse(record.definition)[0], context)
    elif isinstance(record, Function):
        for statement in statements_of("", record.sql_body) if record.sql_body is not None else ():
            yield Noted(statement, with_arguments(record, context))
    else:
        for text in (record.using, record.check):
            if text is not None:
                yield Noted(condition_query(objects.snapshot, record.relation, text), context)
