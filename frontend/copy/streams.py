"""The message flow of COPY: CopyData in and out, with back-pressure.

In: data is decoded a block at a time and handed to the session, which answers when it can take more. Flush and Sync
are ignored, CopyFail cancels, any other message loses synchronization (fatal, as in PostgreSQL). Out: one CopyData per
row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias

from adapter.results import CopyIn, CopyOut
from frontend.copy.binary_input import CopyBinaryInput
from frontend.copy.json_input import CopyJsonInput
from frontend.copy.output import CopyOutput
from frontend.copy.raw import RawInput, RawOutput
from frontend.copy.text_input import CopyInput
from frontend.copy.transcoding import encoding_of
from frontend.encoding.rows import RecordBatch, chunks, work_of
from frontend.encoding.settings import FormatSettings
from frontend.protocol import backend
from frontend.protocol.messages import (
    MESSAGE_CODES,
    CopyData,
    CopyDone,
    CopyFail,
    Flush,
    FrontendMessage,
    Malformed,
    Sync,
)
from planner.catalog_data.encodings import UTF8
from planner.errors import ProtocolViolation, QueryCanceled, SqlError, UniqueViolation

Offload = Callable[..., Awaitable[Any]]
"""Calls a pure function, in a thread when its first argument, the number of cells, is large."""


Source: TypeAlias = CopyInput | CopyBinaryInput | CopyJsonInput | RawInput


class CopyChannel(Protocol):
    """What COPY needs of the client's end (see connection.Channel)."""

    async def receive(self, *, interruptible: bool = False) -> FrontendMessage | None: ...

    def write(self, data: bytes | memoryview) -> None: ...

    async def drain(self) -> None: ...

    async def flush(self) -> None: ...

    def lost(self) -> Exception: ...


class SynchronizationLost(ProtocolViolation):
    """A message that has no place in COPY data; the connection ends after the error has been told."""


async def send_copy(channel: CopyChannel, copy: CopyOut, settings: FormatSettings, offload: Offload) -> int:
    """Sends a COPY TO STDOUT up to CopyDone; returns the number of rows."""
    count = 0
    try:
        is_raw = copy.format.format == "raw"
        output = RawOutput() if is_raw else CopyOutput(copy.columns, copy.format, settings)
        channel.write(backend.copy_out_response(len(copy.columns), binary=output.binary))
        channel.write(output.start())
        if copy.live:
            await channel.flush()
        async for batch in copy.batches:
            for chunk in chunks(batch):
                work = work_of(chunk, max(len(copy.columns), 1))
                data = await offload(work, output.rows, chunk, count == 0)
                channel.write(data)
                count += chunk.num_rows
                copy.progress.bytes_processed += len(data)
                copy.progress.tuples_processed += chunk.num_rows
                await channel.drain()
            if copy.live:
                await channel.flush()
    finally:
        close = getattr(copy.batches, "aclose", None)
        if close is not None:
            await close()
    channel.write(output.finish(any_rows=count > 0))
    channel.write(backend.COPY_DONE)
    return count if copy.count is None else copy.count()


async def receive_copy(channel: CopyChannel, copy: CopyIn, settings: Mapping[str, str], offload: Offload) -> int:
    """Receives a COPY FROM STDIN; returns the number of rows that the session took. On any failure the session's part
    is aborted and the error raised."""
    binary = copy.format.format in ("binary", "raw")
    try:
        source: Source
        if copy.format.format == "raw":
            source = RawInput(copy.relation_name)
        elif copy.format.format == "json":
            source = CopyJsonInput(copy.relation_name, copy.columns, copy.format, settings, names=copy.names)
        elif binary:
            source = CopyBinaryInput(
                copy.relation_name, copy.columns, encoding_of(copy.format, settings.get("client_encoding", UTF8))
            )
        else:
            source = CopyInput(copy.relation_name, copy.columns, copy.format, settings, names=copy.names)
        channel.write(backend.copy_in_response(len(copy.columns), binary=binary))
        await channel.flush()
        await _receive(channel, copy, source, offload)
    except BaseException as error:
        await copy.abort(error)
        raise
    try:
        return await copy.finish()
    except SqlError as error:
        _place(error, source)
        raise


async def _receive(channel: CopyChannel, copy: CopyIn, source: Source, offload: Offload) -> None:
    while True:
        message = await channel.receive(interruptible=True)
        match message:
            case CopyData():
                source.add(message.data)
                copy.progress.bytes_processed += len(message.data)
                if source.block_ready:
                    await _take(copy, source, offload, final=False)
            case CopyDone():
                await _take(copy, source, offload, final=True)
                return
            case CopyFail():
                raise QueryCanceled(f"COPY from stdin failed: {message.message}", where=source.where)
            case Flush() | Sync():
                continue
            case None:
                raise channel.lost()
            case Malformed() if message.code == "d" and isinstance(message.error, SqlError):
                raise message.error
            case _:
                code = message.code if isinstance(message, Malformed) else MESSAGE_CODES[type(message)]
                raise SynchronizationLost(
                    f"unexpected message type 0x{ord(code):02X} during COPY from stdin", where=source.where
                )


async def _take(copy: CopyIn, source: Source, offload: Offload, *, final: bool) -> None:
    """Hand on what has been decoded."""
    await _write(copy, source, await offload(source.pending_cells, partial(source.take, final=final)))
    if copy.skip is not None and isinstance(source, CopyInput):
        copy.skip(source.take_skipped())


async def _write(copy: CopyIn, source: Source, batches: list[RecordBatch]) -> None:
    try:
        for batch in batches:
            if batch.num_rows:
                await copy.write(batch)
    except SqlError as error:
        _place(error, source)
        raise


def _place(error: SqlError, source: Source) -> None:
    """Say where the row at fault was read."""
    if error.row is not None and error.where is None:
        error.where = source.places.of(error.row, shown=not isinstance(error, UniqueViolation))
