"""What running statements take from their server process: the environment with its catalog, oids and transaction ids,
and what is kept once for all sessions (plans, commits that wait, listeners).

One `Services` serves all sessions of a process. It knows no session: what needs a list of them gets a
`SessionRegistry` besides. Everything here belongs to the event loop.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from adapter.admission.admission import Admission
from adapter.execution.controllers import Controllers
from adapter.execution.notifications import NotificationHub
from adapter.lake.copy_codec import CopyCodec
from adapter.lake.foreign_files import ForeignFiles
from adapter.lake.scratch import LakeScratch
from adapter.plans.computed.constant_rows import ConstantRows
from adapter.plans.computed.python_constants import PythonConstants
from adapter.plans.lifted_constants import Templates
from adapter.plans.plan_cache import PlanCache
from adapter.publishing.service import Publishing
from adapter.settings.server_settings import ServerSettings
from adapter.spilling.temporary_files import TemporaryFileCounts
from adapter.statistics.activity import Activity
from adapter.statistics.statements import StatementStatistics
from adapter.threads import Workers
from adapter.transactions.group_commit import GroupCommitter
from adapter.transactions.locks.between_workers import BetweenWorkers
from adapter.transactions.locks.lock_table import LockTable
from adapter.transactions.locks.servers.between_servers import BetweenServers
from adapter.transactions.locks.written_keys import WrittenKeys
from adapter.transactions.pending import State
from adapter.transactions.row_versions import RowVersions
from adapter.transactions.temporary import TemporarySpace
from adapter.transactions.transaction import Transaction
from adapter.transactions.two_phase.prepared import PreparedTransactions
from adapter.wall_clock import utc_now
from adapter.workers.colleagues import Colleagues
from adapter.workers.other_servers import OtherServers
from adapter.workers.questions import ServerQuestions
from planner.errors import InvalidParameterValue
from planner.syntax.parse import Parsed, split_and_parse
from planner.types.system_relations import BuiltinRelations
from storage.catalog.block_files import BlockFiles
from storage.catalog.model import CatalogSnapshot
from storage.catalog.sequences import SequenceStore
from storage.catalog.temporary import FIRST_TEMPORARY_OID, LAST_TEMPORARY_OID
from storage.environment.environment import Environment
from storage.lake.places import Places
from storage.lake.tables import LakeTables
from storage.reading.outcomes import TxidStatus
from storage.timestamps.csn import Csn, csn_ms
from storage.transactions.txns_state import Prepared
from storage.transactions.xids import Xid, XidMap

TEMPORARY_OIDS = LAST_TEMPORARY_OID - FIRST_TEMPORARY_OID


FILE_THREADS = 16
"""Statements whose files are looked at, copied or written at once; more wait."""


class Services:
    """See the module's contract."""

    def __init__(
        self,
        env: Environment,
        colleagues: Colleagues | None = None,
        *,
        places: Places | None = None,
        jdbc_urls: Sequence[str] = (),
        copy_codec: CopyCodec | None = None,
        scratch: Path | None = None,
        settings: ServerSettings | None = None,
    ) -> None:
        """`scratch` is a private folder of this process, for temporary files; None: the system's one."""
        self.env = env
        self.lake = LakeTables(places or Places())
        self.foreign_files = ForeignFiles(self.lake, jdbc_urls)
        self.file_threads = Workers(FILE_THREADS, "files")
        self.copy_codec = copy_codec
        self.settings = settings or ServerSettings({})
        self.scratch = scratch
        self.lake_scratch = LakeScratch(scratch)
        self.publishing = Publishing(env)
        self.admission = Admission()
        self.temporary_file_counts = TemporaryFileCounts()
        self.colleagues = colleagues or Colleagues()
        self.plans = PlanCache()
        self.templates = Templates(self.plans)
        self.constant_rows = ConstantRows()
        self.python_constants = PythonConstants()
        place = self.colleagues.place
        self.controllers = Controllers(env, 0 if place is None else place.memory.own)
        between = None if place is None else BetweenWorkers.at(place, self.colleagues)
        if between is not None:
            between.catch_up = lambda: env.oracle.read_ts("user")
        self.locks = LockTable(env.clock, between)
        self.between_servers = BetweenServers(
            consensus=env.consensus, clock=env.clock, peers=env.peers, process=env.process, locks=self.locks
        )
        self.written_keys = WrittenKeys(self.locks)
        self.row_versions = RowVersions(self.locks)
        self.prepared = PreparedTransactions(env, self.locks, self.prepared_ended)
        self.committer = GroupCommitter(env, self.row_versions, self.prepared)
        self.locks.in_flight, self.locks.moved = self.committer.in_flight, self.committer.moved
        self.notifications = NotificationHub(self.colleagues)
        self.statistics = StatementStatistics()
        self.activity = Activity()
        self.other_servers = self.notifications.other_servers = OtherServers(
            consensus=env.consensus,
            clock=env.clock,
            peers=env.peers,
            process=env.process,
            deliver=self.notifications.deliver,
        )
        self.colleagues.servers = ServerQuestions(
            consensus=env.consensus,
            clock=env.clock,
            peers=env.peers,
            process=env.process,
            host=None if place is None else place.memory.name,
        )
        self.system_relations = BuiltinRelations()
        blocks = None if place is None else BlockFiles(place.folder / "sequences", env.clock)
        self.sequence_store = SequenceStore(env.consensus, env.clock, blocks)
        self.started_at = utc_now()
        self.reload: Callable[[], None] = lambda: None
        """Has the server read its configuration again."""
        self.refreshes: Counter[str] = Counter()
        """Refreshes of materialized views by what they did, and below how long they took together (seconds)."""
        self.refresh_seconds: dict[str, float] = defaultdict(float)
        self.statement_retries = 0
        """Statements that were run again, because others had committed in between."""
        self.metric_rows: Callable[[], list[Mapping[str, Any]]] = list
        """What this process has counted, where anybody watches."""
        self.authentication_rows: Callable[[str], Sequence[Mapping[str, Any]]] = lambda relation: ()
        """The rows of pg_hba_file_rules and pg_ident_file_mappings, by column name: what the server's files say."""
        self._temporary_oid = FIRST_TEMPORARY_OID
        self._temporary_spaces: set[int] = set()
        """The numbers of sessions that have temporary objects."""
        self._xids = XidMap()

    def note_refresh(self, how: str, seconds: float) -> None:
        """A materialized view has been refreshed; its transaction may still fail."""
        self.refreshes[how] += 1
        self.refresh_seconds[how] += seconds

    def catalog(self) -> CatalogSnapshot:
        """The newest catalog that this process knows of."""
        return self.env.catalog.current()

    @cached_property
    def fetch_statement(self) -> Parsed:
        """The statement that runs when the protocol executes a SQL cursor."""
        return split_and_parse("FETCH ALL FROM c")[0]

    # ------------------------------------------------------------ oids

    async def provide_oids(self) -> None:
        """Make sure that a statement can be given all the oids it may want. Before every one that makes objects."""
        await self.env.oids.provide(self.env.catalog.current().next_oid)

    def allocate_oid(self) -> int:
        """An oid that no other transaction, of whatever process, has been given. After `provide_oids`."""
        return self.env.oids.take()

    def temporary_oid(self) -> int:
        """An oid for a temporary object. They are given out in turn, and again after a hundred million."""
        self._temporary_oid = FIRST_TEMPORARY_OID + (self._temporary_oid - FIRST_TEMPORARY_OID) % TEMPORARY_OIDS + 1
        return self._temporary_oid

    def new_temporary_space(self) -> TemporarySpace:
        """A place for the temporary objects of a session, with the lowest number that no other session of this process
        has. `close_temporary_space` when the session ends."""
        number = next(number for number in count(1) if number not in self._temporary_spaces)
        self._temporary_spaces.add(number)
        return TemporarySpace(number, self.temporary_oid(), self.env.parts)

    def close_temporary_space(self, space: TemporarySpace) -> None:
        """The session is over, and its temporary objects with it."""
        space.close()
        self._temporary_spaces.discard(space.number)

    # ------------------------------------------------------------ transaction ids

    async def transaction_id(self, transaction: Transaction) -> int:
        """The transaction's 64-bit id, given out when first asked for; unique in the environment."""
        if transaction.id is None:
            xid = await self.env.xids.draw()
            self._xids.begin(xid)
            transaction.id = xid
        return transaction.id

    def transaction_ended(self, transaction: Transaction, csn: Csn | None = None) -> None:
        """Note what became of a transaction that may have an id. `csn` is None when it committed no writes."""
        if transaction.id is None:
            return
        xid, newest = Xid(transaction.id), Csn(self.env.cache.upper - 1)
        self.env.xids.ended(xid, in_doubt=transaction.state is State.IN_DOUBT)
        if not self._xids.is_running(xid):
            return
        if transaction.state is State.COMMITTED:
            self._xids.note_committed(xid, csn or newest)
        elif transaction.state is State.IN_DOUBT:
            self._xids.forget(xid)
        else:
            self._xids.note_aborted(xid)

    def prepared_ended(self, record: Prepared) -> None:
        """Note what became of a prepared transaction, if its id is one of this process's."""
        xid = Xid(record.xid)
        self.env.xids.ended(xid, in_doubt=False)
        if not self._xids.is_running(xid):
            return
        committed_at = self.env.cache.state.outcomes.get(xid)
        if committed_at is None:
            self._xids.note_aborted(xid)
        else:
            self._xids.note_committed(xid, committed_at)

    async def transaction_status(self, xid: int) -> TxidStatus:
        """What became of the transaction with this id, in whatever process it ran. 22023 for one not given out yet."""
        if self._xids.is_running(Xid(xid)):
            return "in progress"
        known = self._xids.finished(Xid(xid))
        if known is not None:
            return "aborted" if known.committed_at is None else "committed"
        try:
            return await self.env.outcomes.status(xid)
        except ValueError as error:
            raise InvalidParameterValue(f"transaction ID {xid} is in the future") from error

    async def current_snapshot(self, transaction: Transaction) -> str:
        """PostgreSQL's form of the snapshot that the statement reads at. Stays the same as long as that does."""
        assert transaction.snapshot is not None
        csn = transaction.snapshot.csn
        if transaction.pg_snapshot is None or transaction.pg_snapshot[0] != csn:
            transaction.pg_snapshot = (csn, str(await self.env.outcomes.current_snapshot(csn)))
        return transaction.pg_snapshot[1]

    def committed_at(self, xid: int) -> datetime | None:
        """When the transaction with this id committed, by its CSN; None when it did not or that is forgotten."""
        csn = self.env.outcomes.committed_at(xid)
        return None if csn is None else datetime.fromtimestamp(csn_ms(csn) / 1000, UTC)
