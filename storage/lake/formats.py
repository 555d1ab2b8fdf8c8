"""The formats of files: their suffixes, the columns of one file, and its rows as Arrow reads them.

Whatever a library says of a file that it cannot read becomes a FileTrouble that names the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from storage.lake.in_utf8 import InUtf8, WithLineEnd
from storage.lake.json_rows import inferred_schema
from storage.lake.troubles import FileTrouble, malformed, trouble_of

FormatName: TypeAlias = Literal["parquet", "orc", "avro", "csv", "json"]

_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""By the end of a text file's name: how it is packed."""

_COMPRESSED = ("", *_CODECS)

_ARROW_NAMES = {".zst": ".zstd", ".lz4": ".lz4_frame"}
"""What Arrow's datasets expect at the end of a name that they have to unpack, where that differs."""

SUFFIXES: dict[FormatName, tuple[str, ...]] = {
    "parquet": (".parquet", ".parq", ".pq"),
    "orc": (".orc",),
    "avro": (".avro",),
    "csv": tuple(f".{name}{packed}" for name in ("csv", "tsv") for packed in _COMPRESSED),
    "json": tuple(f".{name}{packed}" for name in ("json", "jsonl", "ndjson") for packed in _COMPRESSED),
}
"""What names of files of a format end in."""

COPIED_SUFFIXES: dict[str, tuple[str, ...]] = {
    **{str(name): suffixes for name, suffixes in SUFFIXES.items()},
    "text": tuple(f".{name}{packed}" for name in ("txt", "tsv", "csv") for packed in _COMPRESSED),
    "binary": tuple(f".bin{packed}" for packed in _COMPRESSED),
}
"""The same of the formats of COPY."""

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""A folder's value that is NULL."""

BLOCK_BYTES = 1 << 20
"""A text file's columns are inferred from so much of its beginning, and it is read in such pieces."""


class FileFormat(Struct, frozen=True, kw_only=True):
    """A format with its options; all but `name` are about CSV. `null` is the text that means NULL unless it is
    quoted; `encoding` is Python's codec of the texts; `blank_rows`: a line without any text is a row, as it is where
    there is one column, whose value is NULL then."""

    name: FormatName
    header: bool = True
    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null: str = ""
    encoding: str = "utf-8"
    blank_rows: bool = False

    @property
    def typed(self) -> bool:
        """Whether the files say what types their columns have."""
        return self.name in ("parquet", "orc", "avro")

    @property
    def quoted(self) -> bool:
        """Whether it has values that may end only after the end of a line (`storage.lake.quotes`)."""
        return self.name == "csv" and self.quote is not None

    @property
    def followed(self) -> bool:
        """Whether what is read of a file passes this process: for its quotes, or to be UTF-8."""
        return self.quoted or self.encoding != "utf-8"

    @property
    def is_doubled(self) -> bool:
        """Whether a quote within a value in quotes is written twice."""
        return self.escape is None or self.escape == self.quote

    @property
    def streamed(self) -> bool:
        """Whether Arrow has no datasets of such files: they are read from beginning to end."""
        return self.name == "avro"

    def schema(self, path: str, files: Any, size: int) -> pa.Schema | None:
        """The columns of a file of the `OpenedFiles`, None for a text file without any content. Raises
        FileTrouble (malformed and what opening raises)."""
        if not self.typed and not size:
            return None
        with reading(path), files.open(path) as file:
            if self.name == "parquet":
                import pyarrow.parquet as pq

                opened = pq.ParquetFile(file)
                found = opened.schema_arrow.remove_metadata()
                return found.with_metadata({_FOR_ARROW: b""}) if codec_of_arrow(opened.metadata) else found
            if self.name == "orc":
                import pyarrow.orc as po

                return po.ORCFile(file).schema.remove_metadata()
            if self.name == "avro":
                from storage.lake.avro import schema_of

                return schema_of(path, file)
            if self.name == "csv":
                found = self._csv_schema(path, file)
                if found is not None and len(found) == 1:
                    with files.open(path) as again:
                        blank = replace(self, blank_rows=True)._csv_schema(path, again)
                    if blank is not None and blank.names == found.names:
                        return blank.with_metadata({_BLANK_ROWS: b""})
                return found
            return inferred_schema(path, unpacked(path, file), BLOCK_BYTES)

    def _csv_schema(self, path: str, file: Any) -> pa.Schema | None:
        import pyarrow.csv as pc

        stream = unpacked(path, file)
        if self.encoding != "utf-8":
            stream = InUtf8(path, stream, self.encoding)
        stream = pa.PythonFile(WithLineEnd(stream), mode="r")
        try:
            schema = pc.open_csv(stream, self.csv_read(), self.csv_parse(), self._csv_convert(None)).schema
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return None
            raise
        for field in schema:
            if pa.types.is_binary(field.type):  # What Arrow takes texts for that it cannot decode.
                raise FileTrouble("malformed", f'could not read file "{path}": column "{field.name}" is not in UTF-8')
        return schema

    def dataset_format(self, schema: pa.Schema) -> Any:
        """What reads files as `schema`."""
        import pyarrow.dataset as ds

        if self.name == "parquet":
            return ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True))
        if self.name == "orc":
            return ds.OrcFileFormat()
        if self.name == "csv":
            options = ds.CsvFragmentScanOptions(self._csv_convert(schema), self.csv_read())
            return ds.CsvFileFormat(self.csv_parse(), options)
        import pyarrow.json as pj

        return ds.JsonFileFormat(
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            read_options=pj.ReadOptions(block_size=BLOCK_BYTES),
        )

    def csv_read(self) -> Any:
        """How a CSV file is read in blocks."""
        import pyarrow.csv as pc

        return pc.ReadOptions(block_size=BLOCK_BYTES, autogenerate_column_names=not self.header)

    def csv_parse(self) -> Any:
        """How the rows of a CSV file are written."""
        import pyarrow.csv as pc

        return pc.ParseOptions(
            delimiter=self.delimiter,
            quote_char=self.quote if self.quote is not None else False,
            double_quote=self.is_doubled,
            escape_char=False if self.is_doubled else self.escape,
            newlines_in_values=True,
            ignore_empty_lines=not self.blank_rows,
        )

    def _csv_convert(self, schema: pa.Schema | None) -> Any:
        import pyarrow.csv as pc

        options: dict[str, Any] = {"column_types": schema} if schema is not None else {}
        return pc.ConvertOptions(
            null_values=[self.null], strings_can_be_null=True, quoted_strings_can_be_null=False, **options
        )


