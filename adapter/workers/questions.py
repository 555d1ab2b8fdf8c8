"""Questions between the servers of an environment, which have nothing in common but its stores.

Who asks appends the question to a log that all servers follow (`shared_log`), each process of another server carries it
out and appends its answer to the log that the asker watches. It takes a few reads and writes of the store, and as long
as the others need to notice: what is asked so is asked by people, or now and then.

A register tells who answers. Each process enters itself, with its server's number, once it follows the questions and
before it serves anybody: a server of an earlier version, which answers nothing, is not waited for. The numbers tell the
sessions of the servers apart: a server gives out the backend pids of its own range (`colleagues`).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, TypeVar

import msgspec
import structlog
from msgspec import Struct

from adapter.workers.messages import AnyQuestion, Question
from adapter.workers.shared_log import Following, Others, SharedLog
from storage.clock import Clock
from storage.durable.registers import Register, decode_register
from storage.errors import Determinate, Indeterminate, StorageClosed
from storage.stores.consensus import Consensus

log = structlog.get_logger(__name__)

ENTERED_KEY = "servers"
ENTERED_WHAT = "the servers of the environment"
ASKED_KEY = "questions"
ASKED_WHAT = "the questions between servers"
ANSWERS_KEYS = 16
"""Logs that the answers are spread over, by who has asked."""
ANSWERS_WHAT = "the answers between servers"

QUESTIONS_KEPT = 64
ANSWERS_KEPT = 64

PIECE_BYTES = 1 << 20
"""What one entry has of an answer; a longer one is several."""

ANSWER_S = 5.0
"""How long the others may take to answer."""

LOOK_AGAIN_S = 1.0
"""After so long without an answer who asks looks whether those whom it waits for still live."""


class ServerPlace(Struct, frozen=True):
    """A process that answers: its server's number, and what the workers of that server have in common."""

    number: int
    host: str


class Entered(Struct, frozen=True):
    """The register: the processes that answer."""

    processes: dict[str, ServerPlace]


class Asked(Struct, frozen=True, array_like=True):
    """The `number`-th question of `process`, of the server `asker`; to all other servers, or to the one numbered
    `server`."""

    process: str
    number: int
    asker: int
    server: int | None
    question: msgspec.Raw
    """One of `AnyQuestion`; a later version has others."""


class Answered(Struct, frozen=True, array_like=True):
    """The `index`-th of `count` pieces of the answer of `process` to the `number`-th question of `asker`."""

    asker: str
    number: int
    process: str
    index: int
    count: int
    piece: bytes


Q = TypeVar("Q", bound=Question)

_encode = msgspec.msgpack.Encoder().encode
_asked = msgspec.msgpack.Decoder(Asked)
_question: msgspec.msgpack.Decoder[AnyQuestion] = msgspec.msgpack.Decoder(AnyQuestion)
_answered = msgspec.msgpack.Decoder(Answered)


