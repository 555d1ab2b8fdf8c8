"""Questions between the workers of one server: each listens on a Unix socket in a folder that only they can enter.

A question goes to one worker by its number, and its answer comes back; many may be under way on one connection. A
worker that is not there (it has died, or starts just now) has no sessions and nothing to say: `ask` returns None, as
it does for one that does not answer in time. A frame is a length (four bytes) and msgpack: the number of the question
with the question, or with its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from adapter.workers.messages import AnyQuestion, Question

log = structlog.get_logger(__name__)

ANSWER_S = 5.0
"""How long a worker may take to answer: its loop is never busy for so long, but it may have been stopped."""

MAX_FRAME_BYTES = 256 << 20
"""The longest question or answer: the sessions of one worker, or what one transaction notifies."""

_LENGTH = struct.Struct(">I")

Q = TypeVar("Q", bound=Question)


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    number: int
    question: AnyQuestion


class _Answered(msgspec.Struct, frozen=True, array_like=True):
    number: int
    answer: Any


_encoder = msgspec.msgpack.Encoder()
_questions = msgspec.msgpack.Decoder(_Asked)
_answers = msgspec.msgpack.Decoder(_Answered)


def socket_path(folder: Path, number: int) -> Path:
    """Where worker `number` listens."""
    return folder / f"{number}.sock"


class Mesh:
    """The connections of worker `own` with the other ones of `count`. Belongs to the event loop."""

    def __init__(self, folder: Path, own: int, count: int) -> None:
        self.own = own
        self.others = tuple(number for number in range(count) if number != own)
        self._folder = folder
        self._handlers: dict[type[Question], Callable[[Any], Any]] = {}
        self._server: asyncio.Server | None = None
        self._served: set[asyncio.Task[None]] = set()
        self._links: dict[int, asyncio.Task[_Link]] = {}

    def answer(self, kind: type[Q], handler: Callable[[Q], Any]) -> None:
        """Answer questions of this kind with what `handler` returns, or what that awaits."""
        self._handlers[kind] = handler

    async def open(self) -> None:
        """Begin to answer. Raises OSError."""
        path = socket_path(self._folder, self.own)
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._accepted, path)

    async def close(self) -> None:
        """Answer and ask no more."""
        if self._server is not None:
            self._server.close()
        reading = [link.result().reading for link in self._links.values() if _is_usable(link)]
        tasks = [*self._served, *self._links.values(), *reading]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------ asking

    async def ask(self, number: int, question: Question) -> Any:
        """The answer of worker `number`, of which the others are told apart by it; None when there is none."""
        try:
            async with asyncio.timeout(ANSWER_S):
                link = await self._link(number)
                return await link.ask(question)
        except (OSError, EOFError):
            return None  # It is not there.
        except TimeoutError:
            log.warning("another worker does not answer", worker=number, question=type(question).__name__)
            return None

    async def ask_all(self, question: Question) -> list[Any]:
        """The answers of all others that are there."""
        answers = await asyncio.gather(*(self.ask(number, question) for number in self.others))
        return [answer for answer in answers if answer is not None]

    async def _link(self, number: int) -> _Link:
        connecting = self._links.get(number)
        if connecting is None or (connecting.done() and not _is_usable(connecting)):
            path = socket_path(self._folder, number)
            connecting = asyncio.get_running_loop().create_task(_Link.connect(path), name=f"worker-{number}")
            self._links[number] = connecting
        return await asyncio.shield(connecting)

    # ------------------------------------------------------------ answering

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._served.add(task)
        try:
            with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                while True:
                    asked = _questions.decode(await _read_frame(reader))
                    answering = asyncio.get_running_loop().create_task(self._answer(asked, writer))
                    self._served.add(answering)
                    answering.add_done_callback(self._served.discard)
        finally:
            self._served.discard(task)
            writer.close()

    async def _answer(self, asked: _Asked, writer: asyncio.StreamWriter) -> None:
        handler = self._handlers.get(type(asked.question))
        answer = None if handler is None else handler(asked.question)
        if isinstance(answer, Awaitable):
            answer = await answer
        with contextlib.suppress(OSError):
            _write_frame(writer, _Answered(asked.number, answer))
            await writer.drain()


class _Link:
    """The connection to one other worker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.reading = asyncio.get_running_loop().create_task(self._read(), name="worker-answers")

    @staticmethod
    async def connect(path: Path) -> _Link:
        return _Link(*await asyncio.open_unix_connection(path))

    async def ask(self, question: Question) -> Any:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            _write_frame(self._writer, _Asked(number, question))  # type: ignore[arg-type]
            await self._writer.drain()
            return await answer
        finally:
            del self._waiting[number]

    async def _read(self) -> None:
        try:
            while True:
                answered = _answers.decode(await _read_frame(self._reader))
                waiting = self._waiting.get(answered.number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answered.answer)
        except (OSError, EOFError):
            pass  # The other worker has ended.
        finally:
            self._writer.close()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(EOFError())


def _is_usable(connecting: asyncio.Task[_Link]) -> bool:
    return not connecting.cancelled() and connecting.exception() is None and not connecting.result().reading.done()


def _write_frame(writer: asyncio.StreamWriter, message: msgspec.Struct) -> None:
    data = _encoder.encode(message)
    if writer.is_closing():
        # The loop's own complaint is no OSError, and the worker at the other end may end at any time.
        raise ConnectionResetError
    writer.write(_LENGTH.pack(len(data)) + data)


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > MAX_FRAME_BYTES:
        raise EOFError
    return await reader.readexactly(length)
