"""Published tables and views in an external Iceberg REST catalog: what one needs to be there as it is published.

A table that the catalog lacks is registered with our metadata. One that it has is changed by the commits of the
specification (apache/iceberg, open-api/rest-catalog-open-api.yaml: `CommitTableRequest`), which every such catalog
takes: what it lacks of schemas, partition specs, sort orders, snapshots and properties is added, and snapshots that are
listed no longer are removed, so that what readers find there has all its files. What is there is looked at each time
and nothing is remembered: a push after any failure brings the catalog up to date. Tables are known by their UUID;
another's table of the same name is left alone.

A view is known by a property, `VIEW_PROPERTY`: the catalog gives views their UUIDs itself. One that has changed gets a
new version by a commit, too (`CommitViewRequest`).

All of it blocks, and is for threads.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from http import HTTPStatus
from typing import Any, TypeGuard, TypeVar

from pyiceberg.catalog.rest import Capability, Endpoints, IdentifierKind, RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    RESTError,
    ServerError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV2, TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException

from storage.errors import Determinate
from storage.publishing.metadata import CSN_PROPERTY

R = TypeVar("R")

TIMEOUT_S = 30.0
"""How long the catalog may take to connect, and between two pieces of an answer."""


VIEW_PROPERTY = "tidegate.view"
"""The property of a view that says which of ours it is."""

ADDED_LAST = -1
"""The schema, or version of a view, that the same commit adds."""


class _Patient(HTTPAdapter):
    """Requests that end; those of pyiceberg would wait for ever."""

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        options["timeout"] = options.get("timeout") or TIMEOUT_S
        return super().send(request, *args, **options)


class _Catalog(RestCatalog):
    def _create_session(self) -> Session:
        session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Patient())
        return session

    def takes_views(self) -> bool:
        """Whether the catalog says that it has views."""
        return Capability.V1_LOAD_VIEW in self._supported_endpoints

    # NOTE: pyiceberg's own `create_view` sends names with other characters than letters wrongly, and it changes none.
    def new_view(self, namespace: str, name: str, request: Mapping[str, Any]) -> None:
        """Create a view. Raises ViewAlreadyExistsError, for a table of that name as well."""
        place = self._split_identifier_for_path((namespace, name), IdentifierKind.VIEW)["namespace"]
        self._posted(self.url(Endpoints.create_view, namespace=place), request)

    def change_view(self, namespace: str, name: str, request: Mapping[str, Any]) -> None:
        """Commit changes of a view. Raises ViewAlreadyExistsError when it is another one by now."""
        place = self._split_identifier_for_path((namespace, name), IdentifierKind.VIEW)
        self._posted(self.url(Endpoints.load_view, **place), request)

    def _posted(self, url: str, request: Mapping[str, Any]) -> None:
        response = self._session.post(url, json=request)
        if response.status_code == HTTPStatus.CONFLICT:
            raise ViewAlreadyExistsError(response.text)
        response.raise_for_status()


class ExternalCatalog:
    """A catalog by pyiceberg's properties of it (uri, warehouse, credential, ...); its methods raise Determinate."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._opened: _Catalog | None = None

    def show(self, namespace: str, name: str, location: str, ours: TableMetadataV2, *, was_shown: bool = False) -> bool:
        """Let the catalog have the table as `ours` says, the metadata at `location`. One that `was_shown` there and
        cannot be loaded any more is registered anew. False: the name is that of another's table, which stays."""
        return self._asked(partial(_show, (namespace, name), location, ours, was_shown), f"{namespace}.{name}")

    def remove(self, namespace: str, name: str, table: uuid.UUID, *, was_shown: bool) -> None:
        """Let the catalog no longer have the table of that UUID under the name; nothing happens to another's. One that
        `was_shown` there goes, too, when its metadata has gone already and the catalog cannot load it any more."""

        def remove(catalog: RestCatalog) -> None:
            try:
                if catalog.load_table((namespace, name)).metadata.table_uuid != table:
                    return
            except (NoSuchTableError, NoSuchNamespaceError):
                return
            except ServerError:
                if not was_shown:
                    raise
            catalog.drop_table((namespace, name))

        self._asked(remove, f"{namespace}.{name}")

    def takes_views(self) -> bool:
        """Whether the catalog has views at all."""
        return self._asked(_Catalog.takes_views, "views")

    def show_view(self, namespace: str, name: str, metadata: Mapping[str, Any]) -> bool:
        """Let the catalog have a view as its `metadata` (`storage.publishing.views`) says. False: the name is that of
        another's table or view, which stays."""
        return self._asked(partial(_show_view, namespace, name, metadata), f"{namespace}.{name}")

    def remove_view(self, namespace: str, name: str, view: uuid.UUID) -> None:
        """Let the catalog no longer have that view of ours under the name; nothing happens to another's."""

        def remove(catalog: _Catalog) -> None:
            if not catalog.takes_views():
                return
            with contextlib.suppress(NoSuchViewError, NoSuchNamespaceError):
                if catalog.load_view((namespace, name)).metadata.properties.get(VIEW_PROPERTY) == str(view):
                    catalog.drop_view((namespace, name))

        self._asked(remove, f"{namespace}.{name}")

    def _asked(self, ask: Callable[[_Catalog], R], table: str) -> R:
        try:
            if self._opened is None:
                self._opened = _Catalog("external", **self._properties)
            return ask(self._opened)
        except (
            RESTError,
            RequestException,
            CommitFailedException,
            TableAlreadyExistsError,
            NoSuchTableError,
            NoSuchNamespaceError,
            NoSuchViewError,
            ViewAlreadyExistsError,
            NotImplementedError,
            ValueError,  # Of an answer that is not what the specification says.
        ) as error:
            self._opened = None
            raise Determinate(f"the Iceberg catalog at {self._properties['uri']}, {table}: {error}") from error


