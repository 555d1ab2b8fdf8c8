"""Durable formats: what earlier versions wrote must stay readable, byte for byte.

The files in ``golden/`` hold one value each, as hexadecimal MessagePack. A deliberate change of format raises
`storage.durable.state.FORMAT_VERSION`, keeps the old files with a reader for them, and adds new ones: run with
``TIDEGATE_REWRITE_GOLDEN=1`` to write the files that are missing. Existing ones are never rewritten.

Format 5 has files that several shards refer to, format 4 archives, format 3 prepared transactions, format 2 parts with
key runs. What says nothing of all that is stamped as format 1 and read by servers that know no other: it differs from
what those wrote in the length of a map's header alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from storage.catalog.model import CatalogUpdate, Comment
from storage.durable.state import BASE_FORMAT, FORMAT_VERSION, Entry, RollupRef
from storage.ids import ShardId
from storage.shards.links import Link
from storage.shards.parts import RUNS_FORMAT, ColumnStats, Part, RowIdRange, RunRef
from storage.shards.shard_state import (
    HISTORY_FORMAT,
    SHARED_FORMAT,
    Append,
    Archive,
    Collected,
    Compact,
    DowngradeSince,
    Drop,
    Hold,
    SetHold,
    SetRuns,
    ShardDiff,
    ShardMachine,
    Share,
    apply_diff,
    schema_version,
)
from storage.shards.shard_state import check as check_shard
from storage.shards.whole_deletions import deletion_of
from storage.shards.writes import PromisedPart, ShardWrites, Write
from storage.timestamps.csn import Csn
from storage.transactions.txn import SealedTxn
from storage.transactions.txns_state import (
    PREPARED_FORMAT,
    Applied,
    Lease,
    Prepared,
    RequireTransitions,
    Resolve,
    SetLease,
    Staged,
    TxnsDiff,
    TxnsMachine,
)
from storage.transactions.txns_state import apply_diff as apply_txns
from storage.transactions.txns_state import check as check_txns

GOLDEN = Path(__file__).parent / "golden"
SHARD = ShardId("s" + "b" * 26)

INSERT = Part(
    kind="insert",
    rows=3,
    bytes=1000,
    stats={"c1": ColumnStats(domain="int", min=-1, max=2**62, null_count=1), "c2": ColumnStats(domain="none")},
    key="parts/x/server-abcd.parquet",
    checksum="00ff",
    fingerprint="1234",
    first_row_id=0,
)
DELETE = Part(
    kind="delete",
    rows=1,
    bytes=4,
    stats={
        "_row_id": ColumnStats(domain="int", min=0, max=0, null_count=0),
        "c2": ColumnStats(domain="str", min="ä", max="z", null_count=0),
        "c3": ColumnStats(domain="decimal", min="-1.50", max="2", null_count=0),
        "c4": ColumnStats(domain="float", min=0.5, null_count=0),
    },
    inline=b"\x00\x01\x02\xff",
    row_ids=(RowIdRange(2**62, 3, 0),),
)
# Not made by pyarrow here: its bytes may differ between its versions.
SCHEMA = bytes.fromhex((GOLDEN / "arrow_schema.hex").read_text())

SHARD_DIFF = ShardDiff(
    (
        Append(lower=Csn(0), csn=Csn(10), parts=(INSERT, DELETE), schema=SCHEMA),
        SetHold(name="critical/audit", hold=Hold(at=Csn(10), reason="audit")),
        SetHold(name="p/1", hold=Hold(at=Csn(10), expires_ms=99)),
        SetHold(name="p/1", hold=None),
        DowngradeSince(since=Csn(10)),
        Compact(removed=(0,), added=(msgspec.structs.replace(INSERT, key="parts/x/new.parquet", csn=Csn(10)),)),
        Collected(keys=("parts/x/server-abcd.parquet",)),
    )
)
RUNS = {
    20001: RunRef(
        key="parts/x/server-abcd.keys",
        bytes=500,
        fingerprint="0f",
        checksum="f0",
        low=1,
        high=2**64 - 1,
        filter=b"\xff",
    ),
    20002: RunRef(key="parts/x/server-efgh.keys", bytes=400, fingerprint="0e", checksum="e0"),
}
WITH_RUNS = msgspec.structs.replace(INSERT, runs=RUNS)
RUNS_DIFF = ShardDiff(
    (
        Append(lower=Csn(0), csn=Csn(10), parts=(WITH_RUNS, DELETE), schema=SCHEMA),
        SetRuns(part=0, runs={20002: RUNS[20002]}),
    )
)
HISTORY_DIFFS = (
    ShardDiff(
        (
            Append(lower=Csn(0), csn=Csn(10), parts=(INSERT, DELETE), schema=SCHEMA),
            DowngradeSince(since=Csn(10), earliest=Csn(5)),
        )
    ),
    ShardDiff(
        (
            Compact(
                removed=(0,),
                added=(msgspec.structs.replace(INSERT, key="parts/x/new.parquet", csn=Csn(10)),),
                archive=Archive(
                    key="parts/x/server-abcd.history",
                    bytes=300,
                    checksum="0a",
                    first=Csn(9),
                    files=("parts/x/server-abcd.parquet",),
                ),
            ),
        )
    ),
)
WRITE = Write(shard=SHARD, csn=Csn(20), parts=(INSERT,), schema=SCHEMA)
STAGED = Staged(
    txid="t1",
    csn=Csn(30),
    process="server-abcd",
    writes=(Write(shard=SHARD, csn=Csn(30), parts=(INSERT,)),),
    promised=(PromisedPart("parts/x/server-abcd.parquet", 1000, "00ff"),),
    xids=(8, 9),
)
TXNS_DIFFS = (
    TxnsDiff(csn=Csn(20), registers=(SHARD,), writes=(WRITE,), xids=(7,)),
    TxnsDiff(leases=(SetLease("server-abcd", Lease(read_lower=Csn(5), beats=3, renewed_ms=1000, sole=True)),)),
    TxnsDiff(csn=Csn(30), stages=(STAGED,), applied=(Applied(SHARD, Csn(20)),)),
    TxnsDiff(resolves=(Resolve("t1", Csn(30), True),), requires=(RequireTransitions(SHARD, 4),), since=Csn(25)),
)


PREPARES = TxnsDiff(
    csn=Csn(40),
    prepares=(
        Prepared(
            gid="transfer",
            csn=Csn(40),
            xid=12,
            writes=(ShardWrites(shard=SHARD, parts=(INSERT, DELETE)),),
            catalog_updates=(CatalogUpdate(record=Comment(oid=16400, object_oid=16390, text="t"), diff=1),),
            note=b"\x01note",
        ),
    ),
)
ENDS = TxnsDiff(ends=("transfer",))


def shard_state() -> bytes:
    machine = ShardMachine(SHARD)
    state = apply_diff(machine.initial(), SHARD_DIFF)
    check_shard(state)
    return machine.encode_state(state)


def shard_state_with_runs() -> bytes:
    machine = ShardMachine(SHARD)
    state = apply_diff(machine.initial(), RUNS_DIFF)
    check_shard(state)
    assert set(state.garbage) == {"parts/x/server-abcd.keys"}
    return machine.encode_state(state)


def shard_state_with_history() -> bytes:
    machine = ShardMachine(SHARD)
    state = machine.initial()
    for diff in HISTORY_DIFFS:
        state = apply_diff(state, diff)
        check_shard(state)
    assert machine.format_of_state(state) == HISTORY_FORMAT
    assert not state.garbage, "the archive keeps the files of what was taken out"
    over = apply_diff(state, ShardDiff((Append(lower=Csn(11), csn=Csn(11)), DowngradeSince(since=Csn(11)))))
    check_shard(over)
    assert machine.format_of_state(over) == BASE_FORMAT
    assert set(over.garbage) == {"parts/x/server-abcd.history", "parts/x/server-abcd.parquet"}
    return machine.encode_state(state)


def shard_state_with_copies() -> bytes:
    machine = ShardMachine(SHARD)
    state = apply_diff(machine.initial(), SHARED_DIFF)
    assert machine.format_of_state(state) == SHARED_FORMAT == machine.format_of_diff(SHARED_DIFF)
    dropped = apply_diff(state, ShardDiff((Drop(),)))
    over = apply_diff(dropped, ShardDiff((Share(to=ShardId("scopy")),)))
    assert (dict(state.shared), dict(over.shared)) == ({"scopy": "p0"}, {})
    return machine.encode_state(state)


def txns_state_with_prepared() -> bytes:
    machine = TxnsMachine()
    state = machine.initial()
    for diff in (*TXNS_DIFFS, PREPARES):
        state = apply_txns(state, diff)
        check_txns(state)
    assert machine.format_of_state(state) == PREPARED_FORMAT
    assert not apply_txns(state, ENDS).prepared
    return machine.encode_state(state)


def txns_state(count: int) -> bytes:
    machine = TxnsMachine()
    state = machine.initial()
    for diff in TXNS_DIFFS[:count]:
        state = apply_txns(state, diff)
        check_txns(state)
    return machine.encode_state(state)


VALUES: dict[str, tuple[Any, Any]] = {
    "shard_diff": (SHARD_DIFF, ShardDiff),
    "shard_diff_drop": (ShardDiff((Drop(),)), ShardDiff),
    **{f"txns_diff_{n}": (diff, TxnsDiff) for n, diff in enumerate(TXNS_DIFFS)},
    "entry": (Entry(token="tok", writer="server-abcd", body=b"\x80"), Entry),
    "entry_rollup": (Entry(token="tok", rollup=RollupRef(seqno=7, size=9, key="rollups/txns/7-x")), Entry),
    "sealed_txn": (
        SealedTxn(shards=(ShardWrites(shard=SHARD, parts=(INSERT, DELETE), schema=SCHEMA, create=True),), xids=(5,)),
        SealedTxn,
    ),
}
SHARED_DIFF = ShardDiff((Share(to=ShardId("scopy"), process="p0"), Share(to=ShardId("sother"))))
LINKED = msgspec.structs.replace(
    INSERT,
    key="parts/x/server-abcd.link",
    link=Link(path="/lake/a.parquet", names={"c1": "Id", "c2": "v"}, is_odd=True),
)
LINKED_DIFF = ShardDiff((Append(lower=Csn(10), csn=Csn(20), parts=(LINKED,)),))
WHOLE = deletion_of(msgspec.structs.replace(INSERT, id=1, key="parts/x/server-abcd.parquet", inline=None))
WHOLE_DIFF = ShardDiff((Append(lower=Csn(10), csn=Csn(20), parts=(WHOLE,)),))
NEW_VALUES: dict[str, tuple[Any, Any]] = {
    "shard_diff_whole": (WHOLE_DIFF, ShardDiff),
    "shard_diff_linked": (LINKED_DIFF, ShardDiff),
    "shard_diff_runs": (RUNS_DIFF, ShardDiff),
    "shard_diff_shared": (SHARED_DIFF, ShardDiff),
    "txns_diff_runs": (TxnsDiff(csn=Csn(20), writes=(msgspec.structs.replace(WRITE, parts=(WITH_RUNS,)),)), TxnsDiff),
    "txns_diff_prepares": (PREPARES, TxnsDiff),
    "txns_diff_ends": (ENDS, TxnsDiff),
    **{f"shard_diff_history_{n}": (diff, ShardDiff) for n, diff in enumerate(HISTORY_DIFFS)},
}
"""What format 1 cannot say."""

STATES = {
    "shard_state": (shard_state, ShardMachine(SHARD)),
    "txns_state_staged": (lambda: txns_state(3), TxnsMachine()),
    "txns_state": (lambda: txns_state(4), TxnsMachine()),
}


NEW_STATES = {
    "shard_state_runs": (shard_state_with_runs, ShardMachine(SHARD)),
    "shard_state_history": (shard_state_with_history, ShardMachine(SHARD)),
    "shard_state_shared": (shard_state_with_copies, ShardMachine(SHARD)),
    "txns_state_prepared": (txns_state_with_prepared, TxnsMachine()),
}


def golden(name: str, encoded: bytes) -> bytes:
    """The stored bytes of `name`; written now when they are missing and that was asked for."""
    path = GOLDEN / f"v{FORMAT_VERSION}_{name}.hex"
    if not path.exists():
        assert os.environ.get("TIDEGATE_REWRITE_GOLDEN"), f"{path.name} is missing"
        path.write_text(encoded.hex() + "\n")
    return bytes.fromhex(path.read_text())


def old_golden(name: str) -> bytes:
    """The bytes that a server of format 1 stored for `name`."""
    return bytes.fromhex((GOLDEN / f"v1_{name}.hex").read_text())


@pytest.mark.parametrize("name", [*VALUES, *NEW_VALUES])
def test_values_keep_their_bytes(name: str) -> None:
    value, type_ = {**VALUES, **NEW_VALUES}[name]
    encoded = msgspec.msgpack.encode(value)
    stored = golden(name, encoded)
    assert encoded == stored
    assert msgspec.msgpack.decode(stored, type=type_) == value


@pytest.mark.parametrize("name", [*STATES, *NEW_STATES])
def test_states_keep_their_bytes(name: str) -> None:
    make, machine = {**STATES, **NEW_STATES}[name]
    stored = golden(name, make())
    assert make() == stored
    assert machine.encode_state(machine.decode_state(stored)) == stored  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", VALUES)
def test_what_servers_of_format_1_wrote_is_read_and_they_read_what_is_written_now(name: str) -> None:
    value, type_ = VALUES[name]
    assert msgspec.msgpack.decode(old_golden(name), type=type_) == value
    assert msgspec.msgpack.decode(golden(name, b"")) == msgspec.msgpack.decode(old_golden(name))


@pytest.mark.parametrize("name", STATES)
def test_states_of_format_1_are_read_and_servers_of_format_1_read_what_is_written_now(name: str) -> None:
    make, machine = STATES[name]
    assert machine.encode_state(machine.decode_state(old_golden(name))) == make()  # type: ignore[attr-defined]
    assert msgspec.msgpack.decode(golden(name, b"")) == msgspec.msgpack.decode(old_golden(name))


STAGED_RUNS = msgspec.structs.replace(STAGED, writes=(msgspec.structs.replace(STAGED.writes[0], parts=(WITH_RUNS,)),))


@pytest.mark.parametrize(
    ("machine", "old", "new"),
    [
        (ShardMachine(SHARD), [SHARD_DIFF], [RUNS_DIFF, ShardDiff((SetRuns(part=0, runs={}),))]),
        (ShardMachine(SHARD), [], [ShardDiff((Compact(removed=(), added=(WITH_RUNS,)),))]),
        (TxnsMachine(), TXNS_DIFFS, [NEW_VALUES["txns_diff_runs"][0], TxnsDiff(stages=(STAGED_RUNS,))]),
    ],
)
def test_what_is_written_has_the_oldest_format_that_says_it(machine: Any, old: list[Any], new: list[Any]) -> None:
    """So that servers of the version before go on, until somebody uses what they would not understand."""
    assert {machine.format_of_diff(diff) for diff in old} <= {BASE_FORMAT}
    assert {machine.format_of_diff(diff) for diff in new} == {RUNS_FORMAT}


def test_history_needs_format_4() -> None:
    assert {ShardMachine(SHARD).format_of_diff(diff) for diff in HISTORY_DIFFS} == {HISTORY_FORMAT}


def test_prepared_transactions_need_format_3() -> None:
    assert {TxnsMachine().format_of_diff(diff) for diff in (PREPARES, ENDS)} == {PREPARED_FORMAT}


def test_a_state_has_the_format_of_its_parts() -> None:
    machine = ShardMachine(SHARD)
    state = apply_diff(machine.initial(), RUNS_DIFF)
    assert machine.format_of_state(state) == RUNS_FORMAT
    assert machine.format_of_state(apply_diff(state, ShardDiff((SetRuns(part=0, runs={}),)))) == BASE_FORMAT
    txns = apply_txns(TxnsMachine().initial(), TxnsDiff(csn=Csn(20), registers=(SHARD,)))
    with_runs = msgspec.structs.replace(WRITE, csn=Csn(21), parts=(WITH_RUNS,), schema=None)
    after = apply_txns(txns, TxnsDiff(csn=Csn(21), writes=(with_runs,)))
    assert (TxnsMachine().format_of_state(txns), TxnsMachine().format_of_state(after)) == (BASE_FORMAT, RUNS_FORMAT)


def test_the_schema_of_the_golden_files_can_be_read() -> None:
    assert schema_version(0, SCHEMA).columns == ("c1", "c2")
    assert schema_version(0, SCHEMA).schema() == pa.schema([("c1", pa.int64()), ("c2", pa.string())])
