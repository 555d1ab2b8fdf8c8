"""Which views are published, as Iceberg views, and as what.

A view says so itself by the option ``iceberg``, or its schema or database does. What it reads must be published too,
and nothing may stand between its rows and who reads them that other engines do not know: row-level security, and the
options security_barrier and security_invoker.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from adapter.publishing.published_tables import OPTION, is_published, published_by_default
from planner.definitions.exchanged.published import PublishedView, published_view
from planner.errors import FeatureNotSupported, SqlError
from planner.resolution.statement import BindContext
from planner.syntax.options import boolean_value
from planner.types.system_relations import BuiltinRelations
from planner.types.type_scope import TYPE_SCOPE, TypeScope
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogSnapshot, Relation, Schema
from storage.catalog.temporary import is_temporary
from storage.publishing.record import Publications, table_uuid
from storage.publishing.views import view_metadata
from storage.timestamps.csn import Csn, csn_ms

log = structlog.get_logger(__name__)

MAX_DATABASES = 16
"""Databases whose views are kept as they are published; each is translated anew when its catalog has changed."""

_KINDS = {"m": "materialized view", "f": "foreign table"}


def _flag(view: Relation, name: str) -> bool | None:
    given = dict(option.split("=", 1) for option in view.options)
    return None if name not in given else boolean_value(given[name]) is True


def says_view_published(view: Relation) -> bool | None:
    """What a view says itself of being published."""
    return _flag(view, OPTION)


def is_view_published(catalog: CatalogSnapshot, view: Relation) -> bool:
    """Whether a view is to be published: what it says, else its schema, else its database."""
    said = says_view_published(view)
    return published_by_default(catalog, view) if said is None else said


def views_to_publish(catalog: CatalogSnapshot) -> Iterator[Relation]:
    """The views of a database that are to be published, in the order of their oids."""
    found = [
        record
        for record in catalog.all()
        if isinstance(record, Relation) and record.kind == "v" and is_view_published(catalog, record)
    ]
    return iter(sorted(found, key=lambda view: view.oid))


def check_view_publishable(catalog: CatalogSnapshot, view: Relation) -> None:
    """0A000 for a view that says it is to be published and cannot be."""
    if says_view_published(view):
        view_as_published(catalog, view)


def view_as_published(catalog: CatalogSnapshot, view: Relation) -> PublishedView:
    """The view as others can read it. Raises 0A000."""

    def refused(detail: str) -> FeatureNotSupported:
        return FeatureNotSupported(f'view "{view.name}" cannot be published as an Iceberg view', detail=detail)

    if is_temporary(view.schema):
        raise refused("It is temporary.")
    for option in ("security_barrier", "security_invoker"):
        if _flag(view, option):
            raise refused(f"Other engines know no {option}.")
    for oid in view.depends_on:
        read = catalog.get(oid)
        if not isinstance(read, Relation):
            continue
        if catalog.policies.of(oid).enabled:
            raise refused(f'Table "{read.name}", which it reads, has row-level security.')
        if read.kind == "v" and is_view_published(catalog, read):
            try:
                view_as_published(catalog, read)
            except FeatureNotSupported as error:
                raise refused(f"{error.message[:1].upper()}{error.message[1:]}. {error.detail}") from error
        elif read.kind != "r" or not is_published(catalog, read):
            what = _KINDS.get(read.kind, "view" if read.kind == "v" else "table")
            raise refused(f'It reads {what} "{read.name}", which is not published.')
    token = TYPE_SCOPE.set(TypeScope(catalog=catalog))
    try:
        return published_view(view, _context(catalog))
    except FeatureNotSupported as error:
        raise refused(f"{error.message[:1].upper()}{error.message[1:]}.") from error
    finally:
        TYPE_SCOPE.reset(token)


def _context(catalog: CatalogSnapshot) -> BindContext:
    """What stored queries are bound in, which mean the same everywhere."""
    return BindContext(
        catalog=catalog, search_path=(), settings={}, user="", database="", system_relations=BuiltinRelations()
    )


class ViewForOthers(Struct, frozen=True, kw_only=True):
    """A published view: its record, what others read, and a number that changes with that."""

    view: Relation
    published: PublishedView
    version: int


class ServedView(Struct, frozen=True, kw_only=True):
    """A published view whose tables are there. `csn` is the newest of theirs."""

    published: ViewForOthers
    namespace: str
    csn: Csn


def served_views(
    catalog: CatalogSnapshot, views: Mapping[int, ViewForOthers], publications: Publications
) -> Iterator[ServedView]:
    """Those of the published `views` whose tables are published: what reads a table that is not there yet waits."""
    moments = {table.relation: table.csn for table in publications.tables}
    for made in views.values():
        schema = catalog.get(made.view.schema)
        reads = [oid for oid in made.view.depends_on if _is_table(catalog, oid)]
        if isinstance(schema, Schema) and moments.keys() >= set(reads):
            csn = max((moments[oid] for oid in reads), default=publications.csn)
            yield ServedView(published=made, namespace=schema.name, csn=csn)


def _is_table(catalog: CatalogSnapshot, oid: int) -> bool:
    record = catalog.get(oid)
    return isinstance(record, Relation) and record.kind == "r"


def metadata_of_view(environment: str, view: ServedView, location: str) -> dict[str, Any]:
    """The metadata of a view in the environment of that id, as JSON has it."""
    made = view.published
    return view_metadata(
        uuid=table_uuid(environment, made.view.oid),
        location=location,
        namespace=view.namespace,
        version=made.version,
        timestamp_ms=csn_ms(view.csn),
        columns=made.published.columns,
        texts=made.published.texts,
    )


class PublishedViews:
    """The published views of the databases of an environment. Thread-safe; blocks for some milliseconds a view."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: BoundedMap[int, tuple[CatalogSnapshot, Mapping[int, ViewForOthers]]] = BoundedMap(
            max_entries=MAX_DATABASES
        )
        self._refused: dict[int, str] = {}
        """By view: what the log has said of it last."""

    def of(self, catalog: CatalogSnapshot) -> Mapping[int, ViewForOthers]:
        """The views of a database that others can read, by their oids; those that are to be published and cannot be
        are named in the log."""
        with self._lock:
            known = self._known.get(catalog.database)
            if known is not None and known[0] is catalog:
                return known[1]
            found = {view.oid: made for view in views_to_publish(catalog) if (made := self._made(catalog, view))}
            self._known.put(catalog.database, (catalog, found))
            return found

    def _made(self, catalog: CatalogSnapshot, view: Relation) -> ViewForOthers | None:
        try:
            published = view_as_published(catalog, view)
        except SqlError as error:
            reason = f"{error.message}: {error.detail}"
            if self._refused.get(view.oid) != reason:
                self._refused[view.oid] = reason
                log.warning("a view cannot be published", view=view.name, error=reason)
            return None
        self._refused.pop(view.oid, None)
        version = zlib.crc32(msgspec.json.encode(published)) & 0x7FFF_FFFF
        return ViewForOthers(view=view, published=published, version=version)