def _show(
    identifier: tuple[str, str], location: str, ours: TableMetadataV2, was_shown: bool, catalog: RestCatalog
) -> bool:
    try:
        table = catalog.load_table(identifier)
    except (NoSuchTableError, NoSuchNamespaceError):
        _register(catalog, identifier, location)
        return True
    except ServerError:
        if not was_shown:
            raise
        # The metadata that it had has expired while it could not be pushed to.
        catalog.drop_table(identifier)
        _register(catalog, identifier, location)
        return True
    there = table.metadata
    if there.table_uuid != ours.table_uuid:
        return False
    if there.current_snapshot_id == ours.current_snapshot_id or _is_later(there, ours):
        return True
    if _follows(there, ours):
        requirements = (
            AssertTableUUID(uuid=there.table_uuid),
            AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": there.current_snapshot_id}),
        )
        catalog.commit_table(table, requirements, _updates(there, ours))
    else:
        # Somebody else has written there: the catalog cannot be led from that to what is published.
        catalog.drop_table(identifier)
        _register(catalog, identifier, location)
    return True


def _register(catalog: RestCatalog, identifier: tuple[str, str], location: str) -> None:
    with contextlib.suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(identifier[:1])
    catalog.register_table(identifier, location)


def _show_view(namespace: str, name: str, metadata: Mapping[str, Any], catalog: _Catalog) -> bool:
    (schema,), (version,) = metadata["schemas"], metadata["versions"]
    try:
        there = catalog.load_view((namespace, name)).metadata
    except (NoSuchViewError, NoSuchNamespaceError):
        with contextlib.suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace((namespace,))
        properties = {VIEW_PROPERTY: metadata["view-uuid"]}
        first = {**version, "version-id": 1}
        request = {"name": name, "schema": schema, "view-version": first, "properties": properties}
        try:
            catalog.new_view(namespace, name, request)
        except ViewAlreadyExistsError:
            return False
        return True
    if there.properties.get(VIEW_PROPERTY) != metadata["view-uuid"]:
        return False
    current = next(each for each in there.versions if each.version_id == there.current_version_id)
    columns = next(each for each in there.schemas if each.schema_id == current.schema_id)
    texts = {each.root.dialect: each.root.sql for each in current.representations}
    if columns.fields == Schema.model_validate(schema).fields and texts == {
        each["dialect"]: each["sql"] for each in version["representations"]
    }:
        return True
    number = max(each.version_id for each in there.versions) + 1
    changed = {**version, "version-id": number, "schema-id": ADDED_LAST}
    updates = [
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": changed},
        {"action": "set-current-view-version", "view-version-id": ADDED_LAST},
    ]
    requirements = [{"type": "assert-view-uuid", "uuid": there.view_uuid}]
    identifier = {"namespace": [namespace], "name": name}
    catalog.change_view(namespace, name, {"identifier": identifier, "requirements": requirements, "updates": updates})
    return True


