"""What sessions know and the catalog does not, as rows of system relations (`SessionFacts`)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec import Struct

from adapter.access.membership import has_privileges_of
from adapter.access.passwords import without_passwords
from adapter.access.roles import require_role
from adapter.admission.admission import Place
from adapter.execution.controllers import CONTROLLERS
from adapter.execution.controllers import STATISTICS as COUNTING
from adapter.execution.services import Services
from adapter.execution.session_registry import Backend, SessionRegistry
from adapter.execution.session_settings import current_value, setting_rows
from adapter.execution.session_state import SessionState
from adapter.execution.statement import Running
from adapter.execution_context import SessionFacts
from adapter.materialized.shown import view_rows
from adapter.materialized.view_lineage import lineage_rows
from adapter.publishing.service import catalog_rows
from adapter.queries.acting.sequences import with_last_values
from adapter.queries.extents.activity_rows import activity_rows
from adapter.queries.extents.extents import Extents, extents_of
from adapter.queries.extents.gathered import SHOWN, gathered_by_now, gathered_rows
from adapter.queries.facts.lock_facts import blocked_elsewhere, lock_rows, wait_event
from adapter.queries.facts.progress_facts import PROGRESS
from adapter.queries.large_objects.metadata import metadata_rows
from adapter.queries.large_objects.tables import METADATA
from adapter.settings.server_settings import file_rows
from adapter.statistics.activity import added_up
from adapter.statistics.statements import merged, merged_info
from adapter.system_catalogs.pg_catalog.catalog_views import pg_sequences
from adapter.system_catalogs.pg_catalog.foreign_rows import visible_mapping_options, visible_mappings
from adapter.system_catalogs.relations import environment
from adapter.system_catalogs.relations.extent_columns import INDEXES, TABLES
from adapter.transactions.pending import State
from adapter.wall_clock import utc_now
from planner.errors import UndefinedObject
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import walk
from planner.types.system_relations import OWN_SCHEMA
from planner.types.table_indexes import find_index
from storage.catalog.model import WHOLE, CatalogSnapshot, Database

TEMPORARY_FILES = "temporary files"
"""What pg_stat_database takes from each worker about them, in place of a relation's name."""

SESSIONS = "sessions"
"""What each worker is asked for, of the sessions that it serves, for tidegate.sessions."""

STATEMENT_STATISTICS = "statement_statistics"
STATEMENT_STATISTICS_INFO = "statement_statistics_info"
STATISTICS = frozenset({STATEMENT_STATISTICS, STATEMENT_STATISTICS_INFO})
"""Those that tell what was counted of statements."""

COUNTED = "counted"
"""What each process has counted of tables, indexes and databases, in place of a relation's name."""

ACTIVITY = frozenset({*TABLES, *INDEXES})
"""Relations that show what was counted of tables and indexes."""

METRICS = "metrics"
"""What each worker is asked for to add up what they count, in place of a relation's name."""

_OF_ALL_WORKERS: Mapping[str, tuple[str, ...]] = {
    "pg_stat_activity": ("pg_stat_activity",),
    "pg_stat_ssl": ("pg_stat_ssl",),
    "pg_stat_gssapi": ("pg_stat_activity",),
    "pg_locks": ("pg_locks",),
    **{name: (name,) for name in PROGRESS},
    "pg_stat_database": ("pg_stat_activity", TEMPORARY_FILES, COUNTED),
}
"""By system relation: the relations whose rows it takes from all workers."""

MAX_NAME_CHARS = 63
"""What pg_stat_ssl has room for of a distinguished name."""

MAX_STATEMENT_CHARS = 10_000
"""So much of a statement tidegate.sessions has."""

MAX_QUERY_CHARS = 1024
"""PostgreSQL's track_activity_query_size."""


class Elsewhere(Struct, frozen=True, kw_only=True):
    """What the other workers and servers know: rows by relation, and who waits for whom."""

    rows: Mapping[str, Sequence[Mapping[str, Any]]] = {}
    blocked: Mapping[int, Sequence[int]] = {}


NOTHING_ELSEWHERE = Elsewhere()


