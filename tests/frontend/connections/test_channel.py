"""The channel between a socket and a connection."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from frontend.connections import channel
from frontend.protocol.messages import Query

MESSAGES = 20


@pytest.mark.parametrize(("turn_s", "expected"), [(-1.0, MESSAGES), (60.0, 0)])
async def test_messages_that_come_at_once_leave_the_others_their_turns(
    monkeypatch: pytest.MonkeyPatch, turn_s: float, expected: int
) -> None:
    monkeypatch.setattr(channel, "TURN_S", turn_s)
    protocol = channel.ClientProtocol(lambda _: None, max_message_bytes=1 << 20)
    protocol._turn_began = asyncio.get_running_loop().time()
    text = b"SELECT 1\0"
    protocol.data_received((b"Q" + (len(text) + 4).to_bytes(4, "big") + text) * MESSAGES)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.ensure_future(other())
    await asyncio.sleep(0)
    for _ in range(MESSAGES):
        assert isinstance(await protocol.receive(), Query)
    others.cancel()
    assert turns == expected


@pytest.mark.parametrize("has_arrived", [False, True])
async def test_what_comes_behind_the_farewell_is_not_heard(has_arrived: bool) -> None:
    transport = Mock(spec=asyncio.Transport)
    transport.is_closing.side_effect = lambda: transport.close.called
    protocol = channel.ClientProtocol(lambda _: None, max_message_bytes=1 << 20)
    protocol.connection_made(transport)
    receiving = asyncio.ensure_future(protocol.receive())
    await asyncio.sleep(0)
    statement = b"Q\0\0\0\x0dSELECT 1\0"
    if has_arrived:
        # It is under way to who waits for it, who has not heard of it yet.
        protocol.data_received(statement)
        protocol.dismiss(b"farewell")
    else:
        protocol.data_received(statement)
        assert isinstance(await receiving, Query)
        protocol.dismiss(b"farewell")
        transport.close.assert_not_called()  # The statement is answered first.
        protocol.write(b"answer")
        protocol.data_received(statement)
        receiving = asyncio.ensure_future(protocol.receive())
    assert await receiving is None
    told = b"".join(call.args[0] for call in transport.write.call_args_list)
    assert told == (b"farewell" if has_arrived else b"answerfarewell")
    transport.close.assert_called()
