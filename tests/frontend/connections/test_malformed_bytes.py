"""Thousands of mutated conversations with a real server: whatever the bytes, no session but their own notices."""

from __future__ import annotations

import asyncio
import random
import struct

import psutil

from tests.frontend.raw_client import (
    COPY_DONE,
    FLUSH,
    SYNC,
    TERMINATE,
    RawClient,
    bind,
    close,
    codes,
    copy_data,
    copy_fail,
    describe,
    execute,
    message,
    parse,
    query,
    request,
    startup,
)
from tests.support.server import TidegateServer

CONVERSATIONS = 3_000
AT_ONCE = 20
PATIENCE_S = 30.0
MAX_GROWTH_BYTES = 100 << 20

STATEMENTS = (
    "select 1", "select $1::int + 1", "select $1::text, $2::int8", "", "selec", "select 1/0", "select nope", "begin",
    "insert into fuzzed values (1, 'a')", "insert into fuzzed values ($1, $2) returning *", "commit", "rollback",
    "copy fuzzed from stdin", "copy fuzzed from stdin csv", "copy fuzzed from stdin binary", "copy fuzzed to stdout",
    "declare c cursor for select generate_series(1, 4)", "fetch 2 from c", "prepare s1 as select 1", "execute s1",
    "deallocate all", "show timezone", "discard all", "select 1; select 2", "select $1::bool, $2::numeric, $3::uuid",
)  # fmt: skip
VALUES = (None, b"1", b"abc", b"", b"\0\0\0\1", b"\0\0\0\0\0\0\0\7", b"\xff", b"x" * 100)
LENGTHS = (0, 1, 3, 4, 5, 65_536, 1 << 20, 1 << 28, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def some_message(random_: random.Random) -> bytes:
    """A message as a client might send it."""
    pick = random_.choice
    name, portal = pick(("", "", "s1", "s2")), pick(("", "", "p1", "c"))
    values = [pick(VALUES) for _ in range(random_.choice((0, 0, 1, 1, 2, 3)))]
    return pick(
        (
            parse(name, pick(STATEMENTS), pick(((), (23,), (25,), (0,), (99_999,)))),
            bind(portal, name, values, pick(((), (0,), (1,), (2,))), pick(((), (0,), (1,), (3,)))),
            describe(pick("SP"), pick((name, portal))),
            execute(portal, pick((0, 1, -1))),
            close(pick("SP"), pick((name, portal))),
            query(pick(STATEMENTS)),
            pick((SYNC, FLUSH)),
            pick((copy_data(b"1\ta\n"), copy_data(b"junk"), COPY_DONE, copy_fail("no"))),
            message("F", struct.pack(">IHHH", 1598, 0, 0, 0)),
        )
    )


def mutated(random_: random.Random, data: bytes) -> bytes:
    """`data` with a few bytes changed, left out, put in or doubled, a length that is none, or cut short."""
    bytes_ = bytearray(data)
    for _ in range(random_.randint(1, 4)):
        at = random_.randrange(len(bytes_) + 1)
        match random_.randrange(6):
            case 0:
                bytes_[at : at + 1] = random_.randbytes(1)
            case 1:
                del bytes_[at : at + random_.randint(1, 6)]
            case 2:
                bytes_[at:at] = random_.randbytes(random_.randint(1, 8))
            case 3:
                bytes_[at : at + 4] = struct.pack(">I", random_.choice(LENGTHS))
            case 4:
                bytes_[at:at] = bytes_[max(0, at - 20) : at]
            case _:
                del bytes_[at:]
    return bytes(bytes_)


async def converse(port: int, seed: int) -> bytes:
    """Everything that the server says to the mutated conversation of `seed`; it must come to an end."""
    random_ = random.Random(seed)
    greeting = startup({"user": "postgres", "database": "postgres", "search_path": "fuzz"})
    messages = b"".join(some_message(random_) for _ in range(random_.randint(1, 10)))
    if random_.random() < 0.25:
        requests = (b"", request(80877103), request(80877104), request(80877102, struct.pack(">II", 1, 2)))
        data = mutated(random_, random_.choice(requests) + greeting) + messages + SYNC
    else:
        data = greeting + mutated(random_, messages) + SYNC + TERMINATE
    client = await RawClient.open(port)
    client.send(data)
    if random_.random() < 0.2:
        client.writer.transport.abort()
        return b""
    client.writer.write_eof()
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await client.reader.read()
    except ConnectionError:
        return b""
    finally:
        await client.close()


async def test_malformed_bytes_harm_nobody(server: TidegateServer) -> None:
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    steady = await RawClient.connect(server.port, database="postgres")
    await steady.ask(query("create schema fuzz; create table fuzz.fuzzed(a int, b text)"))
    before = process.memory_info().rss
    for first in range(0, CONVERSATIONS, AT_ONCE):
        seeds = range(first, first + AT_ONCE)
        answers = await asyncio.gather(*(converse(server.port, seed) for seed in seeds))
        internal = [seed for seed, answer in zip(seeds, answers, strict=True) if b"\0CXX000\0" in answer]
        assert not internal, "an internal error"
        assert codes(await steady.ask(query("select 1"))) == "TDCZ"
    assert process.memory_info().rss - before < MAX_GROWTH_BYTES
    await steady.ask(query("drop schema fuzz cascade"))
    await steady.close()
