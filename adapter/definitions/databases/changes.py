"""CREATE, ALTER and DROP DATABASE (PostgreSQL's chapter "Managing Databases").

A database is a record, and the schemas that name it. All databases of an environment commit to one catalog, so that its
transactions are in one order; a session sees the part of its own (`CatalogSnapshot.databases`). A new database is a
copy of a template, with the rows of its tables, made by one transaction: it is there whole or not at all.

Sessions elsewhere, of other workers and of other servers of the environment, are counted, and ended by FORCE. One that
does not answer in time, whose database goes, gets 3D000 at its next statement.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from adapter.access.ownership import owns
from adapter.definitions.common.builtin_privileges import allow_privileges_on
from adapter.definitions.common.catalog_changes import change, forget_shard, named_role, new_oid, owner_oid, shards_of
from adapter.definitions.common.owners import check_new_owner, require_member, require_owner
from adapter.definitions.common.table_rows import fill_table, make_shard
from adapter.definitions.databases.copies import Copies, oids_for
from adapter.definitions.databases.options import options_of
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.materialized.journal import JOURNAL_SCHEMA
from adapter.plans.predicates import scan_templates
from adapter.queries.read import prepare_read
from adapter.queries.session_facts import own_rows
from adapter.results import Notice
from planner.common_errors import missing_database, shut_down
from planner.definitions.transforms import rewritten_rows
from planner.errors import (
    DuplicateDatabase,
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidCatalogName,
    InvalidParameterValue,
    ObjectInUse,
    WrongObjectType,
)
from planner.statements import records as st
from planner.types.type_scope import types_of
from storage.catalog.access import Role
from storage.catalog.acl import Acl
from storage.catalog.model import (
    WHOLE,
    CatalogRecord,
    CatalogSnapshot,
    CatalogUpdate,
    Database,
    Relation,
    Schema,
    Sequence,
    Setting,
)
from storage.catalog.oids import MIN_OIDS

DEFAULT_TEMPLATE = "template1"

PATIENCE_S = 5.0
"""How long a database that nobody may use is waited for: PostgreSQL's. A session that ends needs a moment."""

_LOOK_AGAIN_S = 0.05


def find_database(catalog: CatalogSnapshot, name: str) -> Database | None:
    """The database called `name`, or None."""
    return next((r for r in catalog.all() if isinstance(r, Database) and r.name == name), None)


def require_database(catalog: CatalogSnapshot, name: str) -> Database:
    """The database called `name`. 3D000."""
    found = find_database(catalog, name)
    if found is None:
        raise missing_database(name)
    return found


# ---------------------------------------------------------------- CREATE


async def create_database(running: Running, statement: st.CreateDatabase) -> None:
    """CREATE DATABASE: a copy of its template."""
    catalog = own_catalog(running)
    options = options_of(running, statement.options)
    owner = owner_oid(running) if options.owner is None else named_role(running, options.owner).oid
    role = _current_role(running)
    if not (role.superuser or role.create_db):
        raise InsufficientPrivilege("permission denied to create database")
    if options.owner is not None:
        require_member(running, named_role(running, options.owner))
    name = options.template or DEFAULT_TEMPLATE
    template = find_database(catalog, name)
    if template is None:
        raise InvalidCatalogName(f'template database "{name}" does not exist')
    if not (template.is_template or role.superuser or owns(catalog, role.oid, template)):
        raise InsufficientPrivilege(f'permission denied to copy database "{name}"')
    if find_database(catalog, statement.name) is not None:
        raise DuplicateDatabase(f'database "{statement.name}" already exists')
    await _refuse_while_used(running, template, f'source database "{name}" is being accessed by other users')
    database = Database(
        oid=new_oid(running),
        name=statement.name,
        owner=owner,
        is_template=bool(options.is_template),
        allows_connections=options.allows_connections is not False,
        connection_limit=-1 if options.connection_limit is None else options.connection_limit,
    )
    change(running, added=[database])
    await _copy(running, template, database)


async def _copy(running: Running, template: Database, database: Database) -> None:
    services = running.services
    before = _catalog_of(running, template)
    originals = _own_records(before)
    objects = [record.object_oid for record in originals if isinstance(record, Acl)]
    await allow_privileges_on(running, objects, database.oid)
    oids: list[int] = []
    for number in range(oids_for(originals)):
        if number % MIN_OIDS == 0:
            await services.provide_oids()
        oids.append(new_oid(running))
    copies = Copies(originals, database.oid, iter(oids).__next__, services.env.new_shard_id)
    made = {record.oid: record for record in copies.made()}
    change(running, added=made.values())
    whole = services.catalog().apply(
        [CatalogUpdate(record=record, diff=1) for record in (database, *made.values())], services.catalog().csn
    )
    for record in originals:
        copy = made[copies.oids[record.oid]]
        if isinstance(record, Relation) and record.shard is not None:
            assert isinstance(copy, Relation)
            await _copy_rows(running, before, whole, record, copy)
        elif isinstance(record, Sequence):
            assert isinstance(copy, Sequence)
            await services.sequence_store.set_value(copy, *await services.sequence_store.last_value(record))


async def _copy_rows(
    running: Running, catalog: CatalogSnapshot, whole: CatalogSnapshot, table: Relation, copy: Relation
) -> None:
    own = running.session.bind_context(own_catalog(running))
    context = replace(own, catalog=catalog, database=_name_of(catalog))
    live = [column.attnum for column in table.live_columns()]
    with types_of(catalog, ()):
        query: Any = replace(rewritten_rows(table, live, {}, running.parsed, context), validated=True)
        read = await prepare_read(running, catalog, query, scan_templates(query.rel))
    schema = whole.get(copy.schema)
    assert isinstance(schema, Schema)
    # The rows have been held against everything that the template's definitions say.
    unchecked = replace(copy, columns=tuple(replace(column, not_null=False) for column in copy.columns))
    with types_of(whole, ()):
        make_shard(running, copy)
        if copy.materialized is not None:
            txn = running.transaction.writable(running.services.env)
            txn.create_shard(copy.materialized.journal, JOURNAL_SCHEMA)
        await fill_table(running, unchecked, schema.name, read)


