"""The connection's rules, over a real socket, with scripted sessions."""

from __future__ import annotations

import asyncio
import os
import struct

import psutil
import pyarrow as pa
import pytest

from adapter.results import Notice
from frontend.protocol import messages as m
from frontend.server.accepting import Server
from planner.errors import InvalidCatalogName, QueryCanceled, SqlError
from planner.types.types import SqlType
from tests.frontend import raw_client as raw
from tests.frontend.raw_client import RawClient, codes
from tests.frontend.scripted import (
    Script,
    ScriptedSession,
    authenticator,
    int_rows,
    rows,
)

INT4, TEXT = SqlType(23), SqlType(25)


async def test_startup_reports_settings_once_and_the_key(server: tuple[Server, int], script: Script) -> None:
    client = await RawClient.open(server[1])
    client.send(raw.startup({"user": "u", "options": "-c a=b --c-d=e\\ f", "application_name": "t"}))
    replies = await client.until("Z")
    assert codes(replies) == "R" + "S" * len(script.settings) + "KZ"
    assert len(client.key[1]) == 4
    startup = script.sessions[0].startup
    assert (startup.user, startup.database) == ("u", "u")
    assert startup.settings == (("a", "b"), ("c_d", "e f"), ("application_name", "t"))
    assert startup.remote_address is not None
    host, _, port = startup.remote_address.rpartition(":")
    assert host == "127.0.0.1"
    assert 0 < int(port) < 65536


async def test_encryption_requests_are_answered_in_any_order(server: tuple[Server, int]) -> None:
    client = await RawClient.open(server[1])
    for code in (m.GSSENC_REQUEST, m.SSL_REQUEST, m.GSSENC_REQUEST):
        client.send(raw.request(code))
        assert await client.reader.readexactly(1) == b"N"
    client.send(raw.startup({"user": "u"}))
    assert codes(await client.until("Z")).endswith("KZ")


async def test_protocol_3_2_has_long_keys(server: tuple[Server, int]) -> None:
    client = await RawClient.open(server[1])
    client.send(raw.startup({"user": "u"}, m.PROTOCOL_3_2))
    assert codes(await client.until("Z")).startswith("RS")
    assert len(client.key[1]) == 32


async def test_newer_minor_versions_and_unknown_protocol_options_are_negotiated(server: tuple[Server, int]) -> None:
    client = await RawClient.open(server[1])
    client.send(raw.startup({"user": "u", "_pq_.nope": "1"}, 0x30000 + 9999))
    replies = await client.until("Z")
    assert replies[0].code == "v"
    assert replies[0].body == struct.pack(">II", m.PROTOCOL_3_2, 1) + b"_pq_.nope\0"
    assert codes(replies).endswith("KZ")


@pytest.mark.parametrize(
    ("parameters", "sqlstate", "text"),
    [
        ({"database": "d"}, "28000", "no PostgreSQL user name specified in startup packet"),
        ({"user": "u", "replication": "true"}, "0A000", "replication connections are not supported"),
        ({"user": "u", "options": "-x"}, "42601", "invalid command-line argument for server process: -x"),
    ],
)
async def test_refused_startups(
    server: tuple[Server, int], parameters: dict[str, str], sqlstate: str, text: str
) -> None:
    client = await RawClient.open(server[1])
    client.send(raw.startup(parameters))
    replies = await client.until("Z")
    assert codes(replies) == "E"
    fields = replies[0].fields
    assert (fields["S"], fields["V"], fields["C"], fields["M"]) == ("FATAL", "FATAL", sqlstate, text)


async def test_long_names_are_cut(server: tuple[Server, int], script: Script) -> None:
    client = await RawClient.open(server[1])
    client.send(raw.startup({"user": "ü" * 40, "database": "d" * 70}))
    await client.until("Z")
    (session,) = script.sessions
    assert (session.startup.user, session.startup.database) == ("ü" * 31, "d" * 63)


async def test_an_unknown_database_is_told_after_authentication(server: tuple[Server, int], script: Script) -> None:
    script.refuse = InvalidCatalogName('database "d" does not exist', fatal=True)
    client = await RawClient.open(server[1])
    client.send(raw.startup({"user": "u"}))
    replies = await client.until("Z")
    assert codes(replies) == "RE"
    assert replies[1].fields["C"] == "3D000"


async def test_too_many_clients(server: tuple[Server, int]) -> None:
    clients = [await RawClient.connect(server[1]) for _ in range(3)]
    extra = await RawClient.open(server[1])
    extra.send(raw.startup({"user": "u"}))
    replies = await extra.until("Z")
    assert codes(replies) == "E"
    assert (replies[0].fields["C"], replies[0].fields["M"]) == ("53300", "sorry, too many clients already")
    clients[0].send(raw.TERMINATE)
    assert await clients[0].receive() is None
    again = await RawClient.connect(server[1])
    assert codes(await again.ask(raw.query("select 1"))) == "TDCZ"


