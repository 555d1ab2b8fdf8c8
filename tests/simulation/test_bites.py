"""The oracles bite: a storage layer with a mistake in it fails the simulation within a few seeds.

Each mistake is put into the running code, and seeds are tried until one of them reports a broken invariant that is
of the kind the mistake must cause.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from adapter.materialized import journal
from storage.durable.state import DurableState
from storage.errors import Determinate, Indeterminate, StoreUnavailable
from storage.layouts import ordering
from storage.membership.leases import Leases
from storage.shards import part_store
from storage.shards.history import Archives
from storage.shards.indexes import filters, keys
from storage.shards.indexes.durable_runs import IndexRunMaker
from storage.shards.indexes.reading.sources import Sources
from storage.shards.part_store import PartStore
from storage.shards.partitions import transforms
from storage.shards.parts import ROW_ID
from storage.shards.shard import DataShard
from storage.shards.shard_state import ShardState
from storage.timestamps.csn import Csn, csn_from_ms, csn_ms
from storage.timestamps.shared import TxnsOracle
from storage.transactions import rows_ahead, txn
from storage.transactions.parallel_commit import ParallelCommit
from storage.transactions.txns_shard import ONE_PHASE, Phase, TxnsShard
from storage.transactions.txns_state import Prepared
from storage.upkeep import compaction, rewriting
from storage.upkeep.orphans import OrphanCollector
from storage.upkeep.retention import Retention
from storage.upkeep.shared_files import SharedFiles
from tests.simulation import network, views
from tests.simulation.network import Conditions
from tests.simulation.run import run
from tests.simulation.world import Plan

MAX_SEEDS = 60

SHOWN_BY = {
    "aborts_without_prevention": 4, "answers_before_the_uploads": 3, "cached_read_timestamp": 5, "forgets_the_order": 6,
    "forgets_whole_deletions": 5, "keeps_no_past": 7, "lets_old_servers_come": 47, "looks_at_the_first_and_last_id": 28,
    "rewrites_what_others_still_see": 2, "sorts_rows_without_their_ids": 6, "uploads_over_tombstones": 13,
}  # fmt: skip
"""Of mistakes that few seeds show the one that did when it was last looked up. It is tried first, then the others."""

UNTOUCHED = range(2)
"""Seeds that are run without a mistake as well: most mistakes show in them. `test_simulation` runs others, and
`make simulate` as many as one likes."""

TWO_PHASES = (10, *range(160, 185))
"""Seeds of runs with prepared transactions, which take longer; few of them bring all that one of the mistakes needs."""

VIEWS_AND_PAST = range(3)

RETAIN_MS = 20_000

STORM = Conditions(fail_before=0.05, unknown_before=0.04, unknown_after=0.08, slow=0.03)


def busy(seed: int) -> Plan:
    """A plan with every trouble that the mistakes need."""
    return replace(
        Plan.draw(seed),
        processes=3,
        clients=3,
        transactions=10,
        crashes=0.5,
        clock_jumps=False,
        conditions=STORM,
        one_host=False,
        peers=False,
        departures=0.0,
        small_limits=True,
        spills=True,
        staged=True,
        copies=0,
        linked=False,
        upgraded=False,
    )


def first_problem(
    mistake: Callable[[pytest.MonkeyPatch], None],
    pattern: str,
    *,
    keyed: bool = False,
    prepares: int = 0,
    laid_out: bool = False,
    viewed: bool = False,
    retain_ms: int = 0,
    upgraded: bool = False,
) -> str:
    """The first problem of some seed that matches `pattern` once `mistake` is made. `keyed`: tables have indexes, which
    not all seeds give; so it is with the transactions that each process `prepares`, with tables that are `laid_out`,
    with the view, with the past that is kept, and with servers of two versions."""
    others: set[str] = set()
    seeds = TWO_PHASES if prepares else range(MAX_SEEDS)
    known = SHOWN_BY.get(mistake.__name__)
    for seed in seeds if known is None else (known, *[seed for seed in seeds if seed != known]):
        plan = busy(seed)
        plan = replace(plan, keyed=keyed or plan.keyed, prepares=prepares or plan.prepares)
        plan = replace(plan, laid_out=laid_out or plan.laid_out, viewed=viewed or plan.viewed)
        plan = replace(plan, retain_ms=retain_ms or plan.retain_ms, upgraded=upgraded)
        for problem in run(seed, plan=plan).problems:
            if re.search(pattern, problem):
                return problem
            others.add(problem[:100])
    raise AssertionError(f"no seed of {seeds} reported {pattern!r}, only {others}")


def no_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit does not check that nothing was written since the validation."""
    real = TxnsShard.commit_at

    async def commit(self: TxnsShard, *args: Any, **kwargs: Any) -> Any:
        return await real(self, *args, **{**kwargs, "validated": None})

    monkeypatch.setattr(TxnsShard, "commit_at", commit)


