"""COPY, by where the data is: with the client, or in files that the server reaches."""

from __future__ import annotations

from adapter.changes.copy.copy_in import run_copy_in
from adapter.changes.copy.copy_options import check_file
from adapter.changes.copy.copy_out import run_copy_out
from adapter.changes.copy.from_files import run_copy_from_client, run_copy_from_files
from adapter.changes.copy.to_files import run_copy_to_client, run_copy_to_files
from adapter.execution.statement import Outcome, Running
from planner.errors import FeatureNotSupported
from planner.statements import records as st


async def run_copy(running: Running, statement: st.Copy) -> Outcome:
    """COPY in either direction. Raises BeginAgain."""
    check_file(running, statement)
    options = statement.options
    if statement.filename is not None:
        if statement.is_from:
            return await run_copy_from_files(running, statement, statement.filename)
        return await run_copy_to_files(running, statement, statement.filename)
    if options.partition_by or options.file_size is not None:
        raise FeatureNotSupported("COPY TO STDOUT writes no folder: PARTITION_BY and FILE_SIZE need a path")
    if options.format == "parquet":
        return await (run_copy_from_client if statement.is_from else run_copy_to_client)(running, statement)
    if options.compression not in (None, "none"):
        raise FeatureNotSupported(f"COPY {options.format} with the client is not compressed")
    if options.format == "json" and not statement.is_from:
        return await run_copy_to_client(running, statement)
    return await (run_copy_in if statement.is_from else run_copy_out)(running, statement)
