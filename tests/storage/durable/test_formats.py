"""Durable formats: what earlier versions wrote must stay readable, byte for byte.

The files in ``golden/`` hold one value each, as hexadecimal MessagePack. A deliberate change of format raises
`storage.durable.state.FORMAT_VERSION`, keeps the old files with a reader for them, and adds new ones: run with
``TIDEGATE_REWRITE_GOLDEN=1`` to write the files that are missing. Existing ones are never rewritten.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from storage.durable.state import FORMAT_VERSION, Entry, RollupRef
from storage.ids import ShardId
from storage.shards.parts import ColumnStats, Part, RowIdRange
from storage.shards.shard_state import (
    Append,
    Collected,
    Compact,
    DowngradeSince,
    Drop,
    Hold,
    SetHold,
    ShardDiff,
    ShardMachine,
    apply_diff,
    schema_version,
)
from storage.shards.shard_state import check as check_shard
from storage.shards.writes import PromisedPart, ShardWrites, Write
from storage.timestamps.csn import Csn
from storage.transactions.txn import SealedTxn
from storage.transactions.txns_state import (
    Applied,
    Lease,
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


def shard_state() -> bytes:
    machine = ShardMachine(SHARD)
    state = apply_diff(machine.initial(), SHARD_DIFF)
    check_shard(state)
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
STATES = {
    "shard_state": (shard_state, ShardMachine(SHARD)),
    "txns_state_staged": (lambda: txns_state(3), TxnsMachine()),
    "txns_state": (lambda: txns_state(4), TxnsMachine()),
}


def golden(name: str, encoded: bytes) -> bytes:
    """The stored bytes of `name`; written now when they are missing and that was asked for."""
    path = GOLDEN / f"v{FORMAT_VERSION}_{name}.hex"
    if not path.exists():
        assert os.environ.get("TIDEGATE_REWRITE_GOLDEN"), f"{path.name} is missing"
        path.write_text(encoded.hex() + "\n")
    return bytes.fromhex(path.read_text())


@pytest.mark.parametrize("name", VALUES)
def test_values_keep_their_bytes(name: str) -> None:
    value, type_ = VALUES[name]
    encoded = msgspec.msgpack.encode(value)
    stored = golden(name, encoded)
    assert encoded == stored
    assert msgspec.msgpack.decode(stored, type=type_) == value


@pytest.mark.parametrize("name", STATES)
def test_states_keep_their_bytes(name: str) -> None:
    make, machine = STATES[name]
    stored = golden(name, make())
    assert make() == stored
    assert machine.encode_state(machine.decode_state(stored)) == stored  # type: ignore[attr-defined]


def test_the_schema_of_the_golden_files_can_be_read() -> None:
    assert schema_version(0, SCHEMA).columns == ("c1", "c2")
    assert schema_version(0, SCHEMA).schema() == pa.schema([("c1", pa.int64()), ("c2", pa.string())])
