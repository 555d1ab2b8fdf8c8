"""Reading .slt and .test files: the original sqllogictest format and the extensions of sqllogictest-rs in common use.

A file is a list of records; each knows the lines it came from, so that it can be reported and rewritten. Files named
*.test hold one value per line, formatted as the original's C runner does; all others hold one row per line, verbatim.
`system` records are never accepted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any


class ParseError(Exception):
    """The file is not in the format; the message says where."""


class SortMode(Enum):
    """How a result is sorted before it is compared."""

    NONE = "nosort"
    ROWS = "rowsort"
    VALUES = "valuesort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """`onlyif NAME` or `skipif NAME`."""

    only: bool
    name: str


@dataclass(slots=True, kw_only=True)
class Record:
    """What all records have: where they stand (1-based line), their conditions, and the connection they run on."""

    path: Path
    line: int
    first_line: int
    end_line: int
    """Lines [first_line, end_line) of the file are this record's, 0-based."""
    conditions: tuple[Condition, ...] = ()
    connection: str = "default"

    @property
    def place(self) -> str:
        """file:line, for people."""
        return f"{self.path}:{self.line}"


@dataclass(slots=True, kw_only=True)
class Statement(Record):
    """`statement ok | error [pattern] | count N`."""

    sql: str
    error: str | None = None
    """The expected error: a SQLSTATE, a regular expression, or empty for any. None when it must succeed."""
    count: int | None = None


@dataclass(slots=True, kw_only=True)
class Query(Record):
    """`query TYPES [SORTMODE] [LABEL]` with its expected lines; `separator_line` is where its ---- stands (0-based), or
    None."""

    sql: str
    types: str
    sort: SortMode | None
    label: str | None
    expected: list[str] = field(default_factory=list)
    error: str | None = None
    separator_line: int | None = None


@dataclass(slots=True, kw_only=True)
class Sleep(Record):
    """`sleep DURATION`."""

    seconds: float


@dataclass(slots=True, kw_only=True)
class HashThreshold(Record):
    """`hash-threshold N`: results of more than N values are compared by their MD5; 0 turns it off."""

    values: int


@dataclass(slots=True, kw_only=True)
class Control(Record):
    """`control sortmode | resultmode VALUE`."""

    name: str
    value: str


@dataclass(slots=True, kw_only=True)
class Include(Record):
    """`include GLOB`, relative to the file."""

    pattern: str


@dataclass(slots=True, kw_only=True)
class Halt(Record):
    """`halt`: the rest of the file is not run."""


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_TYPES = re.compile(r"[A-Z?]+")


