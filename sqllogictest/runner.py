"""Running files against a server over a real connection.

Each file runs in a fresh schema of its own, dropped afterwards, so that files do not meet. A record that fails is
reported and the file goes on, as in the original; a lost connection ends the file.
"""

from __future__ import annotations

import difflib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from sqllogictest.client import Client, ConnectionFailed, QueryResult, ServerError
from sqllogictest.records import (
    Control,
    Halt,
    HashThreshold,
    Include,
    ParseError,
    Query,
    Record,
    Sleep,
    SortMode,
    Statement,
    parse_file,
)
from sqllogictest.results import format_rows, hash_line, result_hash, result_lines, sort_rows

_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_HASHING = re.compile(r"(\d+) values hashing to ([0-9a-f]{32})")
ORIGINAL_SUFFIX = ".test"


class Target(Struct, frozen=True, kw_only=True):
    """The server, and what conditions call it. `engine` is forced by SET engine where given (Tidegate)."""

    host: str
    port: int
    user: str
    database: str
    engine: str | None = None
    labels: frozenset[str] = frozenset({"postgresql", "postgres"})
    timeout_s: float = 300.0
    own_schema: bool = True


class Failure(Struct, frozen=True, kw_only=True):
    """A record that did not give what the file says."""

    place: str
    sql: str
    reason: str


class FileReport(Struct, kw_only=True):
    """The outcome of one file."""

    path: Path
    passed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    fatal: str | None = None
    """Why the file could not be read or finished."""

    @property
    def ok(self) -> bool:
        """Whether everything that ran passed."""
        return not self.failures and self.fatal is None


class _Mismatch(Exception):
    """A record failed; the text says how."""


class Replacement(Struct, frozen=True, kw_only=True):
    """Lines [start, end) of a file, 0-based, that completion replaces."""

    start: int
    end: int
    lines: list[str]


