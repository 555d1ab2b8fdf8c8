"""COPY's text, csv and binary formats, for files of the server. The opener of a server gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from adapter.results import ColumnDescription, CopyFormat, RecordBatch, SkippedRow
from planner.values.text_values import Names
from storage.lake.output.row_files import Encoder


class Decoder(Protocol):
    """The rows of one file, from its bytes in pieces."""

    def add(self, data: bytes) -> None:
        """Take the next bytes."""

    def take(self, *, final: bool = False) -> list[RecordBatch]:
        """The batches in what has been added; after the last bytes `final`. Raises what is wrong with them."""

    def take_skipped(self) -> list[SkippedRow]:
        """The rows that have been left out since this was last asked."""


class CopyCodec(Protocol):
    """Makes what reads and writes files, one for each of them."""

    def decoder(
        self,
        relation: str,
        columns: tuple[ColumnDescription, ...],
        format: CopyFormat,
        settings: Mapping[str, str],
        *,
        names: Names | None = None,
    ) -> Decoder:
        """What reads one file; `names` finds what regclass and its like name."""

    def encoder(
        self, columns: tuple[ColumnDescription, ...], format: CopyFormat, settings: Mapping[str, str]
    ) -> Encoder:
        """What writes one file."""
