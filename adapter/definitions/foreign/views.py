"""IMPORT FOREIGN SCHEMA: views here for the views of a namespace of an Iceberg catalog.

A view is made of the text of its query in one of the dialects that we know, translated; what it reads has to be
imported from the same server, and what has no certain translation makes no view. So that one view does not stop the
others it is left out with a WARNING that says why; one that LIMIT TO names is an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.lake.foreign_files import Below
from adapter.results import Notice
from adapter.store_errors import sql_error
from planner.definitions.exchanged.imported import is_postgres, query_of, query_with, reason, translations
from planner.definitions.exchanged.references import named_relations, only_like
from planner.errors import FeatureNotSupported, SqlError
from planner.files.arrow_types import sql_type
from planner.files.read_calls import shown_type
from planner.statements import foreign as ft
from planner.statements import records as st
from planner.syntax.dialects.reading import Reading
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree, split_and_parse, subtrees
from planner.syntax.qualified_names import QualifiedName
from planner.types.types import SqlType
from storage.catalog.model import Relation, Schema
from storage.catalog.outside import ForeignServer
from storage.lake.places import located
from storage.lake.snapshots.catalogs import view_metadata
from storage.lake.snapshots.views import CatalogView, catalog_view
from storage.lake.troubles import FileTrouble

CreateView: TypeAlias = Callable[[Running, st.CreateView], Awaitable[None]]

_OF_ONE_VIEW = frozenset({"malformed", "unsupported", "missing"})
"""Troubles with the metadata of a view that say nothing of others."""

_ONE_OF_A_KIND = frozenset({"snapshot_id", "as_of"})


class ViewImport:
    """The views of one statement. `names` are those of the namespace that it asks for; `create` is CREATE VIEW."""

    def __init__(
        self,
        running: Running,
        statement: ft.ImportForeignSchema,
        server: ForeignServer,
        below: Below,
        names: Sequence[str],
        create: CreateView,
    ) -> None:
        assert below.catalog is not None
        self._running = running
        self._statement = statement
        self._server = server
        self._below = below
        self._catalog = below.catalog
        self._names = names
        self._create = create
        self._catalogs = {each.strip().lower() for each in (below.catalog.name or "").split(",")} - {""}
        """What the texts of views may call this catalog."""
        self._done: dict[str, SqlError | None] = {}
        """By view, None once it is there, or why it is not."""

    async def run(self) -> None:
        """Make the views, each after those that it reads. Raises 0A000 for one that LIMIT TO names and cannot be made,
        08001 and 42501 for a catalog that does not answer, and what CREATE VIEW raises of its name."""
        for name in self._names:
            await self._make(name)
        for name, error in self._done.items():
            if error is None:
                continue
            message = f'view "{self._statement.remote}.{name}" cannot be imported'
            if self._statement.tables is not None and not self._statement.but:
                raise FeatureNotSupported(message, detail=reason(error), hint=error.hint)
            self._running.session.notice(
                Notice(severity="WARNING", sqlstate="0A000", message=message, detail=reason(error), hint=error.hint)
            )

    async def _make(self, name: str) -> None:
        if name in self._done:
            return
        self._done[name] = FeatureNotSupported("it reads itself")  # For those that it reads.
        try:
            view = await self._loaded(name)
            columns = [(column, shown_type(sql_type(type, column))) for column, type in view.columns]
            query = await self._translated(view, columns)
        except SqlError as error:
            self._done[name] = error
            return
        await self._create(
            self._running,
            st.CreateView(
                name=QualifiedName(name=name, schema=self._statement.schema),
                query=split_and_parse(query)[0],
                column_names=tuple(column for column, _ in columns),
            ),
        )
        self._done[name] = None

    async def _loaded(self, name: str) -> CatalogView:
        def content(location: str) -> bytes:
            return self._below.files.places.content(located(location))

        def load() -> CatalogView | FileTrouble:
            try:
                found = view_metadata(self._catalog, self._statement.remote, name, content)
                return catalog_view(found, name)
            except FileTrouble as trouble:
                return trouble

        found = await self._running.services.file_threads.run(load)
        if isinstance(found, CatalogView):
            return found
        if found.kind in _OF_ONE_VIEW:
            raise sql_error(found) from found
        raise found  # Of the catalog, and of no view.

    async def _translated(self, view: CatalogView, columns: Sequence[tuple[str, SqlType]]) -> str:
        """The query of the view with names of here. Raises for the text of the best dialect when none can be taken."""
        given = translations((each.dialect, each.sql) for each in view.texts)
        if not given:
            dialects = ", ".join(sorted(each.dialect for each in view.texts)) or "none"
            raise FeatureNotSupported(f"its query is in no known dialect ({dialects})")
        first: SqlError | None = None
        for dialect, text in given:
            try:
                return await self._of_text(view, dialect, text, columns)
            except SqlError as error:
                first = first or error
        assert first is not None
        raise first

    async def _of_text(self, view: CatalogView, dialect: str, text: str, columns: Sequence[tuple[str, SqlType]]) -> str:
        aside = self._running.services.plans.aside
        query = await aside(query_of, dialect, text)
        read = [await self._resolve(reference, view, dialect) for reference in list(named_relations(query))]
        _unqualify_columns(query)
        names = {column.name for relation in read for column in relation.live_columns()}
        context = self._running.session.bind_context(own_catalog(self._running))
        bind = partial(query_with, query, names, columns, context, trusted=not is_postgres(dialect))
        try:
            return await aside(bind)
        except SqlError as error:
            raise Reading(dialect=dialect, given=text, text="").pointed(error) from error

    async def _resolve(self, reference: Tree, view: CatalogView, dialect: str) -> Relation:
        """Calls a relation that the query reads as it is called here. Raises 0A000 for one that is not imported."""
        namespace = self._namespace(reference, view, dialect)
        name = reference.relname
        shown = ".".join(each for each in (reference.catalogname, reference.schemaname, name) if each)
        found: Relation | None = None
        if namespace.lower() == self._statement.remote.lower():
            inner = only_like(name, self._names)
            if inner is not None:
                await self._make(inner)
                if self._done[inner] is not None:
                    raise FeatureNotSupported(f'it reads view "{inner}", which cannot be imported')
                found = self._here(inner)
        found = found or self._imported(f"{namespace}.{name}", shown)
        schema = own_catalog(self._running).get(found.schema)
        assert isinstance(schema, Schema)
        if not reference.alias.aliasname and found.name != name:
            reference.alias.aliasname = name
        reference.catalogname = ""
        reference.schemaname = schema.name
        reference.relname = found.name
        return found

    def _namespace(self, reference: Tree, view: CatalogView, dialect: str) -> str:
        """The namespace of this catalog that a name in the query means, its levels with points between them."""
        catalog, levels = view.catalog, [each for each in (reference.catalogname, reference.schemaname) if each]
        if not levels:
            levels = list(view.namespace)
        elif reference.catalogname and (dialect == "trino" or is_postgres(dialect)):
            catalog, levels = levels[0], levels[1:]
        elif dialect != "trino" and levels[0].lower() in self._catalogs:
            # Of two levels the first is a catalog where there is one that is called so.
            catalog, levels = levels[0], levels[1:]
        if catalog is not None and catalog.lower() not in self._catalogs:
            raise FeatureNotSupported(
                f'it reads "{reference.relname}" of catalog "{catalog}"',
                hint="If that is this catalog, say so by the option catalog_name of the foreign server.",
            )
        return ".".join(levels)

    def _here(self, name: str) -> Relation:
        catalog = own_catalog(self._running)
        schema = catalog.schema(self._statement.schema)
        assert schema is not None
        found = catalog.get(catalog.relation_names[schema.oid, name])
        assert isinstance(found, Relation)
        return found

    def _imported(self, table: str, shown: str) -> Relation:
        """The foreign table over `table` of the catalog. Raises 0A000 when there is none, or several elsewhere."""
        catalog = own_catalog(self._running)
        tables: dict[str, list[Relation]] = {}
        for relation in catalog.all():
            if isinstance(relation, Relation) and relation.foreign and relation.foreign.server == self._server.oid:
                options = dict(relation.foreign.options)
                if "table" in options and not _ONE_OF_A_KIND & options.keys():
                    tables.setdefault(options["table"], []).append(relation)
        known = only_like(table, tables)
        if known is None:
            raise FeatureNotSupported(
                f'it reads "{shown}", and no foreign table is over "{table}" of server "{self._server.name}"',
                hint="Import the table first, or with the view.",
            )
        found = tables[known]
        schema = catalog.schema(self._statement.schema)
        assert schema is not None
        best = [relation for relation in found if relation.schema == schema.oid] or found
        if len(best) > 1:
            raise FeatureNotSupported(f'it reads "{shown}", and several foreign tables are over "{known}"')
        return best[0]


def _unqualify_columns(query: Tree) -> None:
    """Leaves out the namespaces that stand before the tables of columns: tables are in other schemas here."""
    for node in subtrees(query):
        if node.DESCRIPTOR.name == "ColumnRef" and len(node.fields) > 2:
            kept = [pb.Node.FromString(each.SerializeToString()) for each in node.fields[-2:]]
            del node.fields[:]
            node.fields.extend(kept)