def cached_read_timestamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle answers from its last answer."""

    async def read_ts(self: TxnsOracle, timeline: Any) -> Csn:
        return self._head.known().read_ts(timeline)

    monkeypatch.setattr(TxnsOracle, "read_ts", read_ts)


def forgets_its_own_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append whose answer was lost is taken for somebody else's, and made again."""

    async def is_ours(self: DurableState[Any, Any], seqno: Any, entry: Any) -> bool:
        return False

    monkeypatch.setattr(DurableState, "_is_ours", is_ours)


def torn_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit over several tables leaves one of them out."""
    real = TxnsShard.commit_at

    async def commit(self: TxnsShard, sealed: Any, *args: Any, **kwargs: Any) -> Any:
        if len(sealed.shards) > 1 and not sealed.has_definitions:
            sealed = msgspec.structs.replace(sealed, shards=sealed.shards[:-1])
        return await real(self, sealed, *args, **kwargs)

    monkeypatch.setattr(TxnsShard, "commit_at", commit)


def apply_loses_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several committed writes that are applied together the first is left out."""
    real = DataShard.apply

    async def apply(self: DataShard, writes: Any) -> Any:
        pending = tuple(writes)
        return await real(self, pending[1:] if len(pending) > 1 else pending)

    monkeypatch.setattr(DataShard, "apply", apply)


def keeps_followed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that another transaction of the same commit has changed already is written all the same."""
    real = rows_ahead.netted

    def netted(inserts: Any, deletes: Any, places: Any) -> Any:
        return inserts, real(inserts, deletes, places)[1]

    monkeypatch.setattr(txn, "netted", netted)


def collects_what_others_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    """The orphan collection takes every process for dead, and every reader for gone."""
    monkeypatch.setattr(Leases, "since_limit", lambda self: Csn(self._cache.upper - 1))

    async def referenced(self: OrphanCollector, *args: Any) -> set[str]:
        return set()

    monkeypatch.setattr(OrphanCollector, "_referenced", referenced)


def wrong_kind_of_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store says that a write did not happen when it only does not know."""
    monkeypatch.setattr(network, "StoreTimeout", StoreUnavailable)


def answers_before_the_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction is acknowledged once its record is staged, whatever becomes of its parts."""

    async def uploaded(self: ParallelCommit, promised: Any) -> None:
        return None

    monkeypatch.setattr(ParallelCommit, "_uploaded", uploaded)


def aborts_without_prevention(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is missing counts as never coming, without a tombstone at its key."""

    async def verdict(self: ParallelCommit, promised: Any) -> bool:
        return all([await self._blob.size(part.key) == part.length for part in promised])

    monkeypatch.setattr(ParallelCommit, "verdict", verdict)


def uploads_over_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is stored whether or not its key has been decided."""

    async def put_once(self: PartStore, key: str, data: bytes) -> None:
        while True:
            with contextlib.suppress(Determinate, Indeterminate):
                return await self._blob.put(key, data)

    monkeypatch.setattr(PartStore, "_put_once", put_once)


def finds_deleted_rows_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading by key looks at no delete part."""

    def deleted_among(self: Sources, views: Any, row_ids: Any) -> Any:
        yield from ()
        return np.zeros(len(row_ids), bool)

    monkeypatch.setattr(Sources, "deleted_among", deleted_among)


def run_of_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key run is made of the part's rows in another order."""
    real = IndexRunMaker.make

    def make(self: IndexRunMaker, part: Any, rows: Any, key: str) -> Any:
        return real(self, part, rows.take(np.arange(len(rows))[::-1]), key)

    monkeypatch.setattr(IndexRunMaker, "make", make)


