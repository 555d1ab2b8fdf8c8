"""The codec: every message, at every split, and every way to be malformed."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontend.protocol import messages as m
from frontend.protocol.codec import Decoder, FramingError, decode_utf8
from planner.errors import SqlError
from tests.frontend import raw_client as raw

EVERY = [
    (raw.query("select 'é'"), m.Query(text="select 'é'")),
    (raw.parse("s", "select $1", [23, 0]), m.Parse(name="s", text="select $1", param_oids=(23, 0))),
    (
        raw.bind("p", "s", [b"\0\1", None, b""], [1, 0, 0], [1]),
        m.Bind(portal="p", statement="s", param_formats=(1, 0, 0), params=(b"\0\1", None, b""), result_formats=(1,)),
    ),
    (raw.describe("S", "s"), m.Describe(kind="S", name="s")),
    (raw.execute("p", 5), m.Execute(portal="p", max_rows=5)),
    (raw.close("P", "p"), m.Close(kind="P", name="p")),
    (raw.SYNC, m.Sync()),
    (raw.FLUSH, m.Flush()),
    (raw.TERMINATE, m.Terminate()),
    (raw.copy_data(b"1\t2\n"), m.CopyData(data=b"1\t2\n")),
    (raw.COPY_DONE, m.CopyDone()),
    (raw.copy_fail("no"), m.CopyFail(message="no")),
    (raw.function_call(1598), m.FunctionCall(function_oid=1598, rest=bytes(6))),
    (raw.message("p", b"secret\0"), m.PasswordMessage(body=b"secret\0")),
]


def drain(decoder: Decoder) -> list[m.FrontendMessage]:
    found = []
    while (message := decoder.next_message()) is not None:
        found.append(message)
    return found


def framing_error(decode: Callable[[], object]) -> FramingError | None:
    try:
        decode()
    except FramingError as error:
        return error
    return None


@given(st.lists(st.integers(0, len(EVERY) - 1), max_size=12), st.data())
def test_messages_survive_any_split(picks: list[int], data: st.DataObject) -> None:
    stream = b"".join(EVERY[pick][0] for pick in picks)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder, found = Decoder(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoder.feed(stream[start:end])
        found += drain(decoder)
    assert found == [EVERY[pick][1] for pick in picks]
    assert decoder.buffered == 0


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_decoder(data: bytes) -> None:
    decoder = Decoder()
    decoder.feed(data)
    refused = framing_error(lambda: drain(decoder))
    assert refused is None or refused.error is None or refused.error.sqlstate == "08P01"


@given(st.sampled_from("QPBDECf"), st.binary(max_size=60))
def test_no_body_crashes_a_message(code: str, body: bytes) -> None:
    decoder = Decoder()
    decoder.feed(raw.message(code, body))
    (message,) = drain(decoder)
    if isinstance(message, m.Malformed):
        assert isinstance(message.error, SqlError)
        assert message.error.sqlstate in ("08P01", "22021")


@given(st.binary(min_size=4, max_size=80))
def test_no_startup_packet_crashes(body: bytes) -> None:
    decoder = Decoder()
    decoder.feed(struct.pack(">I", len(body) + 4) + body)
    refused = framing_error(decoder.next_startup)
    assert refused is None or refused.error is None or refused.error.fatal


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (raw.message("Q", b"select 1"), "invalid string in message"),
        (raw.message("Q", b"select 1\0junk"), "invalid message format"),
        (raw.message("Q", b"select '\xff'\0"), 'invalid byte sequence for encoding "UTF8": 0xff'),
        (raw.message("Q", b"select '\xe2\x28\xa1'\0"), 'invalid byte sequence for encoding "UTF8": 0xe2 0x28 0xa1'),
        (raw.message("D", b"Zx\0"), "invalid DESCRIBE message subtype 90"),
        (raw.message("C", b"Zx\0"), "invalid CLOSE message subtype 90"),
        (raw.message("P", b"s\0q\0\0\2\0\0\0\x17"), "insufficient data left in message"),
        (raw.message("B", b"\0\0\0\0\0\1\0\0\0\x09ab"), "insufficient data left in message"),
        (raw.message("S", b"x"), "invalid message format"),
    ],
)
def test_malformed_content_is_an_error_of_the_message(data: bytes, expected: str) -> None:
    decoder = Decoder()
    decoder.feed(data + raw.SYNC)
    message, following = drain(decoder)
    assert isinstance(message, m.Malformed)
    assert str(message.error) == expected
    assert following == m.Sync()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"y\0\0\0\4", "invalid frontend message type 121"),
        (b"Q\0\0\0\3", "invalid message length"),
        (b"S" + struct.pack(">I", 10_005), "invalid message length"),
        (b"Q" + struct.pack(">I", 1 << 30), "invalid message length"),
    ],
)
def test_broken_framing_ends_the_connection(data: bytes, expected: str) -> None:
    decoder = Decoder()
    decoder.feed(data)
    with pytest.raises(FramingError, match=expected):
        decoder.next_message()


def test_a_message_over_the_limit_is_skipped_and_not_kept() -> None:
    decoder = Decoder(max_message_bytes=100)
    decoder.feed(b"Q" + struct.pack(">I", 4 + 1000) + b"x" * 300)
    assert decoder.next_message() is None
    assert decoder.buffered == 0
    decoder.feed(b"x" * 500)
    assert decoder.next_message() is None
    decoder.feed(b"x" * 200 + raw.SYNC)
    message, following = drain(decoder)
    assert isinstance(message, m.Malformed)
    assert isinstance(message.error, SqlError)
    assert (message.code, message.error.sqlstate) == ("Q", "54000")
    assert following == m.Sync()


def test_startup_packets() -> None:
    decoder = Decoder()
    decoder.feed(raw.request(m.SSL_REQUEST) + raw.request(m.GSSENC_REQUEST))
    decoder.feed(raw.request(m.CANCEL_REQUEST, struct.pack(">I", 7) + b"abcd"))
    decoder.feed(raw.startup({"user": "u", "options": "-c a=b"}, m.PROTOCOL_3_2))
    assert decoder.next_startup() == m.SslRequest()
    assert decoder.next_startup() == m.GssEncRequest()
    assert decoder.next_startup() == m.CancelRequest(backend_pid=7, secret=b"abcd")
    assert decoder.next_startup() == m.Startup(
        version=m.PROTOCOL_3_2, parameters=(("user", "u"), ("options", "-c a=b"))
    )
    assert decoder.next_startup() is None


@pytest.mark.parametrize(
    ("packet", "sqlstate", "text"),
    [
        (raw.startup({"user": "u"}, 0x40000), "0A000", "unsupported frontend protocol 4.0: server supports 3.0 to 3.2"),
        (raw.startup({"user": "u"}, 0x20000), "0A000", "unsupported frontend protocol 2.0: server supports 3.0 to 3.2"),
        (
            struct.pack(">II", 13, m.PROTOCOL_3_0) + b"user\0",
            "08P01",
            "invalid startup packet layout: expected terminator as last byte",
        ),
    ],
)
def test_refused_startup_packets(packet: bytes, sqlstate: str, text: str) -> None:
    decoder = Decoder()
    decoder.feed(packet)
    with pytest.raises(FramingError) as caught:
        decoder.next_startup()
    error = caught.value.error
    assert error is not None
    assert (error.sqlstate, error.message, error.fatal) == (sqlstate, text, True)


@pytest.mark.parametrize("length", [0, 7, 10_001, 2**32 - 1])
def test_startup_packets_of_absurd_length(length: int) -> None:
    decoder = Decoder()
    decoder.feed(struct.pack(">I", length) + b"x" * 8)
    with pytest.raises(FramingError) as caught:
        decoder.next_startup()
    assert caught.value.error is None


def test_text_must_not_hold_nul() -> None:
    with pytest.raises(SqlError, match="0x00"):
        decode_utf8(b"a\0b")


def bind_of(value: bytes) -> bytes:
    body = b"p\0s\0" + struct.pack(">hh", 0, 2) + struct.pack(">i", 3) + b"abc"
    body += struct.pack(">i", len(value)) + value + struct.pack(">h", 0)
    return b"B" + struct.pack(">i", len(body) + 4) + body


@pytest.mark.parametrize("split", [1 << 16, 1 << 20, 1 << 24])
def test_a_long_value_is_the_buffers_own(split: int) -> None:
    value = bytes(range(1, 128)) * 20_000
    data = raw_sync() + bind_of(value) + bind_of(b"xy") + bind_of(value) + raw_sync()
    decoder = Decoder()
    messages: list[object] = []
    for start in range(0, len(data), split):
        decoder.feed(data[start : start + split])
        while (message := decoder.next_message()) is not None:
            messages.append(message)
    assert [type(message) for message in messages] == [m.Sync, m.Bind, m.Bind, m.Bind, m.Sync]
    first, small, last = messages[1:4]
    assert isinstance(first, m.Bind)
    assert isinstance(small, m.Bind)
    assert isinstance(last, m.Bind)
    assert small.params == (b"abc", b"xy")
    for bind in (first, last):
        given, long = bind.params
        assert (bind.portal, bind.statement, given) == ("p", "s", b"abc")
        assert isinstance(long, memoryview)
        assert long == value
        assert decode_utf8(long) == value.decode()


def raw_sync() -> bytes:
    return b"S\0\0\0\4"


@pytest.mark.parametrize("data", [b"ab\0c", b"ab\xffc"])
def test_long_values_are_checked_as_short_ones(data: bytes) -> None:
    with pytest.raises(SqlError) as short:
        decode_utf8(data)
    with pytest.raises(SqlError) as long:
        decode_utf8(memoryview(data))
    assert long.value.message == short.value.message
