"""A server process: it opens the environment, makes what its sessions share, opens the sessions, and stops them all.

`open` returns once statements can be served by the local engine; Spark is started behind and the first statement that
needs it waits. What sessions share is in three parts, each given to those who need it: `Services` (the environment and
what is kept for all), `Engines`, and the `SessionRegistry`. Sessions wait for each other only where their
transactions' locks meet, and in the group committer's queue when they commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import structlog

from adapter.access.logins import Login, is_guarded
from adapter.access.membership import is_member_of
from adapter.access.privileges import Rights
from adapter.access.roles import role_called
from adapter.controllers.iceberg import TableKeeper
from adapter.controllers.views import ViewKeeper
from adapter.engines.engines import Engines
from adapter.execution.controllers import STATISTICS, follow
from adapter.execution.services import Services
from adapter.execution.session_registry import SessionRegistry
from adapter.execution.session_state import SessionState
from adapter.plans.key_indexes import ShardIndexes
from adapter.publishing.pushing import Pusher
from adapter.queries.session_facts import own_rows
from adapter.results import StartupParameters
from adapter.sessions.answers import answer_colleagues, answer_servers
from adapter.sessions.changes_at_once import Lines
from adapter.sessions.memory import MemoryKeeper
from adapter.sessions.options import ServerOptions, check_spark_reaches
from adapter.sessions.scratch import Scratch
from adapter.sessions.session import Session
from adapter.sessions.statement_life import StatementLife
from adapter.sessions.upgrade import give_password, upgrade
from adapter.settings.identity import Identity
from adapter.settings.server_settings import ServerSettings
from adapter.settings.values import SettingValues, canonical_value, check_changeable, require_setting, shared
from adapter.store_errors import sql_error
from adapter.wall_clock import utc_now
from adapter.workers.colleagues import Colleagues
from planner.common_errors import missing_database, shut_down
from planner.errors import (
    CannotConnectNow,
    InsufficientPrivilege,
    InvalidAuthorizationSpecification,
    InvalidParameterValue,
    ObjectNotInPrerequisiteState,
    SqlError,
    TooManyConnections,
)
from storage.catalog.access import Role
from storage.catalog.model import CatalogSnapshot, Database, Setting
from storage.environment.environment import Environment
from storage.environment.named_stores import open_environment
from storage.errors import StorageError
from storage.shards import set_aside

log = structlog.get_logger("adapter")


class Server:
    """See the module's contract."""

    def __init__(
        self, env: Environment, services: Services, engines: Engines, options: ServerOptions, scratch: Scratch
    ) -> None:
        self.env = env
        self.services = services
        self._loading: asyncio.Task[None] | None = None
        self.engines = engines
        self.colleagues = services.colleagues
        self.sessions = SessionRegistry(self.colleagues)
        self._lines = Lines()
        self._scratch = scratch
        self._warms_spark = options.warm_spark
        self.memory = MemoryKeeper(env, engines, self.sessions)
        self._views = ViewKeeper(env, self._open_own_session, services.controllers.add("views"))
        pusher = Pusher(env, services.publishing, options.iceberg_catalog) if options.iceberg_catalog else None
        self._tables = TableKeeper(env, services.publishing, services.controllers.add("publishing"), pusher)
        self._closing = False
        self._following: asyncio.Task[None] | None = None

    @staticmethod
    async def open(options: ServerOptions) -> Server:
        """Open the environment that `options.stores` names and get ready to serve, as one of any number of servers.

        Raises storage's errors (DataDirectoryInUse, InvalidStore, NewerFormat, ForeignEnvironment, CorruptData) and
        22023 for a bad default setting.
        """
        ServerSettings(options.settings, options.settings_of_file, options.shown)
        check_spark_reaches(options)
        scratch = await asyncio.to_thread(Scratch)
        # Before the first table is looked at.
        set_aside.use_scratch(scratch.path)
        files = scratch.path / "files"
        try:
            memory = None if options.worker is None else options.worker.memory
            env = await open_environment(options.stores, files=files, host=memory, places=options.places())
            try:
                blob_root = options.stores.blob_folder or files
                return await Server.on(env, options, blob_root=blob_root, scratch=scratch)
            except BaseException:
                await env.close()
                raise
        except BaseException:
            await asyncio.to_thread(scratch.remove)
            raise

    @staticmethod
    async def on(
        env: Environment, options: ServerOptions, *, blob_root: Path | None = None, scratch: Scratch | None = None
    ) -> Server:
        """Serve an environment that is open already; `close` closes it, and removes `scratch`."""
        if scratch is None:
            scratch = await asyncio.to_thread(Scratch)
        services = Services(
            env,
            Colleagues(options.worker),
            places=options.places(),
            jdbc_urls=options.jdbc_urls,
            settings=ServerSettings(options.settings, options.settings_of_file, options.shown),
            copy_codec=options.copy_codec,
            scratch=scratch.path,
        )
        engines = Engines(
            env,
            blob_root=blob_root,
            scratch=scratch.path,
            spark_master=options.spark_master,
            spark_remote=options.spark_remote,
            spark_conf=options.spark_conf,
            worker=options.worker,
            place=options.executors_place(),
            folders=options.places().folders,
            admission=services.admission,
        )
        server = Server(env, services, engines, options, scratch)
        env.keys.use_scratch(scratch.path)
        indexes = ShardIndexes(env.catalog, lambda: engines.row_values)
        env.keys.provide(indexes, indexes.changed)
        if options.pruning_audit is not None:
            env.pruning.share = options.pruning_audit
        await server.services.provide_oids()
        server.services.prepared.start()
        server.services.committer.start()
        server.memory.start()
        await upgrade(server.services)
        services.settings.start(env.catalog.current())
        if server.colleagues.mesh is not None:
            answer_colleagues(server.colleagues.mesh, server.services, server.sessions)
            await server.colleagues.mesh.open()
        if server.colleagues.servers is not None:
            answer_servers(server.colleagues.servers, server.services, server.sessions)
            await server.colleagues.servers.start()
        await server.services.other_servers.start()
        server.services.statistics.max_entries = int(services.settings.values["pg_stat_statements.max"])
        counting = server.services.controllers.add(STATISTICS)
        counting.start(partial(follow, counting, env.catalog, server.services.statistics.follow))
        server._views.start()
        server._tables.start()
        return server

    def use_settings(self, given: Mapping[str, str], *, of_file: bool, shown: Mapping[str, str]) -> None:
        """Let these (`ServerOptions.settings`, ...) and what ALTER SYSTEM has stored be the defaults of sessions, also
        of those that run. Raises 42704 and 22023, and changes nothing."""
        self._change_defaults((given, of_file, shown))
        if self._following is None or self._following.done():
            # What another worker or server has stored just now.
            self._following = asyncio.get_running_loop().create_task(self._follow_settings(), name="settings")

    async def _follow_settings(self) -> None:
        try:
            await self._newest_catalog()
        except SqlError as error:
            log.warning("what ALTER SYSTEM has stored was not read again", error=error.message)
        else:
            self._change_defaults(None)

    def _change_defaults(self, given: tuple[Mapping[str, str], bool, Mapping[str, str]] | None) -> None:
        changed = self.services.settings.use(self.env.catalog.current(), given)
        if changed:
            for backend in self.sessions.all():
                backend.change_defaults(changed)

    def warm(self) -> None:
        """Start to load what the first statements would wait for: once clients are served, so that it keeps none of
        them from coming in."""
        self.engines.warm(spark=self._warms_spark)
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(asyncio.to_thread(_load_definitions), name="load")

    async def close(self) -> None:
        """Stop: sessions are told and closed, waiting commits are finished, engines stopped, the environment closed."""
        if self._closing:
            return
        self._closing = True
        if self._following is not None:
            await self._following
        await self._views.stop()
        await self.services.controllers.stop()
        await self.services.statistics.stop()
        await self._tables.stop()
        if self.colleagues.mesh is not None:
            await self.colleagues.mesh.close()
        if self.colleagues.servers is not None:
            await self.colleagues.servers.close()
        for backend in self.sessions.all():
            backend.terminate(shut_down())
            await backend.close()
        if self.services.locks.between_workers is not None:
            await self.services.locks.between_workers.close()
        await self.services.between_servers.close()
        await self.services.other_servers.close()
        if self._loading is not None:
            await self._loading
        await self.memory.stop()
        await self.services.committer.close()
        await self.engines.close()
        await asyncio.to_thread(self.services.plans.close)
        await asyncio.to_thread(self.services.file_threads.close)
        await self.env.close()
        await asyncio.to_thread(self._scratch.remove)

    async def login(self, user: str) -> Login:
        """What the newest catalog says of a role as which a client wants to come in."""
        if self._closing:
            raise CannotConnectNow("the database system is shutting down", fatal=True)
        catalog = await self._newest_catalog()
        now_us = int(utc_now().timestamp() * 1_000_000)
        return Login(user=user, role=role_called(catalog, user), catalog=catalog, now_us=now_us)

    async def _newest_catalog(self) -> CatalogSnapshot:
        """The newest catalog of all servers. Raises (fatal) what the store says."""
        try:
            await self.env.oracle.read_ts("catalog")
        except StorageError as error:
            failure = sql_error(error)
            failure.fatal = True
            raise failure from error
        return self.env.catalog.current()

    @property
    def is_guarded(self) -> bool:
        """Whether the environment's first superuser has a password."""
        return is_guarded(self.env.catalog.current())

    async def give_first_password(self, password: str) -> bool:
        """Give the first superuser this password if it has none; whether it had none. ValueError: it cannot be had."""
        return await give_password(self.services, password)

    async def open_session(
        self,
        startup: StartupParameters,
        notify: Callable[[int, str, str], None],
        terminate: Callable[[SqlError], None],
    ) -> Session:
        """A session for a client that has been authenticated.

        Raises (fatal) 28000 for an unknown role or one without LOGIN, 3D000 for an unknown database, 42704 and 22023
        for start-up settings, 57P03 while the server stops.
        """
        if self._closing:
            raise CannotConnectNow("the database system is shutting down", fatal=True)
        catalog = await self._newest_catalog()
        role = role_called(catalog, startup.user)
        if role is None:
            raise InvalidAuthorizationSpecification(f'role "{startup.user}" does not exist', fatal=True)
        if not role.login:
            raise InvalidAuthorizationSpecification(f'role "{startup.user}" is not permitted to log in', fatal=True)
        database = next((d for d in catalog.all() if isinstance(d, Database) and d.name == startup.database), None)
        if database is None:
            raise missing_database(startup.database, fatal=True)
        await self._admit(database, role)
        state = SessionState(
            self.services,
            backend_pid=self.sessions.new_pid(),
            user=startup.user,
            database=startup.database,
            database_oid=database.oid,
            values=shared(self._session_defaults(catalog, startup, role, database)),
            remote_address=startup.remote_address,
            server_address=startup.server_address,
            tls=startup.tls,
        )
        life = StatementLife(state, engines=self.engines, sessions=self.sessions, notify=notify, terminate=terminate)
        self.sessions.add(life)
        self.services.notifications.add(state.listener, life.notification_arrived)
        life.arm()
        return Session(life, self._lines)

    async def _open_own_session(self, startup: StartupParameters) -> Session:
        """A session for work of the server's own. Raises as `open_session`."""
        return await self.open_session(startup, _nothing, _nothing)

    async def _admit(self, database: Database, role: Role) -> None:
        """Raises (fatal) 55000 for a database that takes no connections, 53300 when the role or the database has as
        many as it may have."""
        if not database.allows_connections:
            raise ObjectNotInPrerequisiteState(
                f'database "{database.name}" is not currently accepting connections', fatal=True
            )
        if not Rights(self.services.env.catalog.current(database.oid), role.oid).may("d", database.oid, "c"):
            raise InsufficientPrivilege(
                f'permission denied for database "{database.name}"',
                detail="User does not have CONNECT privilege.",
                fatal=True,
            )
        if role.superuser or (role.connection_limit < 0 and database.connection_limit < 0):
            return
        rows = [
            *own_rows("pg_stat_activity", self.sessions, self.services),
            *await self.colleagues.rows("pg_stat_activity"),
        ]
        if 0 <= role.connection_limit <= sum(row["usesysid"] == role.oid for row in rows):
            raise TooManyConnections(f'too many connections for role "{role.name}"', fatal=True)
        if 0 <= database.connection_limit <= sum(row["datid"] == database.oid for row in rows):
            raise TooManyConnections(f'too many connections for database "{database.name}"', fatal=True)

    def _session_defaults(
        self, catalog: CatalogSnapshot, startup: StartupParameters, role: Role, database: Database
    ) -> SettingValues:
        identity = Identity(authenticated=role.oid, session=role.oid)
        values = replace(self.services.settings.values, session_identity=identity)
        stored = [
            record
            for record in catalog.all()
            if isinstance(record, Setting) and record.database in (0, database.oid) and record.role in (0, role.oid)
        ]
        for record in sorted(stored, key=lambda r: (r.role != 0, r.database != 0)):
            of_role = "database user" if record.database else "user"
            values = values.with_default(record.name, record.value, of_role if record.role else "database")
        values = values.with_default("session_authorization", role.name, "override")
        values = values.with_default("is_superuser", "on" if role.superuser else "off", "override")
        for name, value in startup.settings:
            try:
                setting = require_setting(name)
                check_changeable(setting, at_start=True)
                shown = canonical_value(setting, value.strip("'") if name == "client_encoding" else value,
                                                  values.get(setting.name))  # fmt: skip
            except SqlError as error:
                error.fatal = True
                raise
            values = values.with_default(setting.name, shown, "client")
        return _with_role(catalog, values)


def _with_role(catalog: CatalogSnapshot, values: SettingValues) -> SettingValues:
    """`values` acting as the role that they say. Raises (fatal) 22023 and 42501."""
    name, identity = values["role"], values.identity
    if name == "none":
        return values
    role = role_called(catalog, name)
    if role is None:
        raise InvalidParameterValue(f'role "{name}" does not exist', fatal=True)
    if not is_member_of(catalog, identity.session, role.oid):
        raise InsufficientPrivilege(f'permission denied to set role "{name}"', fatal=True)
    values = replace(values, session_identity=identity.with_role(role.oid))
    return values.with_default("is_superuser", "on" if role.superuser else "off", "override")


def _nothing(*_: object) -> None:
    """A session without a client has nobody to tell."""


def _load_definitions() -> None:
    """Load what definitions need, so that the first one does not wait for it."""
    from adapter.definitions import dispatch as _  # noqa: F401 - loaded, not used
    from planner.utility import statements as _statements  # noqa: F401
