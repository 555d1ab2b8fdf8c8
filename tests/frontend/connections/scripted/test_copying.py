"""COPY in both directions, over a real socket, with scripted sessions."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

from adapter.results import CopyFormat
from frontend.protocol import messages as m
from frontend.server.accepting import Server
from planner.types.types import SqlType
from tests.frontend import raw_client as raw
from tests.frontend.raw_client import RawClient, codes
from tests.frontend.scripted import (
    CopySink,
    Script,
    copy_in,
    copy_out,
)

INT4, TEXT = SqlType(23), SqlType(25)


def copying(script: Script, **options: Any) -> CopySink:
    sink = CopySink()
    script.results["copy in"] = [copy_in("ct", [("a", INT4), ("b", TEXT)], CopyFormat(**options), sink)]
    return sink


async def test_copy_in(client: RawClient, script: Script) -> None:
    sink = copying(script)
    replies = await client.ask(
        raw.query("copy in"), raw.FLUSH, raw.SYNC, raw.copy_data(b"1\tx\n2\t\\N\n"), raw.copy_data(b"3\ta"),
        raw.copy_data(b"b\\tc\n"), raw.COPY_DONE,
    )  # fmt: skip
    assert codes(replies) == "GCZ"
    assert replies[0].body == struct.pack(">bHHH", 0, 2, 0, 0)
    assert replies[1].text == "COPY 3"
    assert sink.table().to_pydict() == {"c1": [1, 2, 3], "c2": ["x", None, "ab\tc"]}


async def test_copy_fail(client: RawClient, script: Script) -> None:
    sink = copying(script)
    replies = await client.ask(raw.query("copy in"), raw.copy_fail("client says no"))
    assert codes(replies) == "GEZ"
    fields = replies[1].fields
    assert (fields["C"], fields["M"], fields["W"]) == (
        "57014", "COPY from stdin failed: client says no", "COPY ct, line 1",
    )  # fmt: skip
    assert sink.aborted is not None


async def test_copy_data_errors_swallow_the_rest(client: RawClient, script: Script) -> None:
    copying(script)
    replies = await client.ask(
        raw.query("copy in"), raw.copy_data(b"bad\tx\n"), raw.copy_data(b"6\tz\n"), raw.COPY_DONE
    )
    assert codes(replies) == "GEZ"
    assert replies[1].fields["W"] == 'COPY ct, line 1, column a: "bad"'
    assert codes(await client.ask(raw.copy_data(b"stray"), raw.COPY_DONE, raw.query("select 1"))) == "TDCZ"


async def test_a_query_during_copy_loses_synchronization(client: RawClient, script: Script) -> None:
    copying(script)
    replies = await client.ask(raw.query("copy in"), raw.query("select 1"))
    assert codes(replies) == "GEE"
    assert replies[1].fields["M"] == "unexpected message type 0x51 during COPY from stdin"
    assert (replies[2].fields["S"], replies[2].fields["M"]) == (
        "FATAL", "terminating connection because protocol synchronization was lost",
    )  # fmt: skip


async def test_copy_in_by_the_extended_protocol(client: RawClient, script: Script) -> None:
    sink = copying(script)
    replies = await client.ask(
        raw.parse("", "copy in"), raw.describe("S"), raw.bind(), raw.describe("P"), raw.execute(),
        raw.copy_data(b"1\tx\n"), raw.COPY_DONE, raw.SYNC,
    )  # fmt: skip
    assert codes(replies) == "1tn2nGCZ"
    assert sink.table().num_rows == 1


async def test_cancel_during_copy(client: RawClient, server: tuple[Server, int], script: Script) -> None:
    sink = copying(script)
    client.send(raw.query("copy in"))
    await client.until("G")
    other = await RawClient.open(server[1])
    other.send(raw.request(m.CANCEL_REQUEST, struct.pack(">I", client.key[0]) + client.key[1]))
    replies = await client.until("Z")
    assert codes(replies) == "EZ"
    assert replies[0].fields["C"] == "57014"
    assert sink.aborted is not None


async def test_copy_out(client: RawClient, script: Script) -> None:
    batch = pa.record_batch([pa.array([1, None], pa.int32()), pa.array(["a\tb\n", None])], names=["c1", "c2"])
    columns = [("a", INT4), ("b", TEXT)]
    script.results["text"] = [copy_out(columns, [batch, batch.slice(1)], CopyFormat())]
    script.results["binary"] = [copy_out(columns, [batch], CopyFormat(format="binary"))]
    script.results["empty"] = [copy_out(columns, [], CopyFormat(format="binary"))]
    replies = await client.ask(raw.query("text"))
    assert codes(replies) == "HdddcCZ"
    assert [reply.body for reply in replies[1:4]] == [b"1\ta\\tb\\n\n", b"\\N\t\\N\n", b"\\N\t\\N\n"]
    assert replies[5].text == "COPY 3"
    replies = await client.ask(raw.query("binary"))
    assert [reply.body for reply in replies if reply.code == "d"] == [
        b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\2\0\0\0\4\0\0\0\1\0\0\0\4a\tb\n",
        b"\0\2" + b"\xff" * 8,
        b"\xff\xff",
    ]
    replies = await client.ask(raw.query("empty"))
    assert [reply.body for reply in replies if reply.code == "d"] == [b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\xff\xff"]