async def test_simple_queries(client: RawClient) -> None:
    replies = await client.ask(raw.query("select 1; select 2"))
    assert codes(replies) == "TDCTDCZ"
    assert [reply.row for reply in replies if reply.code == "D"] == [[b"1"], [b"2"]]
    assert replies[2].text == "SELECT 1"
    assert codes(await client.ask(raw.query(""))) == "IZ"


async def test_an_error_ends_the_query_string(client: RawClient) -> None:
    assert codes(await client.ask(raw.query("insert; fail; insert"))) == "CEZ"
    replies = await client.ask(raw.query("fail"))
    fields = replies[0].fields
    assert {k: fields[k] for k in "SVCMDHP"} == {
        "S": "ERROR", "V": "ERROR", "C": "42703", "M": 'column "x" does not exist', "D": "D.", "H": "Perhaps.",
        "P": "8",
    }  # fmt: skip
    assert {"F", "L", "R"} <= set(fields)


async def test_rows_already_sent_stay_sent(client: RawClient) -> None:
    assert codes(await client.ask(raw.query("late"))) == "TDEZ"


async def test_a_bug_is_an_internal_error_and_the_connection_lives(client: RawClient, script: Script) -> None:
    replies = await client.ask(raw.query("bug"))
    assert codes(replies) == "EZ"
    assert len(script.sessions[0].failures) == 1
    assert replies[0].fields["C"] == "XX000"
    assert codes(await client.ask(raw.query("select 1"))) == "TDCZ"


async def test_settings_are_reported_once_before_ready(client: RawClient, script: Script) -> None:
    session = script.sessions[0]

    async def change(_: ScriptedSession) -> None:
        session.changes.append(("TimeZone", "Asia/Tokyo"))
        session.notices.append(Notice(severity="WARNING", sqlstate="25P01", message="careful"))

    script.on_execute["set"] = change
    replies = await client.ask(raw.query("set"))
    assert codes(replies) == "NCSZ"
    assert replies[2].body == b"TimeZone\0Asia/Tokyo\0"
    assert replies[0].fields["S"] == "WARNING"


async def test_extended_protocol(client: RawClient) -> None:
    replies = await client.ask(
        raw.parse("s", "select 1"), raw.describe("S", "s"), raw.bind("p", "s", result_formats=[1]),
        raw.describe("P", "p"), raw.execute("p"), raw.close("P", "p"), raw.close("S", "s"), raw.SYNC,
    )  # fmt: skip
    assert codes(replies) == "1tT2TDC33Z"
    assert replies[5].row == [b"\0\0\0\1"]
    assert replies[2].body.endswith(b"\0\0")
    assert replies[4].body.endswith(b"\0\1")


async def test_a_suspended_portal(client: RawClient) -> None:
    replies = await client.ask(raw.parse("", "drip"), raw.bind(), raw.execute("", 2), raw.SYNC)
    assert codes(replies) == "12DDsZ"


async def test_everything_up_to_sync_is_ignored_after_an_error(client: RawClient, script: Script) -> None:
    replies = await client.ask(
        raw.parse("", "fail"), raw.bind(), raw.execute(), raw.query("select 1"), raw.FLUSH, raw.close("S", "x"),
        raw.message("D", b"Z\0"), raw.parse("", "select 1"), raw.bind(), raw.execute(), raw.SYNC, raw.query("select 1"),
        count=2,
    )  # fmt: skip
    assert codes(replies) == "12EZTDCZ"
    assert script.sessions[0].syncs == 1


async def test_each_sync_gets_one_ready(client: RawClient) -> None:
    assert codes(await client.ask(raw.SYNC, raw.SYNC, raw.SYNC, count=3)) == "ZZZ"


async def test_flush_sends_without_sync(client: RawClient) -> None:
    client.send(raw.parse("", "select 1"), raw.bind(), raw.execute(), raw.FLUSH)
    assert codes(await client.until("C")) == "12DC"
    assert codes(await client.ask(raw.SYNC)) == "Z"


async def test_an_error_is_sent_at_once(client: RawClient) -> None:
    client.send(raw.parse("", "fail"), raw.bind(), raw.execute())
    assert codes(await client.until("E")) == "12E"


async def test_thousands_of_pipelined_statements(client: RawClient) -> None:
    count = 3000
    for _ in range(count):
        client.send(raw.parse("", "select 1"), raw.bind(), raw.execute(), raw.SYNC)
    replies = await client.until("Z", count)
    assert codes(replies) == "12DCZ" * count