class Facts:
    """The facts as one session sees them. `extents` are how large tables and indexes are, where somebody
    asks."""

    def __init__(
        self,
        session: SessionState,
        sessions: SessionRegistry,
        extents: Extents | None = None,
        database_sizes: Mapping[int, int] | None = None,
        elsewhere: Elsewhere = NOTHING_ELSEWHERE,
        own: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> None:
        self._session = session
        self._sessions = sessions
        self._extents = extents
        self._database_sizes = database_sizes or {}
        self._elsewhere = elsewhere
        self._own = own or {}

    def relation_size(self, oid: int) -> int:
        """Bytes that the table or index with this oid occupies; 0 for views and for what is stored in no shard."""
        return 0 if self._extents is None else self._extents.bytes.get(oid, 0)

    @property
    def knows_extents(self) -> bool:
        """Whether it is known how large tables and indexes are."""
        return self._extents is not None

    def relation_rows(self, oid: int) -> int | None:
        """How many rows the table or index with this oid has; None where that is not known or has no meaning."""
        return None if self._extents is None else self._extents.rows.get(oid)

    def database_size(self, oid: int) -> int:
        """Bytes that the tables and indexes of the database with this oid occupy."""
        return self._database_sizes.get(oid, 0)

    def rows(self, relation: str) -> Sequence[Mapping[str, Any]]:
        """The rows of a session relation, by column name; none for a relation there is nothing to say about."""
        match relation:
            case "pg_stat_activity":
                own = own_rows(relation, self._sessions, self._session.services)
                return self._activities([*own, *self._elsewhere.rows.get(relation, ())])
            case "pg_stat_ssl":
                own = own_rows(relation, self._sessions, self._session.services)
                rows = [*own, *self._elsewhere.rows.get(relation, ())]
                return [row for row, is_shown in zip(rows, self._shown(rows), strict=True) if is_shown]
            case "pg_locks":
                own = own_rows(relation, self._sessions, self._session.services)
                # What prepared transactions have locked, each worker knows.
                return [*own, *(row for row in self._elsewhere.rows.get(relation, ()) if row["pid"] is not None)]
            case "pg_stat_progress_copy" | "pg_stat_progress_cluster":
                own = own_rows(relation, self._sessions, self._session.services)
                return self._seen([*own, *self._elsewhere.rows.get(relation, ())])
            case "pg_stat_database":
                return self._databases()
            case "pg_cursors":
                return self._cursors()
            case "pg_prepared_statements":
                return self._prepared()
            case "pg_prepared_xacts":
                return [
                    {
                        "transaction": record.xid,
                        "gid": record.gid,
                        "prepared": datetime.fromtimestamp(note.prepared_us / 1_000_000, UTC),
                        "owner": note.user,
                        "database": note.database,
                    }
                    for record, note, _ in self._session.services.prepared.all()
                ]
            case "pg_hba_file_rules" | "pg_ident_file_mappings":
                return self._session.services.authentication_rows(relation)
            case "pg_user_mappings" | "user_mapping_options":
                transaction, role = self._session.transaction, self._session.values.identity.current
                catalog = self._session.newest_catalog() if transaction is None else transaction.catalog
                if relation == "pg_user_mappings":
                    return visible_mappings(catalog, role)
                return visible_mapping_options(catalog, role, self._session.database)
            case "pg_file_settings":
                return file_rows(self._session.newest_catalog(), self._session.services.settings.pending_restart)
            case "pg_settings":
                return setting_rows(self._session)
            case _:
                return self._own.get(relation, [])

    def _shown(self, rows: Sequence[Mapping[str, Any]]) -> list[bool]:
        """Of rows about sessions: which of them the session's own role is told all of."""
        catalog, role = self._session.newest_catalog(), self._session.values.identity.current
        if has_privileges_of(catalog, role, require_role(catalog, "pg_read_all_stats").oid):
            return [True] * len(rows)
        return [has_privileges_of(catalog, role, row["usesysid"]) for row in rows]

    def _seen(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """What sessions do, but for those whose role the session's own has the privileges of, without what it is
        (pg_stat_get_progress_info)."""
        public = ("pid", "datid", "datname")
        shown = zip(rows, self._shown(rows), strict=True)
        return [row if is_shown else {name: row[name] for name in public} for row, is_shown in shown]

    def _activities(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """What sessions do: of those whose role the session's own has not the privileges of, who they are alone
        (pg_stat_get_activity)."""
        public = ("datid", "datname", "pid", "usesysid", "usename", "application_name")
        shown = zip(rows, self._shown(rows), strict=True)
        hidden = {"query": "<insufficient privilege>"}
        return [row if is_shown else {name: row[name] for name in public} | hidden for row, is_shown in shown]

    def setting(self, name: str) -> str | None:
        """The value that SHOW prints for a setting, None when there is none of that name."""
        with suppress(UndefinedObject):
            return current_value(self._session, self._session.values.find(name))
        return None

    def blocking_pids(self, pid: int) -> list[int]:
        """The sessions that the waiting session `pid` waits for."""
        found = self._session.services.locks.blocking(pid)
        return list(dict.fromkeys([*found, *self._elsewhere.blocked.get(pid, ())]))

    def listening_channels(self) -> list[str]:
        """The channels that the session listens on, in the order in which it began to."""
        return list(self._session.listener.channels)

    def now_ms(self) -> int:
        """The transaction's time in milliseconds since 1970."""
        transaction = self._session.transaction
        moment = utc_now() if transaction is None else transaction.started_at
        return int(moment.timestamp() * 1000)

    def _databases(self) -> list[Mapping[str, Any]]:
        """The rows of pg_stat_database, as far as something is counted."""

        def of_all_workers(relation: str) -> list[Mapping[str, Any]]:
            own = own_rows(relation, self._sessions, self._session.services)
            return [*own, *self._elsewhere.rows.get(relation, ())]

        backends = Counter(row["datid"] for row in of_all_workers("pg_stat_activity"))
        files: Counter[int] = Counter()
        sizes: Counter[int] = Counter()
        for row in of_all_workers(TEMPORARY_FILES):
            files[row["datid"]] += row["temp_files"]
            sizes[row["datid"]] += row["temp_bytes"]
        databases = [each for each in self._session.services.catalog().all() if isinstance(each, Database)]
        counted = added_up(of_all_workers(COUNTED))
        return [
            {"datid": 0, "numbackends": None},
            *(
                {
                    "datid": database.oid,
                    **_counts_of(counted.get(("d", database.oid, database.oid), {})),
                    "datname": database.name,
                    "numbackends": backends[database.oid],
                    "temp_files": files[database.oid],
                    "temp_bytes": sizes[database.oid],
                }
                for database in databases
            ),
        ]

    def _cursors(self) -> list[Mapping[str, Any]]:
        return [
            {
                "name": portal.name,
                "statement": portal.text,
                "is_holdable": portal.hold,
                "is_binary": portal.binary,
                "is_scrollable": portal.scroll,
                "creation_time": portal.created_at,
            }
            for portal in self._session.portals.by_name.values()
            if portal.name
        ]

    def _prepared(self) -> list[Mapping[str, Any]]:
        return [
            {
                "name": statement.name,
                "statement": statement.text,
                "prepare_time": statement.prepared_at,
                "parameter_types": [type_.declared_oid for type_ in statement.param_types],
                "from_sql": statement.from_sql,
                "generic_plans": 0,
                "custom_plans": 0,
            }
            for statement in self._session.statements.named()
        ]


def _counts_of(counted: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in counted.items() if name not in ("kind", "database", "oid")}


def _exists(databases: Mapping[int, CatalogSnapshot], database: int, oid: int) -> bool:
    catalog = databases.get(database)
    return catalog is not None and (catalog.get(oid) is not None or find_index(catalog, oid) is not None)


def own_rows(relation: str, sessions: SessionRegistry, services: Services) -> list[Mapping[str, Any]]:
    """What this process contributes to a relation whose rows are those of all workers."""
    if relation == "pg_locks":
        return lock_rows(services.locks, services.between_servers, sessions.all())
    if relation == COUNTED:
        services.activity.keep(partial(_exists, services.catalog().databases))
        return services.activity.rows()
    if relation == STATEMENT_STATISTICS:
        return services.statistics.rows()
    if relation == STATEMENT_STATISTICS_INFO:
        return [services.statistics.info()]
    if relation == METRICS:
        return services.metric_rows()
    if relation == SESSIONS:
        place = services.colleagues.place
        return _session_rows(sessions.all(), services.env.process, 0 if place is None else place.memory.own)
    if relation == CONTROLLERS:
        return services.controllers.rows()
    if relation == TEMPORARY_FILES:
        return services.temporary_file_counts.rows()
    if relation in PROGRESS:
        return [row for backend in sessions.all() if (row := PROGRESS[relation](backend)) is not None]
    if relation == "pg_stat_ssl":
        return [_encryption(backend.state) for backend in sessions.all()]
    return [_activity(backend) for backend in sessions.all()]


def _encryption(session: SessionState) -> Mapping[str, Any]:
    """A row of pg_stat_ssl."""
    tls = session.tls
    who = {"pid": session.backend_pid, "usesysid": session.values.identity.authenticated}
    if tls is None:
        return {**who, "ssl": False}
    return {
        **who,
        "ssl": True,
        "version": tls.version,
        "cipher": tls.cipher,
        "bits": tls.bits,
        "client_dn": tls.client_dn and tls.client_dn[:MAX_NAME_CHARS],
        # The text of a numeric, which has more digits than msgpack's integers.
        "client_serial": tls.client_serial and str(tls.client_serial),
        "issuer_dn": tls.issuer_dn and tls.issuer_dn[:MAX_NAME_CHARS],
    }


def _activity(backend: Backend) -> Mapping[str, Any]:
    """A row of pg_stat_activity."""
    session, began_at = backend.state, backend.statement_began_at
    transaction = session.transaction
    if began_at is not None:
        state = "active"
    elif transaction is None or transaction.implicit:
        state = "idle"
    else:
        state = "idle in transaction (aborted)" if transaction.state is State.FAILED else "idle in transaction"
    lock = wait_event(session.locks.owner, session.services)
    place = session.services.admission.of(session.backend_pid)
    wait: tuple[str | None, str | None] = ("Client", "ClientRead")
    if lock is not None:
        wait = ("Lock", lock)
    elif state == "active":
        waits = place is not None and place.waits_since is not None
        wait = ("Extension", "WorkloadClass") if waits else (None, None)
    address, _, port = (session.remote_address or "").rpartition(":")
    return {
        "datid": session.database_oid,
        "datname": session.database,
        "pid": session.backend_pid,
        "usesysid": session.values.identity.authenticated,
        "usename": session.authenticated_user,
        "application_name": session.values["application_name"],
        "client_addr": address or None,
        "client_port": int(port) if port.isdigit() else -1,
        "backend_start": session.started_at,
        "xact_start": None if transaction is None else transaction.started_at,
        "query_start": began_at or session.state_changed_at,
        "state_change": session.state_changed_at,
        "wait_event_type": wait[0],
        "wait_event": wait[1],
        "state": state,
        "backend_xid": None if transaction is None else transaction.id,
        "query_id": session.services.statistics.id_of(session.ran),
        "query": without_passwords(session.query_text)[:MAX_QUERY_CHARS],
        "backend_type": "client backend",
    }


def _session_rows(backends: Iterable[Backend], server: str, worker: int) -> list[Mapping[str, Any]]:
    """tidegate.sessions of this process."""
    rows: list[Mapping[str, Any]] = []
    for backend in backends:
        session, began_at = backend.state, backend.statement_began_at
        transaction = session.transaction
        block = transaction is not None and not transaction.implicit
        snapshot = None if transaction is None else transaction.snapshot
        place = session.services.admission.of(session.backend_pid)
        rows.append(
            {
                "pid": session.backend_pid,
                "usesysid": session.values.identity.authenticated,
                "server": server,
                "worker": worker,
                "usename": session.authenticated_user,
                "datname": session.database,
                "application_name": session.values["application_name"],
                "client_addr": session.remote_address,
                "began_at": session.started_at,
                "state": "active" if began_at is not None else "idle in transaction" if block else "idle",
                "isolation": None if transaction is None else transaction.isolation.value,
                "transaction_began_at": None if transaction is None else transaction.started_at,
                "snapshot_csn": None if snapshot is None else int(snapshot.csn),
                "waits_for_lock": wait_event(session.locks.owner, session.services) is not None,
                "engine": session.engine_used,
                "workload_class": None if place is None else place.klass,
                "waits_for_slot": place is not None and place.waits_since is not None,
                "queued_s": None if place is None else _queued_s(place),
                "statement": without_passwords(session.query_text[:MAX_STATEMENT_CHARS]),
                "statement_began_at": began_at,
            }
        )
    return rows


def _queued_s(place: Place) -> float:
    """How long an execution has waited for a slot, the wait at hand included."""
    return place.queued_s + (0.0 if place.waits_since is None else (utc_now() - place.waits_since).total_seconds())


_ABOUT_WAITS = ("pg_blocking_pids", "pg_isolation_test_session_is_blocked")
"""Functions that tell who waits for whom."""


async def facts_for(running: Running, catalog: CatalogSnapshot, query: BoundQuery, *, sizes: bool) -> SessionFacts:
    """What is known for `query`: with `sizes`, how large each table and each index is, at the newest snapshot; and what
    the other workers know of what it asks for."""
    asked = running.services.colleagues.has_others
    elsewhere = await _elsewhere(running, query) if asked else NOTHING_ELSEWHERE
    own: Mapping[str, Sequence[Mapping[str, Any]]] = {}
    extents = await extents_of(running.services.env, running.transaction, catalog) if sizes else None
    if reads_own_relations(query):
        own = await _own_relations(running, catalog, query, extents or Extents())
    if not sizes and elsewhere is NOTHING_ELSEWHERE and not own:
        return running.facts
    return Facts(
        running.session,
        running.sessions,
        extents=extents,
        database_sizes=await _database_sizes(running) if sizes and _calls(query, "pg_database_size") else None,
        elsewhere=elsewhere,
        own=own,
    )


async def _own_relations(
    running: Running, catalog: CatalogSnapshot, query: BoundQuery, extents: Extents
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The rows of those relations that the query reads which have to be asked for."""
    env, publishing = running.services.env, running.services.publishing
    scans = [node for node in walk(query.rel) if isinstance(node, ir.SystemScan)]
    names = {scan.name for scan in scans if scan.schema == OWN_SCHEMA}
    rows: dict[str, Sequence[Mapping[str, Any]]] = {}
    if any(scan.name == "pg_sequences" and scan.schema != OWN_SCHEMA for scan in scans):
        known = running.engines.catalogs.objects(catalog, running.session.database)
        rows["pg_sequences"] = await with_last_values(running, pg_sequences(known).rows)
    if any(scan.name == METADATA and scan.schema != OWN_SCHEMA for scan in scans):
        rows[METADATA] = await metadata_rows(running, catalog)
    for name in ACTIVITY & {scan.name for scan in scans if scan.schema != OWN_SCHEMA}:
        database = running.session.database_oid
        known = running.engines.catalogs.objects(catalog, running.session.database)
        counted = added_up(
            [*own_rows(COUNTED, running.sessions, running.services), *await running.services.colleagues.rows(COUNTED)]
        )
        rows[name] = activity_rows(name, known, database, counted, extents)
    shown = SHOWN & {scan.name for scan in scans if scan.schema != OWN_SCHEMA}
    if shown:
        gathered = await gathered_by_now(running)
        rows |= {name: gathered_rows(name, catalog, running.session.rights(catalog), gathered) for name in shown}
    if "materialized_views" in names:
        rows["materialized_views"] = await view_rows(env, running.transaction, catalog)
    if "view_lineage" in names:
        context = running.session.bind_context(catalog)
        rows["view_lineage"] = await running.services.plans.aside(lineage_rows, catalog, context)
    if names & STATISTICS:
        rows |= await statistics_rows(running, catalog)
    if "columns" in names:
        rows["columns"] = environment.column_rows()
    if names & environment.WATCHED:
        rows |= await _watched(running, catalog, names)
    if names & {"iceberg_tables", "iceberg_namespace_properties"}:
        rows |= catalog_rows(
            catalog, await publishing.published(catalog.database), env, running.session.rights(catalog)
        )
    return rows


async def statistics_rows(running: Running, catalog: CatalogSnapshot) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """What the workers of this server have counted of statements. What others have run is hidden from whom may not read
    all statistics."""
    services, role = running.services, running.session.values.identity.current
    await services.controllers.caught_up(COUNTING, catalog.csn)
    statistics, colleagues = services.statistics, services.colleagues
    counted = [*statistics.rows(), *await colleagues.rows(STATEMENT_STATISTICS, of_servers=False)]
    found = await asyncio.to_thread(merged, counted)
    if not has_privileges_of(catalog, role, require_role(catalog, "pg_read_all_stats").oid):
        hidden = {"queryid": None, "query": "<insufficient privilege>"}
        found = [row if row["userid"] == role else {**row, **hidden} for row in found]
    infos = [statistics.info(), *await colleagues.rows(STATEMENT_STATISTICS_INFO, of_servers=False)]
    return {STATEMENT_STATISTICS: found, STATEMENT_STATISTICS_INFO: [merged_info(infos)]}


async def _watched(
    running: Running, catalog: CatalogSnapshot, names: Set[str]
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """What the server and the environment are doing. Of sessions of others only who may read all statistics is told
    more than that they are there."""
    services, env = running.services, running.services.env
    role = running.session.values.identity.current
    everybodys = has_privileges_of(catalog, role, require_role(catalog, "pg_read_all_stats").oid)
    found = [*own_rows(SESSIONS, running.sessions, services), *await services.colleagues.rows(SESSIONS)]
    if not everybodys:
        public = ("pid", "datname")
        found = [
            row if has_privileges_of(catalog, role, row["usesysid"]) else {name: row[name] for name in public}
            for row in found
        ]
    rows: dict[str, Sequence[Mapping[str, Any]]] = {
        "sessions": found,
        "statements": environment.statement_rows(found, utc_now()),
    }
    if names & {"transactions", "servers", "oracle", "engines"}:
        rows |= {
            "transactions": environment.transaction_rows(env, found),
            "servers": list(environment.server_rows(env)),
            "oracle": environment.oracle_rows(env),
            "engines": environment.engine_rows({"local": True, "spark": running.engines.is_spark_started}, found),
        }
    if CONTROLLERS in names:
        rows[CONTROLLERS] = [*services.controllers.rows(), *await services.colleagues.rows(CONTROLLERS)]
    if "shards" in names:
        rows["shards"] = await environment.shard_rows(env, catalog)
    return rows


def reads_own_relations(query: BoundQuery) -> bool:
    """Whether the query reads relations of the server's own, or others whose rows have to be at hand."""
    asked = ACTIVITY | SHOWN | {"pg_sequences", METADATA}
    return any(
        isinstance(node, ir.SystemScan) and (node.schema == OWN_SCHEMA or node.name in asked)
        for node in walk(query.rel)
    )


def _calls(query: BoundQuery, name: str) -> bool:
    return any(isinstance(node, ir.Call) and node.signature.name == name for node in walk(query.rel))


async def _database_sizes(running: Running) -> Mapping[int, int]:
    databases = running.services.catalog().databases
    env, transaction = running.services.env, running.transaction
    return {
        oid: sum((await extents_of(env, transaction, catalog)).bytes.values())
        for oid, catalog in databases.items()
        if oid != WHOLE
    }


async def _elsewhere(running: Running, query: BoundQuery) -> Elsewhere:
    relations: set[str] = set()
    blocked = False
    for node in walk(query.rel):
        if isinstance(node, ir.SystemScan):
            relations.update(_OF_ALL_WORKERS.get(node.name, ()))
        elif isinstance(node, ir.Call) and node.signature.name in _ABOUT_WAITS:
            blocked = True
    if not relations and not blocked:
        return NOTHING_ELSEWHERE
    colleagues = running.services.colleagues
    asked = sorted(relations)
    rows = dict(zip(asked, await asyncio.gather(*(colleagues.rows(relation) for relation in asked)), strict=True))
    return Elsewhere(rows=rows, blocked=await blocked_elsewhere(running.services) if blocked else {})
