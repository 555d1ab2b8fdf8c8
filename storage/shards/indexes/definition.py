"""What storage knows of an index: its key columns in their order, whether it is unique, and which rows it has.

Storage evaluates no SQL. A key column is a stored column, or an expression that its owner evaluates over stored
columns (`Computed`); a partial index has a predicate of the latter kind. `fingerprint` names everything that the keys
follow from, so that keys made for another definition are never taken for these.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from storage.shards.columns.widening import widened

KEY_FORMAT = 1
"""Version of how keys are made (`storage.shards.indexes.keys`). Another one makes other fingerprints."""

RUN_VERSION = 2
"""Format of key runs (`storage.shards.indexes.runs`). One of another format is of another definition: what is stored
in an older one is made again, as what an index lacks is."""


class Domain(enum.Enum):
    """How the values of a type compare."""

    INTEGER = "integer"
    """Integers, booleans, dates, times and timestamps, by their numbers."""
    FLOAT = "float"
    """NaN equals itself and is above every number; -0.0 equals 0.0."""
    DECIMAL = "decimal"
    """By value, whatever the scale."""
    TEXT = "text"
    """By the bytes of the UTF-8 form: the C collation."""
    BYTES = "bytes"
    INTERVAL = "interval"
    """By length, with months of 30 days and days of 24 hours."""


class StoredColumn(Struct, frozen=True, kw_only=True):
    """A column as its table has it now: its physical name, its type (parts may have a narrower one), and the value that
    rows have which are older than the column (None: NULL)."""

    name: str
    type: pa.DataType
    missing: pa.Scalar | None = None

    def conform(self, stored: Any, rows: int) -> Any:
        """The column of `rows` rows, in its type. `stored`: what their part has of it (an array of any kind); None: the
        rows are older."""
        if stored is None:
            return pa.repeat(pa.scalar(None, self.type) if self.missing is None else self.missing, rows)
        return stored if stored.type == self.type else widened(stored, self.type)


class Computed(Struct, frozen=True, kw_only=True):
    """An expression over stored columns. `evaluate` gets a table with the `inputs` under their names (and perhaps
    others) and returns a value for each row; it runs in any thread. `text` is its meaning: the same text, the same
    values."""

    text: str
    type: pa.DataType
    inputs: tuple[StoredColumn, ...]
    evaluate: Callable[[pa.Table], pa.Array]
    quick: bool = False
    """Whether `evaluate` may run on the event loop, where rows are few: it takes microseconds, and never waits."""


class KeyColumn(Struct, frozen=True, kw_only=True):
    """One column of an index. `padded`: blanks at the end do not count (character(n)).

    Raises TypeError when values of the type have no order that storage knows.
    """

    source: StoredColumn | Computed
    descending: bool = False
    nulls_first: bool = False
    padded: bool = False
    domain: Domain = Domain.INTEGER
    """Follows from the type; what is given is not looked at."""

    def __post_init__(self) -> None:
        domain = domain_of(self.source.type)
        if domain is None:
            raise TypeError(f"values of type {self.source.type} cannot be keys")
        msgspec.structs.force_setattr(self, "domain", domain)


class IndexDefinition(Struct, frozen=True, kw_only=True):
    """One index of a table.

    `hashed` indexes find equal keys, `ordered` ones also ranges and the order. Several rows may have one key, also in a
    unique index: uniqueness is for those to enforce who write, with what they find here. Make it once and keep it.
    """

    id: int
    columns: tuple[KeyColumn, ...]
    unique: bool = False
    nulls_not_distinct: bool = False
    predicate: Computed | None = None
    hashed: bool = True
    ordered: bool = True
    fingerprint: str = ""
    in_threads: bool = False
    """Whether its keys are computed in threads alone. This and the fingerprint follow from the rest."""

    def __post_init__(self) -> None:
        if not self.columns or not (self.hashed or self.ordered):
            raise ValueError("an index has columns, and finds keys or orders them")
        sources = [self.predicate, *(column.source for column in self.columns)]
        in_threads = any(isinstance(source, Computed) and not source.quick for source in sources)
        msgspec.structs.force_setattr(self, "fingerprint", _fingerprint(self))
        msgspec.structs.force_setattr(self, "in_threads", in_threads)

    @property
    def inputs(self) -> tuple[StoredColumn, ...]:
        """The stored columns that keys and predicate follow from, each once."""
        sources = [column.source for column in self.columns]
        if self.predicate is not None:
            sources.append(self.predicate)
        found: dict[str, StoredColumn] = {}
        for source in sources:
            for column in (source,) if isinstance(source, StoredColumn) else source.inputs:
                found.setdefault(column.name, column)
        return tuple(found.values())


def domain_of(type_: pa.DataType) -> Domain | None:
    """How values of `type_` compare; None when storage does not know."""
    types = pa.types
    if types.is_signed_integer(type_) or types.is_boolean(type_) or types.is_date32(type_):
        return Domain.INTEGER
    if types.is_timestamp(type_) or types.is_time(type_):
        return Domain.INTEGER
    if types.is_float32(type_) or types.is_float64(type_):
        return Domain.FLOAT
    if types.is_decimal128(type_):
        return Domain.DECIMAL
    if types.is_string(type_) or types.is_large_string(type_):
        return Domain.TEXT
    if types.is_binary(type_) or types.is_large_binary(type_):
        return Domain.BYTES
    if types.is_struct(type_) and [field.name for field in type_] == ["months", "days", "micros"]:
        return Domain.INTERVAL
    return None


def _fingerprint(definition: IndexDefinition) -> str:
    columns = [(_source(c.source), c.descending, c.nulls_first, c.padded, c.domain.value) for c in definition.columns]
    predicate = None if definition.predicate is None else _source(definition.predicate)
    text = repr((KEY_FORMAT, RUN_VERSION, columns, predicate, definition.hashed, definition.ordered))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _source(source: StoredColumn | Computed) -> tuple[object, ...]:
    if isinstance(source, StoredColumn):
        missing = None if source.missing is None or not source.missing.is_valid else str(source.missing)
        return "column", source.name, str(source.type), missing
    return "computed", source.text, str(source.type), tuple(_source(column) for column in source.inputs)