def _is_later(there: TableMetadata, ours: TableMetadataV2) -> bool:
    """Whether a later publication has been pushed meanwhile, by a process that was faster."""
    snapshot = there.current_snapshot()
    if snapshot is None or snapshot.summary is None or ours.current_snapshot_id is None:
        return False
    return (
        snapshot.summary[CSN_PROPERTY] == str(snapshot.snapshot_id) and snapshot.snapshot_id > ours.current_snapshot_id
    )


def _follows(there: TableMetadata, ours: TableMetadataV2) -> TypeGuard[TableMetadataV2 | TableMetadataV3]:
    """Whether what is published can be committed upon what is there."""
    newest = ours.current_snapshot()
    known = {schema.schema_id: schema.fields for schema in ours.schemas}
    columns = ours.schema().field_ids
    specs = {spec.spec_id: spec.fields for spec in there.partition_specs}, ours.specs()
    orders = (
        {order.order_id: order.fields for order in there.sort_orders},
        {order.order_id: order for order in ours.sort_orders},
    )
    return (
        not isinstance(there, TableMetadataV1)
        and newest is not None
        and (newest.sequence_number or 0) > there.last_sequence_number
        and all(known.get(schema.schema_id) == schema.fields for schema in there.schemas)
        and _can_be_added(*specs, columns)
        and _can_be_added(*orders, columns)
    )


def _can_be_added(
    there: Mapping[int, Sequence[Any]], ours: Mapping[int, PartitionSpec | SortOrder], columns: Set[int]
) -> bool:
    """Whether a catalog that has the specs (or orders) `there` can get the rest of `ours`: it numbers what is added
    itself, one above the highest number that it has, and knows only the `columns` that there are now."""
    if any(number not in ours or ours[number].fields != fields for number, fields in there.items()):
        return False
    lacking = sorted(ours.keys() - there.keys())
    return lacking == list(range(max(there, default=-1) + 1, len(ours))) and all(
        field.source_id in columns for number in lacking for field in ours[number].fields
    )


def _updates(there: TableMetadataV2 | TableMetadataV3, ours: TableMetadataV2) -> tuple[TableUpdate, ...]:
    schemas = {schema.schema_id for schema in there.schemas}
    updates: list[TableUpdate] = [
        AddSchemaUpdate(schema=schema)
        for schema in sorted(ours.schemas, key=lambda schema: schema.schema_id)
        if schema.schema_id not in schemas
    ]
    if ours.current_schema_id != there.current_schema_id:
        updates.append(SetCurrentSchemaUpdate.model_validate({"schema-id": ours.current_schema_id}))
    specs = {spec.spec_id for spec in there.partition_specs}
    updates.extend(AddPartitionSpecUpdate(spec=spec) for at, spec in sorted(ours.specs().items()) if at not in specs)
    if ours.default_spec_id != there.default_spec_id:
        updates.append(SetDefaultSpecUpdate.model_validate({"spec-id": ours.default_spec_id}))
    orders = {order.order_id for order in there.sort_orders}
    updates.extend(
        AddSortOrderUpdate.model_validate({"sort-order": order})
        for order in sorted(ours.sort_orders, key=lambda order: order.order_id)
        if order.order_id not in orders
    )
    if ours.default_sort_order_id != there.default_sort_order_id:
        updates.append(SetDefaultSortOrderUpdate.model_validate({"sort-order-id": ours.default_sort_order_id}))
    changed = {name: value for name, value in ours.properties.items() if there.properties.get(name) != value}
    if changed:
        updates.append(SetPropertiesUpdate(updates=changed))
    known = {snapshot.snapshot_id for snapshot in there.snapshots}
    updates.extend(
        AddSnapshotUpdate(snapshot=snapshot)
        for snapshot in ours.snapshots
        if snapshot.snapshot_id not in known and (snapshot.sequence_number or 0) > there.last_sequence_number
    )
    head = {"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": ours.current_snapshot_id}
    updates.append(SetSnapshotRefUpdate.model_validate(head))
    expired = sorted(known - {snapshot.snapshot_id for snapshot in ours.snapshots})
    if expired:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": expired}))
    return tuple(updates)