def rows_that_the_predicate_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partial index takes all rows."""
    monkeypatch.setattr(keys, "in_index", lambda definition, rows: None)


def filter_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter lacks the greatest hash."""
    real = filters.build
    monkeypatch.setattr(filters, "build", lambda hashes: real(hashes[:-1]))


def takes_runs_for_orphans(monkeypatch: pytest.MonkeyPatch) -> None:
    """The orphan collection knows of no key run."""
    real = OrphanCollector._referenced

    async def referenced(self: OrphanCollector, *args: Any) -> set[str]:
        return {key for key in await real(self, *args) if not key.endswith(".keys")}

    monkeypatch.setattr(OrphanCollector, "_referenced", referenced)


def commits_beside_unknown_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit goes through although transactions have been prepared that it was not validated against."""
    real = TxnsShard.commit_at

    async def commit(self: TxnsShard, *args: Any, phase: Phase = ONE_PHASE, **kwargs: Any) -> Any:
        return await real(self, *args, **kwargs, phase=msgspec.structs.replace(phase, known=None))

    monkeypatch.setattr(TxnsShard, "commit_at", commit)


def takes_prepared_files_for_orphans(monkeypatch: pytest.MonkeyPatch) -> None:
    """The orphan collection knows of no prepared transaction."""
    monkeypatch.setattr(Prepared, "files", lambda self: set())


def ends_prepared_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """COMMIT PREPARED leaves the record."""
    real = TxnsShard._commit_diff

    def commit_diff(self: TxnsShard, *args: Any) -> Any:
        return msgspec.structs.replace(real(self, *args), ends=(), xids=())

    monkeypatch.setattr(TxnsShard, "_commit_diff", commit_diff)


def forgets_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction leaves rows in the order of their ids."""
    real = ordering.laid_out

    def laid_out(rows: Any, layout: Any, most: Any) -> Any:
        return real(rows, msgspec.structs.replace(layout, sort=()), most)

    monkeypatch.setattr(compaction, "laid_out", laid_out)


def sorts_rows_without_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction sorts rows, and gives them the ids of those that were in their places."""
    real = ordering.laid_out

    def laid_out(rows: Any, layout: Any, most: Any) -> Any:
        at, first = rows.schema.get_field_index(ROW_ID), 0
        for piece in real(rows, layout, most):
            yield piece.set_column(at, ROW_ID, rows.column(at).slice(first, piece.num_rows))
            first += piece.num_rows

    monkeypatch.setattr(compaction, "laid_out", laid_out)


def rewrites_what_others_still_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewriting leaves out rows whose deletion is not in the past of all readers."""
    real = rewriting.next_group

    def next_group(state: ShardState, *args: Any) -> Any:
        group = real(state, *args)
        if group is None:
            return None
        deletes = [part for part in state.parts.values() if part.kind == "delete" and not part.whole]
        return msgspec.structs.replace(group, deletes=tuple(deletes))

    monkeypatch.setattr(rewriting, "next_group", next_group)


def looks_at_the_first_and_last_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted rows need no ids when the last row's is as far from the first's as the rows are."""

    def consecutive_from(ids: Any) -> int | None:
        return int(ids[0]) if ids[-1] - ids[0] == len(ids) - 1 else None

    monkeypatch.setattr(compaction, "consecutive_from", consecutive_from)


def looks_at_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is of the partition of its first row."""
    real = transforms.common_values
    monkeypatch.setattr(part_store, "common_values", lambda fields, rows: real(fields, rows.slice(0, 1)))


def rows_without_their_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh of a view writes the rows, and leaves what the journal says of them."""
    real = journal.write_refresh

    def write_refresh(txn: Any, shard: Any, refresh: Any, before: Any) -> None:
        if before is None:
            real(txn, shard, refresh, before)

    monkeypatch.setattr(views, "write_refresh", write_refresh)


def frontier_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal names a moment a second after the one of which the rows are."""
    real = journal.write_refresh

    def write_refresh(txn: Any, shard: Any, refresh: Any, before: Any) -> None:
        later = csn_from_ms(csn_ms(refresh.frontier) + 1_000)
        real(txn, shard, msgspec.structs.replace(refresh, frontier=later), before)

    monkeypatch.setattr(views, "write_refresh", write_refresh)