def codec_of_arrow(metadata: Any) -> str | None:
    """The codec of a Parquet file with this footer that Spark has not, if there is one."""
    codecs = (
        metadata.row_group(group).column(column).compression
        for group in range(min(1, metadata.num_row_groups))
        for column in range(metadata.num_columns)
    )
    return next((codec for codec in codecs if codec not in _CODECS_OF_ALL), None)


_CODECS_OF_ALL = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4"})
_FOR_ARROW = b"tidegate.for_arrow"
_BLANK_ROWS = b"tidegate.blank_rows"


def is_for_arrow(schema: pa.Schema) -> bool:
    """Whether the file with these columns is one that Arrow alone reads."""
    return _FOR_ARROW in (schema.metadata or {})


def has_blank_rows(schema: pa.Schema) -> bool:
    """Whether lines without text are rows of the CSV file with these columns."""
    return _BLANK_ROWS in (schema.metadata or {})


UNPACKED = ".unpacked"
"""What a dataset finds at the end of the name of a file that is unpacked for it."""


def arrow_name(path: str) -> str:
    """`path` as a dataset knows it, so that it unpacks the file: see `real_path`."""
    return path + _ARROW_NAMES.get("." + path.rpartition(".")[2].lower(), "")


def real_path(name: str) -> str:
    """The path that `arrow_name` made `name` of, or that `UNPACKED` was added to."""
    if name.endswith(UNPACKED):
        return name[: -len(UNPACKED)]
    for ending, added in _ARROW_NAMES.items():
        if name.lower().endswith(ending + added):
            return name[: -len(added)]
    return name


def packing_of(path: str) -> str | None:
    """How the file at `path` is packed, by the end of its name."""
    return _CODECS.get("." + path.rpartition(".")[2].lower())


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns what reading the file at `path` raises into FileTrouble."""
    try:
        yield
    except FileTrouble:
        raise
    except pa.ArrowException as error:
        raise malformed(path, error) from error
    except OSError as error:
        if error.errno is None:
            raise malformed(path, error) from error
        raise trouble_of(path, error) from error


def unpacked(path: str, file: Any) -> Any:
    """The opened text file at `path`, as its name says that it is packed."""
    codec = packing_of(path)
    return file if codec is None else pa.CompressedInputStream(file, codec)