@pytest.mark.parametrize(
    ("values", "formats", "expected"),
    [
        ([b"1"], [], ("08P01", 'bind message supplies 1 parameters, but prepared statement "s" requires 2', None)),
        ([b"1", b"2"], [0, 0, 0], ("08P01", "bind message has 3 parameter formats but 2 parameters", None)),
        (
            [b"x", b"2"],
            [],
            ("22P02", 'invalid input syntax for type integer: "x"', "unnamed portal parameter $1 = '...'"),
        ),
        ([b"\0\1", b"2"], [1, 0], ("08P01", "insufficient data left in message", "unnamed portal parameter $1")),
        (
            [b"\0\0\0\0\1", b"2"],
            [1, 0],
            ("22P03", "incorrect binary data format in bind parameter 1", "unnamed portal parameter $1"),
        ),
        ([b"1", b"2"], [7], ("22023", "unsupported format code: 7", "unnamed portal parameter $1")),
        (
            [b"1", b"\xff\xfe"],
            [],
            ("22021", 'invalid byte sequence for encoding "UTF8": 0xff', "unnamed portal parameter $2"),
        ),
        (
            [b"1", b"a\0b"],
            [],
            ("22021", 'invalid byte sequence for encoding "UTF8": 0x00', "unnamed portal parameter $2"),
        ),
    ],
)
async def test_bind_errors(
    client: RawClient, script: Script, values: list[bytes], formats: list[int], expected: tuple[str, str, str | None]
) -> None:
    replies = await client.ask(raw.parse("s", "$1"), raw.bind("", "s", values, formats), raw.SYNC)
    assert codes(replies) == "1EZ"
    fields = replies[1].fields
    assert (fields["C"], fields["M"], fields.get("W")) == expected
    # The session, which saw none of it, was told: once.
    (failure,) = script.sessions[0].failures
    assert isinstance(failure, SqlError)
    assert failure.sqlstate == expected[0]


async def test_bind_passes_values(client: RawClient, script: Script) -> None:
    replies = await client.ask(
        raw.parse("s", "$1"), raw.bind("", "s", [b"\0\0\0\7", None], [1, 0]), raw.execute(), raw.SYNC
    )
    assert codes(replies) == "12DCZ"
    assert [param.value for param in script.sessions[0].portals[""][2]] == [7, None]


@pytest.mark.parametrize(
    ("message", "sqlstate"),
    [
        (raw.message("Q", b"select 1"), "08P01"),
        (raw.message("Q", b"select 1\0junk"), "08P01"),
        (raw.function_call(1), "42883"),
        (raw.message("Q", b"x" * (1 << 17)), "54000"),
    ],
)
async def test_bad_messages_leave_the_connection_usable(
    client: RawClient, script: Script, message: bytes, sqlstate: str
) -> None:
    replies = await client.ask(message)
    assert codes(replies) == "EZ"
    assert len(script.sessions[0].failures) == 1
    assert replies[0].fields["C"] == sqlstate
    assert codes(await client.ask(raw.query("select 1"))) == "TDCZ"


async def test_a_bad_message_type_ends_the_connection(client: RawClient) -> None:
    replies = await client.ask(b"y\0\0\0\4")
    assert codes(replies) == "E"
    assert (replies[0].fields["S"], replies[0].fields["M"]) == ("FATAL", "invalid frontend message type 121")


async def test_cancel_reaches_the_busy_session(client: RawClient, server: tuple[Server, int], script: Script) -> None:
    session = script.sessions[0]
    cancelled = asyncio.Event()
    started = asyncio.Event()
    session.cancel_action = cancelled.set

    async def wait(_: ScriptedSession) -> None:
        started.set()
        await cancelled.wait()
        raise QueryCanceled("canceling statement due to user request")

    script.results["sleep"] = [int_rows(1)]
    script.on_execute["sleep"] = wait
    client.send(raw.query("sleep"))
    await started.wait()
    for pid, secret in ((client.key[0], b"wrng"), (client.key[0] + 1, client.key[1])):
        other = await RawClient.open(server[1])
        other.send(raw.request(m.CANCEL_REQUEST, struct.pack(">I", pid) + secret))
        assert await other.reader.read() == b""
    assert session.cancelled == 0
    other = await RawClient.open(server[1])
    other.send(raw.request(m.CANCEL_REQUEST, struct.pack(">I", client.key[0]) + client.key[1]))
    assert await other.reader.read() == b""
    replies = await client.until("Z")
    assert codes(replies) == "EZ"
    assert replies[0].fields["C"] == "57014"