def takes_views_for_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is seen to have changed since a view's frontier."""

    async def has_changed(env: Any, shard: Any, after: Any, until: Any) -> bool:
        return False

    monkeypatch.setattr(views, "has_changed", has_changed)


def hears_only_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that begins again does not hear of what is in the catalog already."""

    async def follow(controller: Any, catalog: Any, take: Any) -> None:
        first = True
        async for delta in catalog.subscribe_at(catalog.current().csn):
            if not first:
                take(delta, False)
            first = False
            controller.reached(delta.csn)

    monkeypatch.setattr(views, "follow", follow)


def keeps_no_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction does not ask whether the past of a table is to be kept."""
    monkeypatch.setattr(Retention, "keeps", lambda self, shard: False)


def archives_lack_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """What compaction puts away of the past lacks the first part."""
    real = Archives.write

    async def write(self: Archives, shard: Any, parts: Any) -> Any:
        return await real(self, shard, list(parts)[1:])

    monkeypatch.setattr(Archives, "write", write)


LOST = r"is lost|too many|missing|the bank holds|MissingBlob|is not in the blob store|not committed"

MISTAKES: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (no_validation, r"lost-update|G2|G-single|the bank holds|deleted row|too many"),
    (cached_read_timestamp, r"G-single-realtime"),
    (forgets_its_own_append, r"too many|duplicate|delivered|failed and is there|is lost|is there"),
    (torn_commit, r"is there in part|is lost|the bank holds"),
    (apply_loses_a_write, r"too many|missing|is lost|the bank holds|CorruptState|does not fit"),
    (keeps_followed_rows, r"exists twice|too many|the bank holds"),
    (collects_what_others_upload, r"MissingBlob|live blobs are gone|is not in the blob store"),
    (wrong_kind_of_error, r"failed and is there|is there|too many"),
    (answers_before_the_uploads, LOST),
    (aborts_without_prevention, LOST),
    (uploads_over_tombstones, LOST),
]


MISTAKES_OF_INDEXES: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (finds_deleted_rows_by_key, r"in order of keys|by key .* is found"),
    (run_of_other_rows, r"is not what its part says|by key .* is found"),
    (filter_without_a_key, r"by key .* is found"),
    (rows_that_the_predicate_leaves_out, r"by sum .* is found"),
    (takes_runs_for_orphans, r"key runs cannot be used|live blobs are gone"),
]


MISTAKES_OF_TWO_PHASES: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (commits_beside_unknown_prepared, r"lost-update|G2|G-single|G-nonadjacent"),
    (takes_prepared_files_for_orphans, LOST + "|live blobs are gone"),
    (ends_prepared_twice, r"too many|duplicate|delivered|could not be ended|committed at|aborted"),
]


MISTAKES_OF_LAYOUTS: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (forgets_the_order, r"is not in order"),
    (sorts_rows_without_their_ids, r"is not immutable|delivered|exists twice|too many"),
    (looks_at_the_first_row, r"says that it does not have"),
    (looks_at_the_first_and_last_id, r"is not immutable|row id \d+ twice|exists twice|too many"),
    (rewrites_what_others_still_see, r"is not what its query gives|is not immutable|delivered"),
]


MISTAKES_OF_VIEWS: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (rows_without_their_journal, r"is not what its query gives"),
    (frontier_too_late, r"the view \(frontier .* is not what its query gives"),
    (takes_views_for_exact, r"the view \(exact .* is not what its query gives"),
    (hears_only_what_comes, r"has not learned of the view"),
]


MISTAKES_OF_THE_PAST: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (keeps_no_past, r"what is to be kept is gone"),
    (archives_lack_a_part, r"is not immutable|the catalog at .* is not what it was|the catalog at \d+ is not one"),
]


