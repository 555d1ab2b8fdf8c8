"""What COPY from and to files of the server is decoded and encoded with: the same as COPY from and to the client."""

from __future__ import annotations

from collections.abc import Mapping

from adapter.results import ColumnDescription, CopyFormat
from frontend.copy.binary_input import CopyBinaryInput
from frontend.copy.json_input import CopyJsonInput
from frontend.copy.output import CopyOutput
from frontend.copy.text_input import CopyInput
from frontend.copy.transcoding import encoding_of
from frontend.encoding.settings import format_settings
from planner.catalog_data.encodings import UTF8
from planner.values.text_values import Names


class FileCodec:
    """The text, csv, binary and JSON formats; see `adapter.lake.copy_codec`."""

    def decoder(
        self,
        relation: str,
        columns: tuple[ColumnDescription, ...],
        format: CopyFormat,
        settings: Mapping[str, str],
        *,
        names: Names | None = None,
    ) -> CopyInput | CopyBinaryInput | CopyJsonInput:
        """What reads one file."""
        if format.format == "json":
            return CopyJsonInput(relation, columns, format, settings, names=names)
        if format.format == "binary":
            return CopyBinaryInput(relation, columns, encoding_of(format, settings.get("client_encoding", UTF8)))
        return CopyInput(relation, columns, format, settings, names=names)

    def encoder(
        self, columns: tuple[ColumnDescription, ...], format: CopyFormat, settings: Mapping[str, str]
    ) -> CopyOutput:
        """What writes one file."""
        return CopyOutput(columns, format, format_settings(settings), framed=False)
