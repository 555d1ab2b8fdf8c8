r"""Carrying a file out on both servers, statement by statement.

PostgreSQL leads: the data of a COPY, the branches of `\if` and the statements of `\gexec` are its. Tidegate reads and
writes no files of its host for COPY, so a COPY from or to a file is sent to it as one from STDIN or to STDOUT, with the
file's contents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.regression.compare import Difference, difference, is_to_the_word
from tests.regression.reasons import Reasons
from tests.regression.script import Command, Script, Statement, Template, expand, truth, words
from tests.regression.target import Outcome, Target

_SERVER_FILE = re.compile(r"(?P<way>\bfrom|\bto)\s+E?'(?P<path>/[^']*)'", re.IGNORECASE)
_PSQL_COPY = re.compile(r"(?P<way>\bfrom|\bto)\s+(?:'(?P<path>[^']*)'|p?(?P<standard>stdin|stdout)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Record:
    """What came of one statement: how the answers differ, and why. `follows` says that an earlier statement which was
    refused or answered otherwise is the cause."""

    file: str
    line: int
    sql: str
    difference: Difference
    reason: str
    follows: bool
    to_the_word: bool
    wanted: Outcome
    got: Outcome


class Servers:
    """Both servers. `revive` starts Tidegate again when it is gone; `one_database` says that it has no other."""

    def __init__(
        self,
        postgres: Target,
        tidegate: Target,
        *,
        environment: Mapping[str, str],
        revive: Callable[[], None],
        one_database: bool,
    ) -> None:
        self.postgres = postgres
        self.tidegate = tidegate
        self.environment = environment
        self.reasons = Reasons()
        self._revive = revive
        self._one_database = one_database
        self.skipped = 0
        """Backslash commands that show something and are not run."""

    def run(self, path: Path) -> Iterator[Record]:
        """Carry out one file over fresh connections."""
        name = path.stem
        for target in (self.postgres, self.tidegate):
            target.variables = {}
            if not target.connect(application=f"pg_regress/{name}"):
                self._revive()
                assert target.connect(application=f"pg_regress/{name}"), "the server accepts no connection"
        self.reasons.begin_file()
        text = path.read_bytes().decode(errors="surrogateescape")
        script = Script(text, lambda text: truth(" ".join(words(text, self.postgres.variables))))
        for item in script:
            if isinstance(item, Command):
                record = self._command(name, item, script)
                if record is None and item.name in ("q", "quit"):
                    break
                records = [] if record is None else [record]
            else:
                records = list(self._statement(name, item, script))
            yield from records
            script.standard_strings = self.postgres.setting("standard_conforming_strings") != "off"

    # ------------------------------------------------------------ one statement

    def _statement(self, file: str, item: Statement, script: Script) -> Iterator[Record]:
        if item.command == "gdesc":
            yield self._both(file, item.line, item.template, script, describe=True)
            return
        record = self._both(file, item.line, item.template, script)
        yield record
        if item.command == "gset":
            self._keep(item.arguments, record)
        elif item.command == "gexec":
            cells = [cell for answer in record.wanted.answers for row in answer.rows for cell in row if cell]
            for cell in cells:
                yield self._both(file, item.line, (cell,), script)

    def _keep(self, arguments: str, record: Record) -> None:
        """psql's `\\gset`: the columns of the only row become variables."""
        for target, outcome in ((self.postgres, record.wanted), (self.tidegate, record.got)):
            answer = outcome.answers[-1] if outcome.answers else None
            if answer is None or answer.columns is None or len(answer.rows) != 1:
                continue
            prefix = "".join(words(arguments, target.variables)[:1])
            for (column, _), value in zip(answer.columns, answer.rows[0], strict=True):
                if value is None:
                    target.variables.pop(prefix + column, None)
                else:
                    target.variables[prefix + column] = value

    def _both(
        self,
        file: str,
        line: int,
        template: Template,
        script: Script,
        *,
        describe: bool = False,
        data: str | None = None,
    ) -> Record:
        sql = expand(template, self.postgres.variables)
        ours = expand(template, self.tidegate.variables)
        if describe:
            return self._record(file, line, sql, self.postgres.describe(sql), self.tidegate.describe(ours))
        read: list[str] = [] if data is None else [data]

        def lines() -> str:
            if not read:
                read.append(script.copy_lines())
            return read[0]

        wanted = self.postgres.run(sql, lines)
        got = self._run_ours(ours, (lambda: read[0]) if read else None)
        self.postgres.variables |= _facts(wanted)
        self.tidegate.variables |= _facts(got)
        return self._record(file, line, sql, wanted, got)

    def _run_ours(self, sql: str, lines: Callable[[], str] | None) -> Outcome:
        match = _SERVER_FILE.search(sql) if sql.lstrip().lower().startswith("copy") else None
        if match is None:
            return self.tidegate.run(sql, lines)
        path = Path(match["path"])
        is_reading = match["way"].lower() == "from"
        sent = f"{sql[: match.start()]}{match['way']} {'stdin' if is_reading else 'stdout'}{sql[match.end() :]}"
        outcome = self.tidegate.run(
            sent, lambda: path.read_bytes().decode(errors="surrogateescape") if is_reading else ""
        )
        outcome.answers = [answer for answer in outcome.answers if answer.copied is None]
        return outcome

    def _record(self, file: str, line: int, sql: str, wanted: Outcome, got: Outcome) -> Record:
        found = difference(sql, wanted, got)
        reason, follows = self.reasons.after(sql, found, wanted, got)
        word = found is Difference.NONE and is_to_the_word(wanted, got)
        for target, outcome in ((self.postgres, wanted), (self.tidegate, got)):
            if outcome.broke and not target.reconnect():
                self._revive()
                assert target.reconnect(), "the server does not come back"
        if not self.tidegate.in_transaction():
            self.reasons.transaction_is_over()
        return Record(file, line, sql, found, reason, follows, word, wanted, got)

    # ------------------------------------------------------------ backslash commands

    def _command(self, file: str, item: Command, script: Script) -> Record | None:
        match item.name:
            case "set":
                for target in (self.postgres, self.tidegate):
                    parts = words(item.arguments, target.variables)
                    if parts:
                        target.variables[parts[0]] = "".join(parts[1:])
            case "unset":
                for target in (self.postgres, self.tidegate):
                    target.variables.pop(item.arguments.strip(), None)
            case "getenv":
                variable, _, name = item.arguments.partition(" ")
                for target in (self.postgres, self.tidegate):
                    if name.strip() in self.environment:
                        target.variables[variable] = self.environment[name.strip()]
            case "c" | "connect":
                self._connect([word for word in words(item.arguments, self.postgres.variables) if "=" not in word])
            case "copy":
                return self._copy(file, item, script)
            case "q" | "quit":
                return None
            case _:
                self.skipped += 1
        return None

    def _connect(self, arguments: list[str]) -> None:
        database, user = ([*arguments, "-", "-"])[:2]
        database, user = ("" if name == "-" else name for name in (database, user))
        if self.postgres.connect(database=database, user=user):
            self.reasons.transaction_is_over()
            database = "" if self._one_database else database
            if not self.tidegate.connect(database=database, user=user) and not self.tidegate.reconnect():
                self._revive()
                assert self.tidegate.reconnect(), "the server does not come back"

    def _copy(self, file: str, item: Command, script: Script) -> Record | None:
        """psql's `\\copy`: a COPY whose file is the client's."""
        match = _PSQL_COPY.search(item.arguments)
        if match is None:
            return None
        is_reading = match["way"].lower() == "from"
        sql = f"COPY {item.arguments[: match.start()]}{match['way']} {'stdin' if is_reading else 'stdout'}"
        sql += item.arguments[match.end() :]
        data = None
        if match["path"] is not None and is_reading:
            path = Path(match["path"])
            data = path.read_bytes().decode(errors="surrogateescape") if path.exists() else ""
        return self._both(file, item.line, (sql,), script, data=data)


def _facts(outcome: Outcome) -> dict[str, str]:
    """The variables that psql sets after each statement."""
    error = outcome.error
    if error is not None:
        state = error.sqlstate or ""
        return {
            "ERROR": "true",
            "SQLSTATE": state,
            "ROW_COUNT": "0",
            "LAST_ERROR_SQLSTATE": state,
            "LAST_ERROR_MESSAGE": error.message,
        }
    last = outcome.answers[-1].tag.split()[-1:] if outcome.answers else []
    count = last[0] if last and last[0].isdigit() else "0"
    return {"ERROR": "false", "SQLSTATE": "00000", "ROW_COUNT": count}