class ServerQuestions:
    """See the module. Belongs to the event loop. `host` is what the workers of this server have in common."""

    def __init__(self, *, consensus: Consensus, clock: Clock, peers: Others, process: str, host: str | None) -> None:
        self._consensus = consensus
        self._clock = clock
        self._peers = peers
        self._process = process
        self._host = host or process
        self._asking = asyncio.Lock()
        self._numbers = count(1)
        self._heard: dict[str, int] = {}
        """Of each process that has asked, the number of its newest question."""
        self._handlers: dict[type[Question], Callable[[Any], Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._questions = SharedLog(consensus, clock, ASKED_KEY, ASKED_WHAT, QUESTIONS_KEPT)
        self._following = Following(self._questions, peers, clock, self._hear)
        self._entered = Register(
            consensus, clock, ENTERED_KEY, ENTERED_WHAT, lambda data: decode_register(data, Entered, ENTERED_WHAT)
        )
        self.number = 0
        """This server's, unlike that of any other that is at work."""

    @property
    def has_others(self) -> bool:
        """Whether other servers may be at work."""
        return self._peers.has_strangers

    def answer(self, kind: type[Q], handler: Callable[[Q], Any]) -> None:
        """Answer questions of this kind with what `handler` returns, or what that awaits."""
        self._handlers[kind] = handler

    async def start(self) -> None:
        """The server is about to serve: answer from now on. Raises what the store raises."""
        await self._following.start()
        await self._entered.change(self._with_own)
        # Who has joined meanwhile has waited until it is followed.
        await self._following.start()

    async def close(self) -> None:
        """Answer no more."""
        await self._following.close()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def _with_own(self, value: Entered | None) -> Entered:
        known = {} if value is None else value.processes
        living = await self._peers.living(known)
        others = {name: place for name, place in known.items() if name in living and name != self._process}
        same = [place.number for place in others.values() if place.host == self._host]
        if same:
            self.number = same[0]
        else:
            taken = {place.number for place in others.values()}
            # A server that has not entered itself gives out the pids of the first range.
            lowest = 1 if self._peers.strangers() - others.keys() else 0
            self.number = next(number for number in count(lowest) if number not in taken)
        return Entered({**others, self._process: ServerPlace(self.number, self._host)})

    # ------------------------------------------------------------ asking

    async def ask(self, question: AnyQuestion, *, server: int | None = None) -> list[Any]:
        """The answers of all processes of the other servers, or of one of these, by its number; without those who do
        not answer in time, and those who have nothing to say (None)."""
        if not self.has_others or server == self.number:
            return []
        try:
            answers = await self._ask(question, server)
        except (StorageClosed, Determinate, Indeterminate) as error:
            log.warning("other servers cannot be asked", question=type(question).__name__, error=str(error))
            return []
        return [answer for answer in answers.values() if answer is not None]

    async def _ask(self, question: AnyQuestion, server: int | None) -> Mapping[str, Any]:
        entered = await self._entered.read()
        wanted = {
            name
            for name, place in ({} if entered is None else entered.processes).items()
            if name != self._process and place.host != self._host and server in (None, place.number)
        }
        wanted &= await self._peers.living(wanted)
        if not wanted:
            return {}
        answers = self._answers_for(self._process)
        read = await answers.newest()
        async with self._asking:  # They are heard in the order of their numbers.
            number = next(self._numbers)
            asked = Asked(self._process, number, self.number, server, msgspec.Raw(_encode(question)))
            if await self._questions.append(_encode(asked)) is None:
                return {}
        pieces: dict[str, dict[int, bytes]] = {}
        found: dict[str, Any] = {}
        until = self._clock.monotonic() + ANSWER_S
        only_own = True
        while wanted - found.keys():
            left = until - self._clock.monotonic()
            if left <= 0:
                log.warning("other servers do not answer", servers=sorted(wanted - found.keys()))
                break
            await answers.moved(read, min(left, LOOK_AGAIN_S))
            entries = await answers.after(read)
            if not entries:
                wanted &= found.keys() | await self._peers.living(wanted)
            for seqno, data in entries:
                read = seqno
                answered = _answered.decode(data)
                if (answered.asker, answered.number) != (self._process, number):
                    only_own = False
                    continue
                known = pieces.setdefault(answered.process, {})
                known[answered.index] = answered.piece
                if len(known) == answered.count:
                    whole = b"".join(piece for _, piece in sorted(known.items()))
                    found[answered.process] = msgspec.msgpack.decode(whole)
        if found and only_own:
            await answers.forget_before(read)
        return found

    def _answers_for(self, process: str) -> SharedLog:
        number = zlib.crc32(process.encode()) % ANSWERS_KEYS
        return SharedLog(self._consensus, self._clock, f"answers/{number}", ANSWERS_WHAT, ANSWERS_KEPT)

    # ------------------------------------------------------------ answering

    def _hear(self, data: bytes) -> None:
        asked = _asked.decode(data)
        if asked.number <= self._heard.get(asked.process, 0):
            return
        self._heard[asked.process] = asked.number
        if asked.asker != self.number and asked.server in (None, self.number):
            task = asyncio.get_running_loop().create_task(self._answer(asked), name="answer-to-server")
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, asked: Asked) -> None:
        try:
            question = _question.decode(asked.question)
            handler = self._handlers.get(type(question))
            answer = None if handler is None else handler(question)
        except msgspec.ValidationError as error:
            log.warning("a server of another version asks what this one does not know", error=str(error))
            answer = None
        if isinstance(answer, Awaitable):
            answer = await answer
        data = _encode(answer)
        answers = self._answers_for(asked.process)
        pieces = [data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES)]
        for index, piece in enumerate(pieces):
            entry = Answered(asked.process, asked.number, self._process, index, len(pieces), piece)
            if await answers.append(_encode(entry)) is None:
                log.warning("another server is not answered", process=asked.process)
                return
