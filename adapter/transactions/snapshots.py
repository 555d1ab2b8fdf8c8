"""From a bound query to what an engine reads: the snapshots of its tables, pruned, with the transaction's own parts.

`resolve` takes each table's parts at the transaction's snapshot, drops those that cannot hold a row the query needs,
adds the parts that the transaction has buffered itself, and records the read for validation. It costs no store
operation: everything is in memory.

`exported` and `imported` let transactions of several sessions read at one snapshot.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from adapter.engines.common.engine import TableInput
from adapter.plans.predicates import Conjunction, ScanTemplate, bind_templates
from adapter.store_errors import CONCURRENT_DDL, serialization_failure, too_old
from adapter.transactions.commit_request import TableRead
from adapter.transactions.parts_ahead import parts_ahead
from adapter.transactions.pending import Snapshot, State
from adapter.transactions.transaction import Transaction
from planner.errors import ActiveSqlTransaction, FeatureNotSupported, InternalError, InvalidParameterValue
from planner.ir import nodes as ir
from storage.catalog.model import CatalogSnapshot, Relation
from storage.catalog.temporary import FIRST_TEMPORARY_OID
from storage.errors import AsOfNotReadable, UnknownShard
from storage.ids import ShardId
from storage.shards.packed_parts import PackedParts, PartSequence
from storage.shards.parts import Part, may_match
from storage.shards.whole_deletions import remaining
from storage.timestamps.csn import Csn
from storage.upkeep.pruning_audit import LeftOut

if TYPE_CHECKING:
    from storage.environment.environment import Environment


NO_TABLES: Mapping[int, TableInput] = MappingProxyType({})

SMALL_ROWS = 8192
"""Tables of so many inline rows are read whole."""


class ResolvedTables(Struct, frozen=True, kw_only=True):
    """What a query reads: `inputs` by relation oid, how many parts each table had before pruning, and what its scans
    need of each."""

    inputs: Mapping[int, TableInput]
    total_parts: Mapping[int, int]
    needed: Mapping[int, tuple[Conjunction, ...]] = {}

    @property
    def are_small(self) -> bool:
        """Whether all tables are."""
        return all(map(is_small, self.inputs.values()))

    @property
    def bytes(self) -> int:
        """Stored size of all parts that are left."""
        return sum(table.bytes for table in self.inputs.values())


def is_small(table: TableInput) -> bool:
    """Whether a table is read whole at no cost that matters."""
    return table.rows <= SMALL_ROWS and all(part.inline is not None for part in table.inserts)


async def resolve(
    env: Environment,
    transaction: Transaction,
    catalog: CatalogSnapshot,
    relations: frozenset[int],
    templates: Sequence[ScanTemplate],
    params: Sequence[ir.Literal],
    *,
    record: bool = True,
    always: bool = False,
    ahead: bool = False,
    past: Mapping[int, TableInput] = NO_TABLES,
) -> ResolvedTables:
    """The inputs of a query that reads `relations`, those of `past` as given; `record` False for EXPLAIN, which reads
    no rows. With `always` the read is validated at every isolation level.
    `ahead`: with READ UNCOMMITTED, also rows that are not durable yet.

    Raises 40001 when a table was dropped, or its history folded, behind the snapshot.
    """
    inputs: dict[int, TableInput] = {}
    totals: dict[int, int] = {}
    conjunctions = bind_templates(templates, params) if templates else {}
    for oid in relations:
        then = past.get(oid)
        relation = catalog.get(oid) if then is None else then.relation
        if not isinstance(relation, Relation) or relation.shard is None:
            continue
        snapshot = transaction.snapshot
        if snapshot is None:
            raise InternalError("a table is read without a snapshot")
        needed = conjunctions.get(oid, ((),))
        own = oid >= FIRST_TEMPORARY_OID or relation.shard in transaction.created_shards
        if then is None:
            inserts, deletes = await _parts(env, transaction, relation.shard, None if own else snapshot.csn)
        else:
            inserts, deletes = then.inserts, then.deletes
        if ahead and snapshot.ahead and not own and then is None:
            beyond = parts_ahead(snapshot.ahead, relation.shard)
            inserts += tuple(part for part in beyond if part.kind == "insert")
            deletes += tuple(part for part in beyond if part.kind == "delete")
        totals[oid] = len(inserts)
        if isinstance(inserts, PackedParts):
            kept = inserts.where(needed)
            if len(kept) < len(inserts):
                await env.pruning.left_out(LeftOut(inserts, kept), needed)
        elif not all(needed):
            # One of the scans needs every row.
            kept = inserts
        else:
            kept = tuple(part for part in inserts if may_match(part, needed))
            if len(kept) < len(inserts):
                await env.pruning.left_out([part for part in inserts if not may_match(part, needed)], needed)
        inputs[oid] = TableInput(
            relation=relation,
            inserts=kept,
            deletes=_hitting(deletes, kept),
            bytes=sum(part.bytes for part in kept),
            rows=sum(part.rows for part in kept),
        )
        if record and not own and then is None:
            read = TableRead(relation_oid=oid, shard=relation.shard, as_of=snapshot.csn, conjunctions=needed)
            transaction.record_read(read, always=always)
    return ResolvedTables(inputs=inputs, total_parts=totals, needed=conjunctions)


async def _parts(
    env: Environment, transaction: Transaction, shard: ShardId, as_of: Csn | None
) -> tuple[PartSequence, tuple[Part, ...]]:
    """What inserts and what deletes rows of `shard` up to `as_of` (None: it is the transaction's own shard), with the
    transaction's own parts behind."""
    inserts: PartSequence = ()
    deletes: tuple[Part, ...] = ()
    hold = transaction.hold
    if as_of is not None:
        try:
            if transaction.looks_back or (hold is not None and hold.moved):
                transaction.held.append(await env.leases.hold((shard,), as_of))
            snapshot = await env.reader.snapshot(shard, as_of)
        except (UnknownShard, AsOfNotReadable) as error:
            if transaction.looks_back or (hold is not None and hold.moved):
                raise too_old(error) from error
            raise serialization_failure(CONCURRENT_DDL) from error
        inserts, deletes = snapshot.inserts, snapshot.deletes
    own = await own_parts(transaction, shard)
    if own:
        inserts += tuple(part for part in own if part.kind == "insert")
        deletes += tuple(part for part in own if part.kind == "delete")
        return remaining(inserts, deletes)
    return inserts, deletes


def _hitting(deletes: Sequence[Part], inserts: Sequence[Part]) -> tuple[Part, ...]:
    """The delete parts that may name a row of one of the insert parts."""
    if not deletes or not inserts:
        return ()
    # Merged into disjoint ranges, so that each delete part is one search: both may be many between compactions.
    firsts: list[int] = []
    lasts: list[int] = []
    for first, last in sorted(part.row_id_bounds for part in inserts):
        if lasts and first <= lasts[-1] + 1:
            lasts[-1] = max(lasts[-1], last)
        else:
            firsts.append(first)
            lasts.append(last)
    hitting = []
    for part in deletes:
        low, high = part.row_id_bounds
        place = bisect.bisect_left(lasts, low)
        if place < len(firsts) and firsts[place] <= high:
            hitting.append(part)
    return tuple(hitting)


async def own_parts(
    transaction: Transaction, shard: ShardId, *, newest: bool = False, inserts: bool = True
) -> tuple[Part, ...]:
    """The transaction's own inserts and deletes in `shard` that the statement which runs sees; `newest`: all; without
    `inserts`: only the deletes."""
    before = None if newest else transaction.own_before.get(shard)
    txn = transaction.txn if shard[0] == "s" else transaction.own_rows(shard)
    if before is not None or txn is None:
        return before or ()
    if not inserts:
        if not txn.deletes_from(shard):
            return ()
        return tuple([part for part in await own_parts(transaction, shard, newest=newest) if part.kind == "delete"])
    await txn.make_local_parts(shard)
    return txn.local_parts(shard)


@asynccontextmanager
async def reading_as_before(transaction: Transaction, shards: Iterable[ShardId]) -> AsyncIterator[None]:
    """Within it, what is written to `shards` is not seen: a statement does not see its own changes."""
    outer = transaction.own_before
    transaction.own_before = {**outer, **{shard: await own_parts(transaction, shard) for shard in shards}}
    try:
        yield
    finally:
        transaction.own_before = outer


@contextmanager
def seeing_own(transaction: Transaction) -> Iterator[None]:
    """Within it, all that the transaction has written is seen: also what the statement has that calls a function, by
    the statements of that function."""
    outer = transaction.own_before
    transaction.own_before = {}
    try:
        yield
    finally:
        transaction.own_before = outer


# ---------------------------------------------------------------- snapshots for others

_NAME = re.compile(r"([0-9A-F]{8})-([0-9A-F]{8})-[0-9]+")


async def exported(env: Environment, transaction: Transaction) -> str:
    """The name by which other sessions, on whatever server, may read at the transaction's snapshot as long as it runs
    (pg_export_snapshot): the CSN and a number. Raises 25001 in a subtransaction."""
    if transaction.savepoint_depth:
        raise ActiveSqlTransaction("cannot export a snapshot from a subtransaction")
    if transaction.snapshot is None or transaction.snapshot.provisional:
        raise InternalError("a snapshot is exported that nobody may read at")
    csn = transaction.snapshot.csn
    transaction.exported.append(await env.leases.hold((), csn))
    return f"{csn >> 32:08X}-{csn & 0xFFFFFFFF:08X}-{len(transaction.exported)}"


async def imported(env: Environment, transaction: Transaction, name: str) -> None:
    """Let the transaction read at the snapshot that another has exported under `name` (SET TRANSACTION SNAPSHOT).

    Raises 25001 after the first query, 0A000 at a level that takes snapshots by itself, and 22023 for a name of none,
    or of one whose history nobody holds any more.
    """
    if transaction.state is not State.NEW:
        raise ActiveSqlTransaction("SET TRANSACTION SNAPSHOT must be called before any query")
    if not transaction.isolation.keeps_snapshot:
        raise FeatureNotSupported(
            "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ"
        )
    invalid = InvalidParameterValue(f'invalid snapshot identifier: "{name}"')
    found = _NAME.fullmatch(name)
    if found is None:
        raise invalid
    csn = Csn(int(found[1], 16) << 32 | int(found[2], 16))
    if csn > await env.oracle.read_ts("user"):
        raise invalid
    try:
        whole = await env.catalog.snapshot_at(csn)
        catalog = whole.databases.get(transaction.locks.owner.database_oid)
        if catalog is None:
            raise invalid
        shards = [record.shard for record in catalog.all() if isinstance(record, Relation) and record.shard is not None]
        # NOTE: before the own hold, which keeps what it names.
        if csn < env.leases.since_limit():
            raise invalid
        hold = await env.leases.hold(shards, csn)
    except (AsOfNotReadable, UnknownShard) as error:
        raise invalid from error
    transaction.snapshot, transaction.first_read_at = Snapshot(csn=csn, catalog=catalog), csn
    transaction.hold, transaction.state = hold, State.READING
