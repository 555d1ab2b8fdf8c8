"""What all sessions of a server process share: the environment, the engines, the committer, the plans.

`open` returns once statements can be served by the local engine; Spark is started behind and the first statement that
needs it waits. Sessions are isolated from each other by what is *not* here: there is no lock and no queue that a
statement passes, except the group committer's for those that commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from adapter.engines.engine import Engine, TableInput
from adapter.engines.local.engine import LocalEngine
from adapter.engines.router import choose
from adapter.engines.with_files import EngineWithFiles
from adapter.execution.notifications import NotificationHub
from adapter.execution.services import RETAIN_EVERY
from adapter.execution.session_state import SessionCore
from adapter.plans.constant_rows import ConstantRows
from adapter.plans.plan_cache import PlanCache
from adapter.results import StartupParameters
from adapter.sessions.options import ServerOptions, _check_spark_reaches
from adapter.sessions.scratch import Scratch
from adapter.sessions.session import Session
from adapter.settings import values as variables
from adapter.settings.values import SettingValues, number_of
from adapter.system_catalogs.relations.contents import SystemCatalogs
from adapter.transactions.group_commit import GroupCommitter
from adapter.transactions.transaction import Transaction
from adapter.wall_clock import utc_now
from planner.errors import (
    AdminShutdown,
    CannotConnectNow,
    InvalidAuthorizationSpecification,
    InvalidCatalogName,
    InvalidParameterValue,
    SqlError,
)
from planner.ir import nodes as ir
from planner.syntax.parse import Parsed, split_and_parse
from planner.types.system_relations import BuiltinRelations
from storage.catalog.model import CatalogSnapshot, Database, Role, Setting
from storage.catalog.sequences import SequenceStore
from storage.environment.environment import Environment
from storage.environment.open import open_environment
from storage.reading.outcomes import TxidStatus, committed_at, current_snapshot
from storage.stores.blob_files import BlobFiles
from storage.timestamps.csn import Csn, csn_ms
from storage.transactions.xids import Xid, XidMap

if TYPE_CHECKING:
    from adapter.engines.spark.engine import SparkEngine

log = structlog.get_logger(__name__)


MAX_BACKEND_PID = 2**31 - 1


class ServerState:
    """See the module's contract."""

    def __init__(self, env: Environment, options: ServerOptions, local_engine: Engine, scratch: Scratch) -> None:
        self.env = env
        self.options = options
        self._files = env.blob if isinstance(env.blob, BlobFiles) else None
        self._own_local_engine = local_engine if isinstance(local_engine, LocalEngine) else None
        self.local_engine = self._with_files(local_engine)
        self.catalogs = local_engine.catalogs if isinstance(local_engine, LocalEngine) else SystemCatalogs()
        self.spark_engine: SparkEngine | None = None
        self.plans = PlanCache()
        self.constant_rows = ConstantRows()
        self.committer = GroupCommitter(env)
        self.notifications = NotificationHub()
        self.system_relations = BuiltinRelations()
        self.sessions: dict[int, Session] = {}
        self.started_at = utc_now()
        self.sequence_store = SequenceStore(env.consensus, env.clock)
        self._scratch = scratch
        self._pids = itertools.count(1)
        self.xids = XidMap(visible=env.cache.upper)
        self._base_settings = _server_defaults(options.settings)
        self._warming: asyncio.Task[None] | None = None
        self._closing = False

    @staticmethod
    async def open(options: ServerOptions) -> ServerState:
        """Open the environment that `options.stores` names and get ready to serve, as one of any number of servers.

        Raises storage's errors (DataDirectoryInUse, InvalidStore, NewerFormat, ForeignEnvironment, CorruptData) and
        22023 for a bad default setting.
        """
        _server_defaults(options.settings)
        _check_spark_reaches(options)
        scratch = await asyncio.to_thread(Scratch)
        files = scratch.path / "files"
        try:
            env = await open_environment(options.stores, files=files)
            try:
                blob_root = options.stores.blob_folder or files
                return await ServerState.on(env, options, blob_root=blob_root, scratch=scratch)
            except BaseException:
                await env.close()
                raise
        except BaseException:
            await asyncio.to_thread(scratch.remove)
            raise

    @staticmethod
    async def on(
        env: Environment, options: ServerOptions, *, blob_root: Path | None = None, scratch: Scratch | None = None
    ) -> ServerState:
        """Serve an environment that is open already; `close` closes it, and removes `scratch`."""
        if scratch is None:
            scratch = await asyncio.to_thread(Scratch)
        local = LocalEngine(env, blob_root=blob_root, directory=scratch.path / "local")
        state = ServerState(env, options, local, scratch)
        if options.pruning_audit is not None:
            env.pruning.share = options.pruning_audit
        await env.oids.provide(env.catalog.current().next_oid)
        state.committer.start()
        return state

    def warm(self) -> None:
        """Start to load what the first statements would wait for: once clients are served, so that it keeps none of
        them from coming in."""
        if self._own_local_engine is not None:
            self._own_local_engine.warm()
        if self.options.warm_spark and self._warming is None:
            self._warming = asyncio.get_running_loop().create_task(self._warm_spark(), name="warm-spark")

    async def close(self) -> None:
        """Stop: sessions are told and closed, waiting commits are finished, engines stopped, the environment closed."""
        if self._closing:
            return
        self._closing = True
        for session in list(self.sessions.values()):
            session.terminate(AdminShutdown("terminating connection due to administrator command", fatal=True))
            await session.close()
        await self.committer.close()
        if self._warming is not None:
            self._warming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._warming
        await self.local_engine.close()
        if self.spark_engine is not None:
            await self.spark_engine.close()
        await self.env.close()
        await asyncio.to_thread(self._scratch.remove)

    # ------------------------------------------------------------ sessions

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
        await self.env.oracle.read_ts("catalog")
        catalog = self.env.catalog.current()
        role = next((r for r in catalog.all() if isinstance(r, Role) and r.name == startup.user), None)
        if role is None:
            raise InvalidAuthorizationSpecification(f'role "{startup.user}" does not exist', fatal=True)
        if not role.login:
            raise InvalidAuthorizationSpecification(f'role "{startup.user}" is not permitted to log in', fatal=True)
        database = next((d for d in catalog.all() if isinstance(d, Database) and d.name == startup.database), None)
        if database is None:
            raise InvalidCatalogName(f'database "{startup.database}" does not exist', fatal=True)
        values = self._session_defaults(catalog, startup, role, database)
        session = Session(
            self,
            backend_pid=self._new_pid(),
            user=startup.user,
            database=startup.database,
            values=values,
            remote_address=startup.remote_address,
            notify=notify,
            terminate=terminate,
        )
        self.sessions[session.backend_pid] = session
        self.notifications.add(session.listener)
        return session

    def _session_defaults(
        self, catalog: CatalogSnapshot, startup: StartupParameters, role: Role, database: Database
    ) -> SettingValues:
        values = self._base_settings
        stored = [
            record
            for record in catalog.all()
            if isinstance(record, Setting) and record.database in (0, database.oid) and record.role in (0, role.oid)
        ]
        for record in sorted(stored, key=lambda r: (r.role != 0, r.database != 0)):
            values = values.with_default(record.name, record.value)
        values = values.with_default("session_authorization", role.name)
        values = values.with_default("is_superuser", "on" if role.superuser else "off")
        for name, value in startup.settings:
            try:
                setting = variables.require(name)
                variables.check_changeable(setting, at_start=True)
                shown = variables.canonical_value(setting, value.strip("'") if name == "client_encoding" else value,
                                                  values.get(setting.name))  # fmt: skip
            except SqlError as error:
                error.fatal = True
                raise
            values = values.with_default(setting.name, shown)
        return values

    def _new_pid(self) -> int:
        while True:
            pid = next(self._pids) % MAX_BACKEND_PID
            if pid and pid not in self.sessions:
                return pid

    def forget_session(self, session: SessionCore) -> None:
        """A session has ended."""
        self.sessions.pop(session.backend_pid, None)
        self.notifications.remove(session.listener)

    # ------------------------------------------------------------ what statements need

    def catalog(self) -> CatalogSnapshot:
        """The newest catalog."""
        return self.env.catalog.current()

    @cached_property
    def fetch_statement(self) -> Parsed:
        """The statement that runs when the protocol executes a SQL cursor."""
        return split_and_parse("FETCH ALL FROM c")[0]

    async def provide_oids(self) -> None:
        """Make sure that a statement can be given all the oids it may want. Before every one that makes objects."""
        await self.env.oids.provide(self.env.catalog.current().next_oid)

    def allocate_oid(self) -> int:
        """An oid that no other transaction, of whatever process, has been given. After `provide_oids`."""
        return self.env.oids.take()

    async def transaction_id(self, transaction: Transaction) -> int:
        """The transaction's 64-bit id, given out when first asked for; unique in the environment."""
        if transaction.id is None:
            xid = await self.env.xids.draw()
            self.xids.begin(xid)
            transaction.id = xid
        return transaction.id

    def transaction_ended(self, transaction: Transaction, *, committed: bool, csn: Csn | None = None) -> None:
        """Note what became of a transaction that may have an id. `csn` is None when it had nothing to write."""
        if transaction.id is None:
            return
        xid, newest = Xid(transaction.id), Csn(self.env.cache.upper - 1)
        self.env.xids.ended(xid, in_doubt=transaction.in_doubt)
        if xid % RETAIN_EVERY == 0:
            self.xids.retain(self.env.leases.read_lower())
        if not self.xids.is_running(xid):
            return
        self.xids.publish(newest)
        if committed:
            self.xids.commit(xid, csn or newest)
        elif transaction.in_doubt:
            self.xids.forget(xid)
        else:
            self.xids.abort(xid)

    async def transaction_status(self, xid: int) -> TxidStatus:
        """What became of the transaction with this id, in whatever process it ran. 22023 for one not given out yet."""
        if self.xids.is_running(Xid(xid)):
            return "in progress"
        known = self.xids.finished(Xid(xid))
        if known is not None:
            return "aborted" if known.committed_at is None else "committed"
        try:
            return await self.env.txid_status(xid)
        except ValueError as error:
            raise InvalidParameterValue(f"transaction ID {xid} is in the future") from error

    async def current_snapshot(self, transaction: Transaction) -> str:
        """PostgreSQL's form of the snapshot that the statement reads at. Stays the same as long as that does."""
        assert transaction.snapshot is not None
        if transaction.pg_snapshot is None or transaction.pg_snapshot[0] != transaction.snapshot:
            shown = str(await current_snapshot(self.env, transaction.snapshot))
            transaction.pg_snapshot = (transaction.snapshot, shown)
        return transaction.pg_snapshot[1]

    def committed_at(self, xid: int) -> datetime | None:
        """When the transaction with this id committed, by its CSN; None when it did not or that is forgotten."""
        csn = committed_at(self.env, xid)
        return None if csn is None else datetime.fromtimestamp(csn_ms(csn) / 1000, UTC)

    def choose_engine(
        self, query: ir.BoundQuery, tables: Mapping[int, TableInput], values: Mapping[str, str]
    ) -> tuple[Engine, str]:
        """The engine that runs `query`, and why. Raises 0A000 when none can."""
        route = choose(
            query,
            tables,
            engine=values["engine"],
            fast_path_limit=number_of("fast_path_limit", values["fast_path_limit"]) * 1024,
            spark=self._with_files(self._spark()),
            local=self.local_engine,
        )
        return route.engine, route.reason

    def _with_files(self, engine: Engine) -> Engine:
        """`engine`, with the objects that it reads fetched first where they are not files anyway."""
        return engine if self._files is None else EngineWithFiles(engine, self._files)

    def _spark(self) -> SparkEngine:
        if self.spark_engine is None:
            from adapter.engines.spark.engine import SparkEngine

            self.spark_engine = SparkEngine(
                self.env,
                master=self.options.spark_master,
                remote=self.options.spark_remote,
                conf=self.options.spark_conf,
                directory=self._scratch.path / "spark",
            )
        return self.spark_engine

    async def _warm_spark(self) -> None:
        """Start Spark behind; a failure is reported now and again to the first statement that needs it."""
        try:
            await self._spark().warm()
        except SqlError as error:
            log.warning("Spark could not be started", error=error.message)


def _server_defaults(settings: Mapping[str, str]) -> SettingValues:
    values = SettingValues()
    for name, value in settings.items():
        setting = variables.require(name)
        values = values.with_default(setting.name, variables.canonical_value(setting, value))
    return values
