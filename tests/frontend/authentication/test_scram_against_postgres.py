"""SCRAM exchanges that are broken in every place: the server says what PostgreSQL says, and lets nobody in."""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from adapter.access.passwords import scram_of
from frontend.server.accepting import Server
from storage.catalog.access import Role
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID
from tests.frontend import raw_client as raw
from tests.frontend.authentication import scram_client as scram
from tests.frontend.authentication.scram_client import Exchange, begin, challenged, initial, response
from tests.frontend.raw_client import Reply
from tests.frontend.scripted import Script, authenticator, catalog_with
from tests.support.postgres import PostgresServer

PASSWORD = "open sesame"
VERIFIER = scram_of(PASSWORD, b"0123456789abcdef").text()

Breaks = Callable[[bytes], bytes]


@pytest.fixture
async def ours(tmp_path: Path) -> AsyncIterator[int]:
    hba = tmp_path / "hba"
    hba.write_text("host all all all scram-sha-256\n")
    superuser = Role(oid=BOOTSTRAP_SUPERUSER_OID, name="postgres", superuser=True)
    script = Script(catalog=catalog_with(superuser, Role(oid=20000, name="scram_user", password=VERIFIER)))
    server = Server(script, authenticator=authenticator(hba))
    yield await server.start("127.0.0.1", 0)
    await server.stop(drain=False)


@pytest.fixture
def theirs(postgres: PostgresServer) -> Iterator[int]:
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        row = connection.execute("SHOW hba_file").fetchone()
        assert row is not None
        hba = Path(row[0])
        before = hba.read_text()
        hba.write_text("host all scram_user,nobody all scram-sha-256\n" + before)
        os.utime(hba)
        connection.execute(f"CREATE ROLE scram_user LOGIN PASSWORD '{VERIFIER}'")
        connection.execute("SELECT pg_reload_conf()")
        # The postmaster has read it once a client is turned away.
        while True:
            try:
                psycopg.connect(postgres.dsn().replace("user=postgres", "user=nobody"), password="x").close()
            except psycopg.OperationalError as error:
                if "password authentication failed" in str(error):
                    break
        try:
            yield postgres.port
        finally:
            hba.write_text(before)
            connection.execute("DROP ROLE scram_user")
            connection.execute("SELECT pg_reload_conf()")


def told(reply: Reply | None) -> dict[str, str] | None:
    if reply is None:
        return None
    assert reply.code == "E", reply
    return {code: text for code, text in reply.fields.items() if code not in "FLR"}


FIRST: dict[str, bytes | None] = {
    "empty": b"",
    "a zero byte": b"n,,n=,r=abc\0",
    "no flag": b",,n=,r=abc",
    "an unknown flag": b"x,,n=,r=abc",
    "a flag that is no text": b"\xff,,n=,r=abc",
    "no comma": b"nn=,r=abc",
    "bound without a channel": b"p=tls-server-end-point,,n=,r=abc",
    "an identity": b"n,a=postgres,n=,r=abc",
    "something for an identity": b"n,b=postgres,n=,r=abc",
    "an extension": b"n,,m=abc,n=,r=abc",
    "no name": b"n,,r=abc",
    "no nonce": b"n,,n=",
    "no nonce but a comma": b"n,,n=,",
    "no equals sign": b"n,,n=,r",
    "a nonce that is not printable": b"n,,n=,r=a\x01c",
    "a nonce of blanks": b"n,,n=,r=a c",
    "an attribute that is none": b"n,,n=,r=abc,1=2",
    "an attribute without a value": b"n,,n=,r=abc,x",
    "the header alone": b"n,,",
}


@pytest.mark.parametrize("name", FIRST)
async def test_first_messages(name: str, ours: int, theirs: int) -> None:
    answers = []
    for port in (ours, theirs):
        client, reply = await begin(port, "scram_user")
        assert reply.body == struct.pack(">I", 10) + b"SCRAM-SHA-256\0\0"
        client.send(initial(FIRST[name]))
        answers.append(told(await client.receive()))
        assert await client.receive() is None
    assert answers[0] == answers[1]
    assert answers[0] is not None


ENVELOPES = {
    "another message": raw.query("select 1"),
    "an unknown message": raw.message("?", b""),
    "an unknown mechanism": initial(b"n,,n=,r=abc", "SCRAM-SHA-1"),
    "a mechanism that needs TLS": initial(b"p=tls-server-end-point,,n=,r=abc", "SCRAM-SHA-256-PLUS"),
    "a length that is too long": raw.message("p", b"SCRAM-SHA-256\0" + struct.pack(">i", 100) + b"n,,"),
    "a length that is too short": raw.message("p", b"SCRAM-SHA-256\0" + struct.pack(">i", 1) + b"n,,"),
    "no length": raw.message("p", b"SCRAM-SHA-256\0"),
    "no end of the name": raw.message("p", b"SCRAM-SHA-256"),
}


@pytest.mark.parametrize("name", ENVELOPES)
async def test_envelopes(name: str, ours: int, theirs: int) -> None:
    answers = []
    for port in (ours, theirs):
        client, _ = await begin(port, "scram_user")
        client.send(ENVELOPES[name])
        answers.append(told(await client.receive()))
        assert await client.receive() is None
    assert answers[0] == answers[1]