def forgets_whole_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that is deleted as a whole the rows go, and what deletes them stays."""
    real = compaction.wholly_deleted

    def only_rows(state: ShardState) -> tuple[int, ...]:
        return tuple([number for number in real(state) if not state.parts[number].whole])

    monkeypatch.setattr(compaction, "wholly_deleted", only_rows)


MISTAKES_OF_WHOLE_DELETIONS: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (forgets_whole_deletions, r"snapshot counts"),
]


@pytest.mark.parametrize(
    ("mistake", "pattern"),
    MISTAKES_OF_WHOLE_DELETIONS,
    ids=[mistake.__name__ for mistake, _ in MISTAKES_OF_WHOLE_DELETIONS],
)
def test_a_mistake_of_whole_deletions_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert first_problem(mistake, pattern)


def test_without_a_mistake_the_same_seeds_find_nothing() -> None:
    assert [problem for seed in UNTOUCHED for problem in run(seed, plan=busy(seed)).problems] == []


@pytest.mark.parametrize(("mistake", "pattern"), MISTAKES, ids=[mistake.__name__ for mistake, _ in MISTAKES])
def test_a_mistake_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert first_problem(mistake, pattern)


def test_without_a_mistake_indexes_find_what_is_there() -> None:
    assert [p for seed in UNTOUCHED for p in run(seed, plan=replace(busy(seed), keyed=True)).problems] == []


@pytest.mark.parametrize(
    ("mistake", "pattern"), MISTAKES_OF_INDEXES, ids=[mistake.__name__ for mistake, _ in MISTAKES_OF_INDEXES]
)
def test_a_mistake_of_an_index_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert first_problem(mistake, pattern, keyed=True)


def test_without_a_mistake_all_that_is_prepared_ends() -> None:
    assert [p for seed in TWO_PHASES[::6] for p in run(seed, plan=replace(busy(seed), prepares=8)).problems] == []


@pytest.mark.parametrize(
    ("mistake", "pattern"), MISTAKES_OF_TWO_PHASES, ids=[mistake.__name__ for mistake, _ in MISTAKES_OF_TWO_PHASES]
)
def test_a_mistake_of_two_phases_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert first_problem(mistake, pattern, prepares=8)


def test_without_a_mistake_compaction_keeps_the_layout() -> None:
    assert [p for seed in UNTOUCHED for p in run(seed, plan=replace(busy(seed), laid_out=True)).problems] == []


@pytest.mark.parametrize(
    ("mistake", "pattern"), MISTAKES_OF_LAYOUTS, ids=[mistake.__name__ for mistake, _ in MISTAKES_OF_LAYOUTS]
)
def test_a_mistake_of_a_layout_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert first_problem(mistake, pattern, laid_out=True)


def test_without_a_mistake_views_and_the_past_are_what_they_are() -> None:
    found = [
        problem
        for seed in VIEWS_AND_PAST
        for problem in run(seed, plan=replace(busy(seed), viewed=True, retain_ms=RETAIN_MS)).problems
    ]
    assert found == []


@pytest.mark.parametrize(
    ("mistake", "pattern"), MISTAKES_OF_VIEWS, ids=[mistake.__name__ for mistake, _ in MISTAKES_OF_VIEWS]
)
def test_a_mistake_of_a_view_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert first_problem(mistake, pattern, viewed=True)


@pytest.mark.parametrize(
    ("mistake", "pattern"), MISTAKES_OF_THE_PAST, ids=[mistake.__name__ for mistake, _ in MISTAKES_OF_THE_PAST]
)
def test_a_mistake_of_the_past_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert first_problem(mistake, pattern, retain_ms=RETAIN_MS)


def test_files_that_copies_refer_to_are_seen_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async def all_of_them(sharing: SharedFiles, handle: DataShard, keys: Iterable[str]) -> list[str]:
        """What `SharedFiles.unshared` must not be."""
        return list(keys)

    monkeypatch.setattr(SharedFiles, "unshared", all_of_them)
    for seed in range(MAX_SEEDS):
        found = run(seed, plan=replace(busy(seed), copies=8)).problems
        if any(re.search(LOST + "|live blobs are gone", problem) for problem in found):
            return
    raise AssertionError("no seed missed a file")


def test_what_is_published_is_seen_to_go_without_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(leases: Leases, shard: str, name: str, at: Csn) -> None:
        """What `Leases.critical_hold` must not be."""

    monkeypatch.setattr(Leases, "critical_hold", nothing)
    for seed in range(MAX_SEEDS):
        plan = replace(Plan.draw(seed), published=True, small_limits=True)
        if any("is gone, and what is published leads to it" in problem for problem in run(seed, plan=plan).problems):
            return
    raise AssertionError("no file that is published was missed")
