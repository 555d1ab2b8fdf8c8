"""COPY and its options."""

from __future__ import annotations

from typing import Literal as OneOf

from msgspec import Struct

from planner.syntax.parse import Parsed
from planner.syntax.qualified_names import QualifiedName


class CopyOptions(Struct, frozen=True, kw_only=True):
    """Options of COPY, defaults filled in by format. Column lists are names, those of `force_...` None for `*`.
    `default` is the text that stands for a column's default. `compression` is None where it was not given, `file_size`
    is in bytes."""

    format: OneOf["text", "csv", "binary", "parquet", "json"] = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    header_match: bool = False
    quote: str = '"'
    escape: str = '"'
    force_quote: tuple[str, ...] | None = ()
    force_not_null: tuple[str, ...] | None = ()
    force_null: tuple[str, ...] | None = ()
    default: str | None = None
    ignores_errors: bool = False
    reject_limit: int | None = None
    log_verbosity: OneOf["default", "verbose", "silent"] = "default"
    freeze: bool = False
    encoding: str | None = None
    compression: str | None = None
    partition_by: tuple[str, ...] = ()
    file_size: int | None = None


class Copy(Struct, frozen=True, kw_only=True):
    """COPY. One of `table` and `query` is set. `filename` is None for STDIN / STDOUT; `program` tells what `filename`
    is. `where` is the FROM filter."""

    table: QualifiedName | None
    query: Parsed | None
    columns: tuple[str, ...]
    is_from: bool
    filename: str | None
    program: bool
    options: CopyOptions
    where: Parsed | None = None
