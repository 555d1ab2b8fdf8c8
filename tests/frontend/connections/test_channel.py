"""The channel between a socket and a connection."""

from __future__ import annotations

import asyncio

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