class _Parser:
    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = text.split("\n")
        self.position = 0
        self.conditions: list[Condition] = []
        self.connection = "default"
        self.first_line = 0

    def fail(self, reason: str) -> ParseError:
        return ParseError(f"{self.path}:{self.position + 1}: {reason}")

    def parse(self) -> list[Record]:
        records: list[Record] = []
        while self.position < len(self.lines):
            line = self.lines[self.position].strip()
            if not line or line.startswith("#"):
                self.position += 1
                continue
            if not self.conditions and self.connection == "default":
                self.first_line = self.position
            record = self.directive(line.split())
            if record is not None:
                records.append(record)
                self.conditions, self.connection = [], "default"
        return records

    def directive(self, words: list[str]) -> Record | None:
        match words:
            case ["skipif" | "onlyif" as kind, name, *_]:
                self.conditions.append(Condition(only=kind == "onlyif", name=name))
            case ["connection", name]:
                self.connection = name
            case ["subtest", *_]:
                pass
            case ["statement", *rest]:
                return self.statement(rest)
            case ["query", *rest]:
                return self.query(rest)
            case ["halt", *_]:
                return self.simple(Halt)
            case ["sleep", duration]:
                return self.simple(Sleep, seconds=self.duration(duration))
            case ["hash-threshold", count] if count.isdecimal():
                return self.simple(HashThreshold, values=int(count))
            case ["control", "sortmode" | "resultmode" as name, value]:
                return self.simple(Control, name=name, value=value)
            case ["include", pattern]:
                return self.simple(Include, pattern=pattern)
            case ["system", *_]:
                raise self.fail("system records are not run")
            case _:
                raise self.fail(f"unknown record {' '.join(words)!r}")
        self.position += 1
        return None

    def duration(self, text: str) -> float:
        match = _DURATION.fullmatch(text)
        if match is None:
            raise self.fail(f"not a duration: {text!r}")
        return float(match[1]) * _UNITS[match[2] or "s"]

    def common(self, line: int) -> dict[str, Any]:
        return {
            "path": self.path,
            "line": line + 1,
            "first_line": self.first_line,
            "end_line": self.position,
            "conditions": tuple(self.conditions),
            "connection": self.connection,
        }

    def simple(self, kind: type[Record], **values: Any) -> Record:
        line = self.position
        self.position += 1
        return kind(**self.common(line), **values)

    def block(self) -> list[str]:
        """The lines up to a blank one or ----."""
        found: list[str] = []
        while self.position < len(self.lines):
            line = self.lines[self.position]
            if not line.strip() or line.strip() == "----":
                break
            found.append(line.rstrip("\r"))
            self.position += 1
        return found

    def at_separator(self) -> bool:
        return self.position < len(self.lines) and self.lines[self.position].strip() == "----"

    def error_pattern(self, words: list[str]) -> str:
        """What follows `error` on the line; the rest of the line may hold blanks that split() lost."""
        if not words:
            return ""
        line = self.lines[self.position]
        return line[line.index("error") + len("error") :].strip()

    def message_block(self) -> str:
        """An expected message after ----, up to two blank lines."""
        self.position += 1
        found: list[str] = []
        while self.position < len(self.lines):
            here = self.lines[self.position].strip()
            after = self.lines[self.position + 1].strip() if self.position + 1 < len(self.lines) else ""
            if not here and not after:
                break
            found.append(self.lines[self.position])
            self.position += 1
        return re.escape("\n".join(found).strip())

    def statement(self, words: list[str]) -> Statement:
        line = self.position
        error: str | None = None
        count: int | None = None
        match words:
            case ["ok", *_]:
                pass
            case ["error", *rest]:
                error = self.error_pattern(rest)
            case ["count", number] if number.isdecimal():
                count = int(number)
            case _:
                raise self.fail("expected statement ok, error or count N")
        self.position += 1
        sql = "\n".join(self.block())
        if self.at_separator():
            if error is None:
                raise self.fail("a statement has no results")
            error = self.message_block()
        return Statement(**self.common(line), sql=sql, error=error, count=count)

    def query(self, words: list[str]) -> Query:
        line = self.position
        if words[:1] == ["error"]:
            error = self.error_pattern(words[1:])
            self.position += 1
            sql = "\n".join(self.block())
            if self.at_separator():
                error = self.message_block()
            return Query(**self.common(line), sql=sql, types="", sort=None, label=None, error=error)
        types = words[0] if words else ""
        if types and not _TYPES.fullmatch(types):
            raise self.fail(f"not a list of column types: {types!r}")
        sort, label = None, None
        for word in words[1:]:
            if word in {mode.value for mode in SortMode}:
                sort = SortMode(word)
            else:
                label = word
        self.position += 1
        sql = "\n".join(self.block())
        expected: list[str] = []
        separator: int | None = None
        if self.at_separator():
            separator = self.position
            self.position += 1
            while self.position < len(self.lines) and self.lines[self.position].strip():
                expected.append(self.lines[self.position].rstrip("\r"))
                self.position += 1
        return Query(
            **self.common(line),
            sql=sql,
            types=types,
            sort=sort,
            label=label,
            expected=expected,
            separator_line=separator,
        )


def parse_file(path: Path) -> list[Record]:
    """The records of a file. Raises ParseError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ParseError(f"{path}: {error}") from error
    return _Parser(path, text).parse()