LAST: dict[str, Breaks] = {
    "empty": lambda right: b"",
    "a zero byte": lambda right: right + b"\0",
    "no binding": lambda right: right[right.index(b"r=") :],
    "another binding": lambda right: right.replace(b"c=biws", b"c=eSws"),
    "no nonce": lambda right: b"c=biws," + right[right.index(b"p=") :],
    "another nonce": lambda right: right.replace(b"r=abc", b"r=abd"),
    "a part of the nonce": lambda right: right.replace(right[right.index(b"r=") : right.index(b",p=")], b"r=abc"),
    "no proof": lambda right: right[: right.index(b",p=")],
    "a short proof": lambda right: right[:-8],
    "a proof that is no base64": lambda right: right[:-4] + b"!!!!",
    "a wrong proof": lambda right: right[: right.index(b",p=")] + b",p=" + b"A" * 43 + b"=",
    "more after the proof": lambda right: right + b",x=1",
    "the other user's password": lambda right: right,
}


@pytest.mark.parametrize("name", LAST)
async def test_last_messages(name: str, ours: int, theirs: int) -> None:
    password = "wrong" if name == "the other user's password" else PASSWORD
    answers = []
    for port in (ours, theirs):
        exchange = Exchange(password)
        client, challenge = await challenged(port, "scram_user", exchange)
        client.send(response(LAST[name](exchange.last(challenge))))
        answers.append(told(await client.receive()))
        assert await client.receive() is None
    assert answers[0] == answers[1]
    assert answers[0] is not None


async def test_the_right_password_opens_and_the_server_proves_itself(ours: int, theirs: int) -> None:
    for port in (ours, theirs):
        reply = await scram.log_in(port, "scram_user", PASSWORD)
        assert reply is not None
        assert reply.code == "R"


async def test_a_comma_at_the_end_is_none(ours: int, theirs: int) -> None:
    for port in (ours, theirs):
        client, _ = await begin(port, "scram_user")
        client.send(initial(b"n,,n=,r=abc,"))
        reply = await client.receive()
        assert reply is not None
        assert reply.body[:9] == struct.pack(">I", 11) + b"r=abc"
        await client.close()


async def test_a_challenge_may_be_asked_for_without_a_first_message(ours: int, theirs: int) -> None:
    for port in (ours, theirs):
        client, _ = await begin(port, "scram_user")
        client.send(initial(None))
        reply = await client.receive()
        assert reply is not None
        assert reply.body == struct.pack(">I", 11)
        exchange = Exchange(PASSWORD)
        client.send(response(exchange.first))
        reply = await client.receive()
        assert reply is not None
        client.send(response(exchange.last(reply.body[4:])))
        reply = await client.receive()
        assert reply is not None
        assert reply.body[:4] == struct.pack(">I", 12)
        await client.close()


async def test_what_was_recorded_opens_nothing(ours: int) -> None:
    """Messages of an exchange that succeeded, sent again: another nonce of the server makes them worthless."""
    exchange = Exchange(PASSWORD)
    client, challenge = await challenged(ours, "scram_user", exchange)
    last = exchange.last(challenge)
    client.send(response(last))
    assert (await client.receive()).code == "R"  # type: ignore[union-attr]
    again, other = await challenged(ours, "scram_user", exchange)
    assert other != challenge
    again.send(response(last))
    assert told(await again.receive())["M"] == "invalid SCRAM response"  # type: ignore[index]
    renamed, other = await challenged(ours, "scram_user", exchange)
    nonce = dict(field.split(b"=", 1) for field in other.split(b","))[b"r"]
    stale = dict(field.split(b"=", 1) for field in challenge.split(b","))[b"r"]
    renamed.send(response(last.replace(stale, nonce)))
    assert told(await renamed.receive())["C"] == "28P01"  # type: ignore[index]


async def test_an_exchange_that_is_cut_short_opens_nothing(ours: int) -> None:
    exchange = Exchange(PASSWORD)
    client, challenge = await challenged(ours, "scram_user", exchange)
    whole = response(exchange.last(challenge))
    for cut in (0, 1, 4, 5, 40, len(whole) - 1):
        client, challenge = await challenged(ours, "scram_user", exchange)
        whole = response(exchange.last(challenge))
        client.send(whole[:cut])
        client.writer.write_eof()
        assert await client.receive() is None


async def test_nothing_runs_before_the_proof(ours: int) -> None:
    """A query in the place of any answer ends the connection, and so does one right behind the start-up packet."""
    client = await raw.RawClient.open(ours)
    client.send(raw.startup({"user": "scram_user"}), raw.query("select 1"))
    replies = await client.until("Z")
    assert [reply.code for reply in replies] == ["R", "E"]
    exchange = Exchange(PASSWORD)
    client, _ = await challenged(ours, "scram_user", exchange)
    client.send(raw.query("select 1"))
    assert told(await client.receive()) == {
        "S": "FATAL", "V": "FATAL", "C": "08P01", "M": "expected SASL response, got message type 81",
    }  # fmt: skip


async def test_the_unknown_look_like_the_known(ours: int) -> None:
    """The salt of a role that is not there does not change, and no two have the same."""
    salts: dict[str, str] = {}
    for user in ("nobody", "nobody", "noone", "postgres"):
        _, challenge = await challenged(ours, user, Exchange("x"))
        fields = dict(field.split("=", 1) for field in challenge.decode().split(","))
        assert fields["i"] == "4096"
        assert len(fields["s"]) == 24
        assert salts.setdefault(user, fields["s"]) == fields["s"]
    assert len(set(salts.values())) == 3
    for user in ("nobody", "scram_user"):
        answer = told(await scram.log_in(ours, user, "wrong"))
        assert answer == {
            "S": "FATAL", "V": "FATAL", "C": "28P01", "M": f'password authentication failed for user "{user}"',
        }  # fmt: skip
