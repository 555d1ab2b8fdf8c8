"""The tables that random queries read, and what each column's type is in the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.generated.vocabulary import CONSTANTS

SCHEMA = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
"""What makes the tables, in a schema of their own."""
TYPE_NAMES: Mapping[str, str] = {
    **{kind: kind for kind in CONSTANTS},
    "float": "float8",
    "range": "int4range",
    "bit": "bit(4)",
    "multirange": "int4multirange",
    "matrix": "int[]",
}
"""How SQL writes each type of the vocabulary."""
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "n": {"id": "int", "i2": "int", "i4": "int", "i8": "bigint", "num": "numeric", "f8": "float", "b": "bool"},
    "s": {"id": "int", "t": "text", "v": "text", "u": "uuid", "bt": "bytea"},
    "d": {"id": "int", "dt": "date", "tm": "time", "ts": "timestamp", "tz": "timestamptz", "iv": "interval"},
    "j": {"id": "int", "ia": "int[]", "ta": "text[]", "jb": "jsonb", "r": "range", "bi": "bit"},
    "k": {
        "id": "int", "tt": "timetz", "mr": "multirange", "dr": "daterange", "nr": "numrange", "mo": "mood",
        "md": "modest", "pa": "pair", "mx": "matrix", "ip": "inet",
    },
    "emp": {"id": "int", "dept": "text", "name": "text", "salary": "numeric", "hired": "date", "boss": "int"},
    "nothing": {"id": "int", "x": "text", "y": "numeric"},
    "staff": {"id": "int", "name": "text", "chief": "text", "salary": "numeric"},
}  # fmt: skip
TARGET: Mapping[str, str] = {
    "id": "int", "i": "int", "b": "bigint", "num": "numeric", "f8": "float", "t": "text", "o": "bool", "dt": "date",
    "ts": "timestamp", "tz": "timestamptz", "iv": "interval", "tm": "time", "jb": "jsonb", "ia": "int[]",
    "ta": "text[]", "u": "uuid", "bt": "bytea", "r": "range", "bi": "bit", "tt": "timetz", "mr": "multirange",
    "dr": "daterange", "nr": "numrange", "mo": "mood", "md": "modest", "pa": "pair", "mx": "matrix", "ip": "inet",
    "g": "int",
}  # fmt: skip
"""The columns of the table that is changed."""