# ---------------------------------------------------------------- ALTER


async def alter_database(running: Running, statement: st.AlterDatabase) -> None:
    """ALTER DATABASE ... WITH: what CREATE DATABASE can say of it and is not fixed by then."""
    database = require_database(own_catalog(running), statement.name)
    options = options_of(running, statement.options)
    require_owner(running, database)
    if options.allows_connections is False and database.oid == running.session.database_oid:
        raise InvalidParameterValue("cannot disallow connections for current database")
    _replace(running, database, options.applied_to(database))


async def refresh_collation(running: Running, statement: st.RefreshCollation) -> None:
    """ALTER DATABASE ... REFRESH COLLATION VERSION: text is in the order of its bytes, which has no versions."""
    database = require_database(own_catalog(running), statement.name)
    require_owner(running, database)
    message = "version has not changed"
    running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))


async def rename_database(running: Running, name: str, new_name: str) -> None:
    """ALTER DATABASE ... RENAME TO."""
    catalog = own_catalog(running)
    database = require_database(catalog, name)
    require_owner(running, database)
    role = _current_role(running)
    if not (role.superuser or role.create_db):
        raise InsufficientPrivilege("permission denied to rename database")
    if find_database(catalog, new_name) is not None:
        raise DuplicateDatabase(f'database "{new_name}" already exists')
    if database.oid == running.session.database_oid:
        raise FeatureNotSupported("current database cannot be renamed")
    await _refuse_while_used(running, database, f'database "{name}" is being accessed by other users')
    _replace(running, database, replace(database, name=new_name))


def give_database(running: Running, name: str, owner: str) -> None:
    """ALTER DATABASE ... OWNER TO."""
    database = require_database(own_catalog(running), name)
    _replace(running, database, replace(database, owner=check_new_owner(running, database, owner).oid))


def _replace(running: Running, before: Database, after: Database) -> None:
    if after != before:
        change(running, removed=[before], added=[after])


# ---------------------------------------------------------------- DROP


async def drop_database(running: Running, statement: st.DropDatabase) -> None:
    """DROP DATABASE, with all that is in it."""
    catalog = own_catalog(running)
    database = find_database(catalog, statement.name)
    if database is None:
        if not statement.if_exists:
            raise missing_database(statement.name)
        message = f'database "{statement.name}" does not exist, skipping'
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
        return
    require_owner(running, database)
    if database.is_template:
        raise WrongObjectType("cannot drop a template database")
    if database.oid == running.session.database_oid:
        raise ObjectInUse("cannot drop the currently open database")
    if statement.force:
        await _end_sessions(running, database)
    await _refuse_while_used(running, database, f'database "{statement.name}" is being accessed by other users')
    settings = [r for r in catalog.all() if isinstance(r, Setting) and r.database == database.oid]
    comments = [r for r in catalog.all() if getattr(r, "object_oid", None) == database.oid]
    records = _own_records(_catalog_of(running, database))
    change(running, removed=[database, *settings, *comments, *records])
    for record in records:
        if isinstance(record, Relation):
            for shard in shards_of(record):
                forget_shard(running, shard)


async def _end_sessions(running: Running, database: Database) -> None:
    """Tell the sessions of `database` to end."""
    for backend in running.sessions.all():
        if backend.state.database_oid == database.oid:
            backend.terminate(shut_down())
    for row in await running.sessions.colleagues.rows("pg_stat_activity"):
        if row["datid"] == database.oid:
            await running.sessions.colleagues.signal(row["pid"], terminate=True)


# ---------------------------------------------------------------- what all of them ask


async def _others(running: Running, database: Database) -> int:
    """How many sessions of `database` there are besides the one that runs."""
    rows = [
        *own_rows("pg_stat_activity", running.sessions, running.services),
        *await running.sessions.colleagues.rows("pg_stat_activity"),
    ]
    return sum(row["datid"] == database.oid and row["pid"] != running.session.backend_pid for row in rows)


async def _refuse_while_used(running: Running, database: Database, message: str) -> None:
    """55006 with `message` when other sessions are in `database` and do not end soon."""
    clock = running.services.env.clock
    until = clock.monotonic() + PATIENCE_S
    while (others := await _others(running, database)) and clock.monotonic() < until:
        running.scope.check()
        await clock.sleep(_LOOK_AGAIN_S)
    if others == 1:
        raise ObjectInUse(message, detail="There is 1 other session using the database.")
    if others:
        raise ObjectInUse(message, detail=f"There are {others} other sessions using the database.")


def _current_role(running: Running) -> Role:
    role = own_catalog(running).get(owner_oid(running))
    assert isinstance(role, Role)
    return role


def _catalog_of(running: Running, database: Database) -> CatalogSnapshot:
    """The catalog of another database, as new as this process knows it: the commit fails when it is not the newest."""
    if database.oid == running.session.database_oid:
        return own_catalog(running)
    return running.services.env.catalog.current(database.oid)


def _own_records(catalog: CatalogSnapshot) -> list[CatalogRecord]:
    """What is in a database and not in all of them."""
    return [record for record in catalog.all() if catalog.place(record) != WHOLE]


def _name_of(catalog: CatalogSnapshot) -> str:
    database = catalog.get(catalog.database)
    assert isinstance(database, Database)
    return database.name
