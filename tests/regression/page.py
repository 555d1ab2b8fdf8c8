"""The page that says how much of PostgreSQL's regression SQL gives PostgreSQL's answer, and why the rest does not."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.regression.compare import Difference
from tests.regression.run import Record

PROMISED_PERCENT = 61.5
"""What a run may not fall below: the share that there was, without its fraction."""

_HEAD = """\
# PostgreSQL's regression SQL

Written by `make regress`, which sends the files of PostgreSQL 15's default schedule (`src/test/regress/sql`, from
Debian's source package), statement by statement, to a PostgreSQL 15 and to Tidegate over libpq, in one session for each
file as psql does, and compares the answers: names and types of columns, rows (in any order where the statement leaves
it open), command tags, SQLSTATE and message. *To the word* are those whose details, hints, error positions and notices
are PostgreSQL's as well.

- psql's `\\d` and its other commands that show something are not run; `\\gset`, `\\gexec`, `\\gdesc`, `\\if`, `\\copy`
  and `\\c` are.
- Tidegate's default isolation level is set to PostgreSQL's. Functions in C cannot be made on either server: the
  library of the tests is not installed.
- COPY from or to a file of the server's host, which Tidegate refuses, is sent to it as COPY from STDIN or to STDOUT
  with the file's contents.
- A statement that fails only because an earlier one did counts under the reason of the earlier one (*follow* below).
"""


@dataclass(slots=True)
class _File:
    statements: int = 0
    same: int = 0
    to_the_word: int = 0

    def percent(self) -> float:
        return 100.0 * self.same / self.statements if self.statements else 100.0


@dataclass(slots=True)
class Tally:
    """What has come of the statements so far."""

    files: dict[str, _File] = field(default_factory=lambda: defaultdict(_File))
    reasons: Counter[str] = field(default_factory=Counter)
    following: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    skipped: int = 0

    def add(self, record: Record) -> None:
        """Count a statement."""
        file = self.files[record.file]
        file.statements += 1
        if record.difference is Difference.NONE:
            file.same += 1
            file.to_the_word += record.to_the_word
            return
        self.reasons[record.reason] += 1
        self.following[record.reason] += record.follows
        if not record.follows:
            self.examples.setdefault(record.reason, f"{record.file}:{record.line}")

    def total(self) -> _File:
        """All files together."""
        every = self.files.values()
        return _File(
            sum(file.statements for file in every),
            sum(file.same for file in every),
            sum(file.to_the_word for file in every),
        )

    def percent(self) -> float:
        """The share of statements that give PostgreSQL's answer."""
        return self.total().percent()

    def line(self, name: str) -> str:
        """What came of one file, for a terminal."""
        file = self.files[name]
        return f"{name:26} {file.same:5} of {file.statements:5}  {file.percent():5.1f} %"

    def summary(self) -> str:
        """What came of all, in one line."""
        total = self.total()
        return f"{total.same} of {total.statements} statements ({total.percent():.1f} %) give PostgreSQL's answer"


def page(tally: Tally) -> str:
    """The page."""
    total = tally.total()
    lines = [
        _HEAD,
        f"**{tally.summary()}**, {total.to_the_word} of them to the word.",
        f"{tally.skipped} commands of psql that show something were left out.",
        "",
        "## The others, by reason",
        "",
        "| statements | of them follow | reason | first met |",
        "| ---: | ---: | --- | --- |",
    ]
    rare = Counter(dict(tally.reasons))
    for reason, count in tally.reasons.most_common():
        if count >= 3:
            example = tally.examples.get(reason, "")
            lines.append(f"| {count} | {tally.following[reason]} | {_cell(reason)} | {example} |")
            del rare[reason]
    lines += ["", f"{sum(rare.values())} more statements have {len(rare)} reasons that are met once or twice:", ""]
    lines += [f"- {_cell(reason)} ({tally.examples.get(reason, '')})" for reason in sorted(rare)]
    lines += [
        "",
        "## The files",
        "",
        "| file | statements | PostgreSQL's answer | to the word |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, file in tally.files.items():
        lines.append(f"| {name} | {file.statements} | {file.percent():.0f} % | {file.to_the_word} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.encode(errors="replace").decode().replace("|", "\\|").replace("\n", " ")