class FileRun:
    """One file against one target."""

    def __init__(self, path: Path, target: Target, *, complete: bool = False) -> None:
        self._path = path
        self._target = target
        self._complete = complete
        self._clients: dict[str, Client] = {}
        self._hash_threshold = 0
        self._sort = SortMode.NONE
        self._original = path.suffix == ORIGINAL_SUFFIX
        self._valuewise = self._original
        self._labels: dict[str, str] = {}
        self._replacements: dict[Path, list[Replacement]] = {}
        # Of this process, so that runs against one server do not meet either.
        self._schema = f"slt_{re.sub(r'[^a-z0-9]+', '_', path.stem.lower())}_{os.getpid()}"

    def run(self) -> FileReport:
        """Runs every record."""
        report = FileReport(path=self._path)
        started = time.monotonic()
        try:
            self._prepare_schema()
            self._run_records(parse_file(self._path), report)
            if self._complete:
                self._rewrite()
        except (ParseError, ConnectionFailed) as error:
            report.fatal = str(error)
        finally:
            report.seconds = time.monotonic() - started
            self._close(report)
        return report

    def _run_records(self, records: list[Record], report: FileReport) -> bool:
        """Says whether to go on (no halt)."""
        for record in records:
            if not self._applies(record):
                report.skipped += isinstance(record, Statement | Query)
                continue
            if isinstance(record, Halt):
                return False
            if isinstance(record, Include):
                for path in self._included(record):
                    if not self._run_records(parse_file(path), report):
                        return False
                continue
            try:
                self._run_record(record)
            except _Mismatch as mismatch:
                sql = record.sql if isinstance(record, Statement | Query) else ""
                report.failures.append(Failure(place=record.place, sql=sql, reason=str(mismatch)))
            else:
                report.passed += isinstance(record, Statement | Query)
        return True

    def _included(self, record: Include) -> Iterator[Path]:
        found = sorted(record.path.parent.glob(record.pattern))
        if not found:
            raise ParseError(f"{record.place}: nothing matches {record.pattern!r}")
        yield from found

    def _applies(self, record: Record) -> bool:
        return all((condition.name in self._target.labels) is condition.only for condition in record.conditions)

    # ------------------------------------------------------------ connections

    def _client(self, name: str) -> Client:
        client = self._clients.get(name)
        if client is None:
            target = self._target
            client = Client(
                host=target.host,
                port=target.port,
                user=target.user,
                database=target.database,
                timeout_s=target.timeout_s,
            )
            self._clients[name] = client
            if target.engine is not None:
                self._must(client, f"set engine = '{target.engine}'")
            if target.own_schema:
                self._must(client, f"set search_path = {self._schema}, public")
        return client

    def _must(self, client: Client, sql: str) -> None:
        error = client.query(sql).error
        if error is not None:
            raise ConnectionFailed(f"{sql}: {error.sqlstate}: {error.message}")

    def _prepare_schema(self) -> None:
        client = self._client("default")
        if self._target.own_schema:
            self._must(client, f"drop schema if exists {self._schema} cascade")
            self._must(client, f"create schema {self._schema}")

    def _close(self, report: FileReport) -> None:
        default = self._clients.pop("default", None)
        for client in self._clients.values():
            # Before the schema goes: an open transaction would hold it.
            client.close()
        if default is None:
            return
        try:
            if self._target.own_schema and report.fatal is None:
                default.query("rollback")
                default.query(f"drop schema if exists {self._schema} cascade")
        except ConnectionFailed as error:
            report.fatal = str(error)
        finally:
            default.close()

    # ------------------------------------------------------------ records

    def _run_record(self, record: Record) -> None:
        match record:
            case Statement():
                self._statement(record)
            case Query():
                self._query(record)
            case Sleep():
                time.sleep(record.seconds)
            case HashThreshold():
                self._hash_threshold = record.values
            case Control(name="sortmode"):
                self._sort = SortMode(record.value)
            case Control():
                self._valuewise = record.value == "valuewise"
            case _:
                raise AssertionError(f"unexpected record {record}")

    def _statement(self, record: Statement) -> None:
        result = self._client(record.connection).query(record.sql)
        if record.error is not None:
            self._expect_error(record, record.error, result)
            return
        _expect_success(result)
        if record.count is not None and result.count != record.count:
            raise _Mismatch(f"expected {record.count} rows, the command tag is {result.tags[-1:]}")

    def _expect_error(self, record: Statement | Query, pattern: str, result: QueryResult) -> None:
        if result.error is None:
            raise _Mismatch(f"expected an error{f' ({pattern})' if pattern else ''}, but it succeeded")
        if _matches(pattern, result.error):
            return
        if self._complete:
            line = record.line - 1
            kind = "statement" if isinstance(record, Statement) else "query"
            self._replace(record, line, line + 1, [f"{kind} error {result.error.sqlstate}"])
            return
        raise _Mismatch(f"expected error {pattern}\n  actual error {result.error.sqlstate}: {result.error.message}")

    def _query(self, record: Query) -> None:
        result = self._client(record.connection).query(record.sql)
        if record.error is not None:
            self._expect_error(record, record.error, result)
            return
        _expect_success(result)
        if record.types and not self._complete and len(record.types) != len(result.columns):
            raise _Mismatch(f"expected {len(record.types)} columns ({record.types}), got {len(result.columns)}")
        formatted = format_rows(result.rows, record.types, original=self._original)
        rows = sort_rows(formatted, record.sort or self._sort)
        self._check_label(record, rows)
        lines = result_lines(rows, valuewise=self._valuewise)
        if 0 < self._hash_threshold < sum(len(row) for row in rows):
            lines = [hash_line(rows)]
        if self._complete:
            self._complete_query(record, lines)
            return
        expected = record.expected
        hashed = _HASHING.fullmatch(expected[0]) if len(expected) == 1 else None
        if hashed is not None:
            lines = [hash_line(rows)]
        elif not self._valuewise:
            expected = [line.rstrip() for line in expected]
        if lines != expected:
            raise _Mismatch(_diff(expected, lines))

    def _check_label(self, record: Query, rows: list[list[str]]) -> None:
        if record.label is None:
            return
        digest = result_hash(rows)
        if self._labels.setdefault(record.label, digest) != digest:
            raise _Mismatch(f"the result differs from that of an earlier query with the label {record.label!r}")

    # ------------------------------------------------------------ completion

    def _complete_query(self, record: Query, lines: list[str]) -> None:
        start = record.separator_line if record.separator_line is not None else record.end_line
        self._replace(record, start, record.end_line, ["----", *lines])

    def _replace(self, record: Record, start: int, end: int, lines: list[str]) -> None:
        self._replacements.setdefault(record.path, []).append(Replacement(start=start, end=end, lines=lines))

    def _rewrite(self) -> None:
        for path, replacements in self._replacements.items():
            lines = path.read_text(encoding="utf-8").split("\n")
            for replacement in sorted(replacements, key=lambda one: one.start, reverse=True):
                lines[replacement.start : replacement.end] = replacement.lines
            path.write_text("\n".join(lines), encoding="utf-8")


def _expect_success(result: QueryResult) -> None:
    if result.error is not None:
        raise _Mismatch(f"unexpected error {result.error.sqlstate}: {result.error.message}")


def _matches(pattern: str, error: ServerError) -> bool:
    """Whether the error is the expected one: by SQLSTATE, or by a regular expression over the message."""
    if not pattern:
        return True
    bare = pattern[1:-1] if pattern.startswith("(") and pattern.endswith(")") else pattern
    if _SQLSTATE.fullmatch(bare):
        return error.sqlstate == bare
    try:
        return re.search(pattern, f"{error.sqlstate}: {error.message}") is not None
    except re.error as problem:
        raise _Mismatch(f"not a regular expression: {pattern!r}: {problem}") from problem


def _diff(expected: list[str], actual: list[str]) -> str:
    return "\n".join(difflib.unified_diff(expected, actual, "expected", "actual", lineterm="", n=2))