async def test_a_slow_reader_holds_back_the_stream(server: tuple[Server, int], script: Script) -> None:
    batch = pa.record_batch([pa.array(["x" * 1000] * 1000)], names=["c1"])
    pulled: list[int] = []
    script.results["much"] = [rows([("t", TEXT)], [batch] * 100, pulled=pulled)]
    reader, writer = await asyncio.open_connection("127.0.0.1", server[1], limit=1 << 16)
    client = RawClient(reader, writer)
    client.send(raw.startup({"user": "u"}))
    await client.until("Z")
    client.send(raw.query("much"))
    previous = -1
    while len(pulled) != previous:
        previous = len(pulled)
        await asyncio.sleep(0.2)
    assert len(pulled) < 60
    replies = await client.until("Z")
    assert codes(replies).count("D") == 100_000
    assert len(pulled) == 100


async def test_a_vanished_client_cancels_its_statement(client: RawClient, script: Script) -> None:
    session = script.sessions[0]
    cancelled = asyncio.Event()
    started = asyncio.Event()
    session.cancel_action = cancelled.set

    async def wait(_: ScriptedSession) -> None:
        started.set()
        await cancelled.wait()
        raise QueryCanceled("canceling statement due to user request")

    script.results["sleep"] = [int_rows(1)]
    script.on_execute["sleep"] = wait
    client.send(raw.query("sleep"))
    await started.wait()
    await client.close()
    async with asyncio.timeout(raw.TIMEOUT_S):
        await cancelled.wait()
        await session.closed.wait()


async def test_statements_of_a_client_that_said_goodbye_still_run(server: tuple[Server, int], script: Script) -> None:
    client = await RawClient.connect(server[1])
    session = script.sessions[0]
    ran = asyncio.Event()

    async def work(_: ScriptedSession) -> None:
        await asyncio.sleep(0.05)
        ran.set()

    script.on_execute["set"] = work
    client.send(raw.query("set"), raw.TERMINATE)
    await client.close()
    async with asyncio.timeout(raw.TIMEOUT_S):
        await ran.wait()
        await session.closed.wait()
    assert session.cancelled == 0


async def test_notifications_reach_an_idle_client(client: RawClient, script: Script) -> None:
    script.sessions[0].notify(42, "ch", "hello")
    (reply,) = await client.until("A")
    assert reply.body == struct.pack(">I", 42) + b"ch\0hello\0"


async def test_a_stop_tells_idle_clients_and_lets_busy_ones_finish(
    client: RawClient, server: tuple[Server, int], script: Script
) -> None:
    idle = await RawClient.connect(server[1])
    release, started = asyncio.Event(), asyncio.Event()

    async def wait(_: ScriptedSession) -> None:
        started.set()
        await release.wait()

    script.on_execute["set"] = wait
    client.send(raw.query("set"))
    await started.wait()
    stopping = asyncio.ensure_future(server[0].stop())
    (farewell,) = await idle.until("Z")
    assert (farewell.fields["S"], farewell.fields["C"]) == ("FATAL", "57P01")
    release.set()
    assert codes(await client.until("E")) == "CZE"
    await stopping


async def test_a_stop_lets_whole_series_of_messages_be_answered(
    client: RawClient, server: tuple[Server, int], script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Execute has done has been committed when Sync is there; a client that is told of the end before
    ReadyForQuery takes it for not done."""
    release, started = asyncio.Event(), asyncio.Event()

    async def wait(_: ScriptedSession) -> None:
        started.set()
        await release.wait()

    script.on_execute["set"] = wait
    client.send(raw.parse("", "set"), raw.bind(), raw.execute(), raw.SYNC)
    await started.wait()
    # The others have their turns between any two messages, and who stops looks at each of them.
    monkeypatch.setattr("frontend.connections.channel.TURN_S", -1.0)
    monkeypatch.setattr("frontend.server.accepting._DRAIN_POLL_S", 0.0)
    stopping = asyncio.ensure_future(server[0].stop())
    release.set()
    assert codes(await client.until("E")) == "12CZE"
    await stopping


async def test_trust_is_for_loopback(script: Script) -> None:
    """The server listens anywhere; who does not come over loopback is asked for a password."""
    server = Server(script, authenticator=authenticator())
    port = await server.start("0.0.0.0", 0)
    try:
        for host, first in (("127.0.0.1", b"\0\0\0\0"), (own_address(), b"\0\0\0\x0a")):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(raw.startup({"user": "u"}))
            assert (await reader.readexactly(9))[5:] == first
            writer.close()
    finally:
        await server.stop(drain=False)


def own_address() -> str:
    """An address of this host that is not for loopback."""
    addresses = [str(each.address) for found in psutil.net_if_addrs().values() for each in found]
    address = next((each for each in addresses if each.count(".") == 3 and not each.startswith("127.")), None)
    if address is None:
        assert not os.environ.get("CI")
        pytest.skip("the host has no address but loopback")
    return address
