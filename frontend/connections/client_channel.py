"""The client's end, as a connection sees it."""

from __future__ import annotations

from typing import Protocol

from frontend.protocol.messages import FrontendMessage


class ConnectionLost(Exception):
    """The client is gone: nothing can be told to it."""


class Channel(Protocol):
    """The client's end, as the connection sees it."""

    async def receive(self, *, interruptible: bool = False) -> FrontendMessage | None:
        """The next message, or None at the end of the stream. Raises FramingError, and when `interruptible` the error
        of a cancel request."""

    def write(self, data: bytes | memoryview) -> None:
        """Append to the output."""

    async def drain(self) -> None:
        """Hand over what has gathered, if much, and wait while the client reads too slowly. Raises ConnectionLost."""

    async def flush(self) -> None:
        """Hand over everything. Raises ConnectionLost."""

    def following(self, *candidates: bytes) -> bytes | None:
        """Which of these byte strings, each one or more whole messages, has been received next."""

    def skip(self, messages: bytes) -> None:
        """Leave out what `following` has given."""

    def next_is_sync(self) -> bool:
        """Whether a Sync is the next message already received."""

    def lost(self) -> ConnectionLost:
        """The error for a stream that ended too early."""
