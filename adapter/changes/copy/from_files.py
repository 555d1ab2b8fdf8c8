"""COPY FROM files: a path, a pattern or a folder, and Parquet from the client.

Text, csv, binary and JSON files are decoded as the client's data is. Parquet files are read by an engine, as the source
of an INSERT. Either way the rows are in one transaction: all of them are there, or none.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from adapter.changes.copy.copy_in import run_copy_in
from adapter.changes.copy.copy_options import begin_progress, copied_into
from adapter.changes.with_changes import run_rows
from adapter.execution.statement import Running
from adapter.lake.copy_codec import Decoder
from adapter.lake.file_tables import file_table
from adapter.results import Command, CopyFormat, CopyIn, CopyProgress, RecordBatch
from adapter.store_errors import sql_error
from planner.copies.copy_texts import load_text
from planner.errors import InternalError, SqlError
from planner.files.read_calls import file_requests
from planner.ir.file_rows import FileRequest, FileTable
from planner.statements import records as st
from planner.syntax.parse import split_and_parse
from storage.catalog.model import Column, Relation, Schema
from storage.lake.formats import COPIED_SUFFIXES, FileFormat, packing_of, reading
from storage.lake.opened import OpenedFiles
from storage.lake.places import LakeFile, Places
from storage.lake.tables import LakeTables
from storage.lake.troubles import FileTrouble

BLOCK_BYTES = 4 << 20
"""Read of a text file at once."""


async def run_copy_from_files(running: Running, statement: st.Copy, path: str) -> Command:
    """COPY table FROM 'path'. Raises BeginAgain."""
    options = statement.options
    if options.format == "parquet":
        request = FileRequest(format="parquet", patterns=(path,))
        relation, columns = copied_into(running, statement)
        await running.session.look_up_requests(frozenset({request}))
        found = running.session.files[request]
        if isinstance(found, SqlError):
            raise found
        begin_progress(running, statement, relation).bytes_total = found.bytes
        return Command(tag=f"COPY {await _load(running, statement, relation, columns, path, found)}")
    copy = await run_copy_in(running, statement)
    codec, threads = running.services.copy_codec, running.services.file_threads
    if codec is None:
        raise InternalError("this server was opened without the formats of COPY")
    places = running.services.lake.places
    settings = running.session.values.flat
    try:
        files = await threads.run(partial(places.files, (path,), COPIED_SUFFIXES[options.format]))
        opened = OpenedFiles(places, {file.path: file for file in files})
        copy.progress.bytes_total = sum(file.size for file in files)
        for file in files:
            packing = packing_of(file.path) if options.compression is None else options.compression
            decoder = codec.decoder(copy.relation_name, copy.columns, copy.format, settings, names=copy.names)
            batches = _decoded(opened, file, None if packing == "none" else packing, decoder, copy.progress)
            while True:
                try:
                    batch = await threads.run(partial(next, batches, None))
                except SqlError as error:
                    error.where = f'{error.where or f"COPY {copy.relation_name}"}, file "{file.path}"'
                    raise
                if batch is None:
                    break
                await copy.write(batch)
            if copy.skip is not None:
                copy.skip(decoder.take_skipped())
            await threads.run(partial(places.check_unchanged, file))
    except FileTrouble as trouble:
        if trouble.kind == "missing" and trouble.hint is None:
            trouble.hint = await threads.run(partial(_other_format, places, path))
        raise sql_error(trouble) from trouble
    return Command(tag=f"COPY {await copy.finish()}")


def _other_format(places: Places, path: str) -> str | None:
    """What to do about files of another format, where `path` is a folder of such; None where it is none."""
    hints = {
        "parquet": "There are Parquet files: say (FORMAT parquet).",
        "json": "There are JSON files: say (FORMAT json).",
        "csv": "There are CSV files: say (FORMAT csv).",
        "orc": "There are ORC files, which INSERT INTO ... SELECT ... FROM read_orc(...) loads.",
        "text": "There are text files: say (FORMAT text).",
        "binary": "There are binary files: say (FORMAT binary).",
        "avro": "There are Avro files, which INSERT INTO ... SELECT ... FROM read_avro(...) loads.",
    }
    try:
        first = places.files((path,), tuple(suffix for suffixes in COPIED_SUFFIXES.values() for suffix in suffixes))[
            0
        ].path
    except FileTrouble:
        return None
    return next(hints[format] for format, suffixes in COPIED_SUFFIXES.items() if first.lower().endswith(suffixes))


def _decoded(
    opened: OpenedFiles, file: LakeFile, packing: str | None, decoder: Decoder, progress: CopyProgress
) -> Iterator[RecordBatch]:
    before = progress.bytes_processed
    with reading(file.path), opened.open(file.path) as raw:
        stream = raw if packing is None else pa.CompressedInputStream(raw, packing)
        while data := stream.read(BLOCK_BYTES):
            decoder.add(data)
            progress.bytes_processed = before + raw.tell()
            yield from (batch for batch in decoder.take() if batch.num_rows)
    yield from (batch for batch in decoder.take(final=True) if batch.num_rows)


async def _load(
    running: Running, statement: st.Copy, relation: Relation, columns: list[Column], path: str, table: FileTable
) -> int:
    """Insert the rows of `table`, which the session knows by `path`; their number."""
    catalog = running.transaction.catalog
    schema = catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    (parsed,) = split_and_parse(load_text(statement, schema.name, relation, columns, path, table))
    (request,) = file_requests(parsed)
    running.session.files = {request: table}
    await running.session.plan_ahead(parsed, catalog)
    outcome = await run_rows(running, running.session.plan(parsed, catalog))
    assert isinstance(outcome, Command)
    return int(outcome.tag.rpartition(" ")[2])


async def run_copy_from_client(running: Running, statement: st.Copy) -> CopyIn:
    """COPY table FROM STDIN with a Parquet file: kept aside until all of it has come."""
    relation, columns = copied_into(running, statement)
    folder = running.services.lake_scratch.new()
    threads = running.services.file_threads
    aside = _Aside(folder)

    async def write(batch: RecordBatch) -> None:
        await threads.run(partial(aside.add, batch))

    async def finish() -> int:
        try:
            table = await threads.run(aside.table)
            return await _load(running, statement, relation, columns, aside.path, table)
        except FileTrouble as trouble:
            raise sql_error(trouble) from trouble
        finally:
            await threads.run(aside.remove)

    async def abort(reason: BaseException | None) -> None:
        await threads.run(aside.remove)

    return CopyIn(
        relation_name=relation.name,
        columns=(),
        format=CopyFormat(format="raw"),
        write=write,
        finish=finish,
        abort=abort,
        progress=begin_progress(running, statement, relation),
    )


class _Aside:
    """What the client sends, in a file. Everything blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = str(folder / "stdin.parquet")

    def add(self, batch: RecordBatch) -> None:
        """Appends bytes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            for data in batch.column(0):
                file.write(data.as_buffer())

    def table(self) -> FileTable:
        """What has been sent, as a table. Raises FileTrouble."""
        self._folder.mkdir(parents=True, exist_ok=True)
        Path(self.path).touch()
        tables = LakeTables(Places((self._folder,)))
        try:
            return file_table(tables.table((self.path,), FileFormat(name="parquet"), hive=False))
        except FileTrouble as trouble:
            told = trouble.message.replace(f'file "{self.path}"', "the data").replace(self.path, "stdin")
            raise FileTrouble(trouble.kind, told, hint=trouble.hint) from trouble

    def remove(self) -> None:
        """Removes the file."""
        shutil.rmtree(self._folder, ignore_errors=True)
