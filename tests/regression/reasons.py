"""Why a statement does not give PostgreSQL's answer: in words that group statements, for the page.

A statement that fails only because an earlier one did counts under the reason of that one: in a transaction that has
failed, or when it names an object or setting that the earlier one should have made or changed.
"""

from __future__ import annotations

import re

from tests.regression.compare import Difference
from tests.regression.features import FEATURES
from tests.regression.target import Outcome

_NAME = r"(?P<{}>\"(?:[^\"]|\"\")+\"|[A-Za-z_][\w$]*)(?:\s*\.\s*(?P<{}>\"(?:[^\"]|\"\")+\"|[A-Za-z_][\w$]*))?"
_KINDS = (
    r"table|view|materialized\s+view|function|procedure|aggregate|operator\s+class|operator\s+family|type|domain|index|"
    r"sequence|role|user|group|schema|database|tablespace|rule|trigger|event\s+trigger|policy|publication|subscription|"
    r"statistics|server|foreign\s+data\s+wrapper|foreign\s+table|extension|language|collation|conversion|"
    r"text\s+search\s+(?:configuration|dictionary|parser|template)|access\s+method|routine"
)
_TOUCHES = tuple(
    re.compile(pattern + r"\s+" + _NAME.format("one", "two"), re.IGNORECASE)
    for pattern in (
        rf"\b(?:create|alter|drop)\s+(?:or\s+replace\s+)?(?:(?:local|global)\s+)?(?:temp|temporary|unlogged|unique|"
        rf"recursive|constraint|trusted|procedural|default|\s)*\s*(?:{_KINDS})(?:\s+concurrently)?"
        r"(?:\s+if\s+(?:not\s+)?exists)?(?:\s+only)?",
        r"\b(?:insert\s+into|update(?:\s+only)?|delete\s+from(?:\s+only)?|truncate(?:\s+table)?|merge\s+into|select\b.*?\binto)",
        r"^\s*(?:copy|prepare|declare|set(?:\s+local|\s+session)?|reset)",
        r"\brename\s+(?:column\s+\S+\s+)?to",
        r"\badd\s+(?:column\s+|constraint\s+)?(?:if\s+not\s+exists\s+)?",
        r"^\s*(?:grant|revoke)\b.*?\bon(?:\s+table)?",
        r"^\s*comment\s+on\s+(?:\w+\s+)?\w+",
    )
)
_WORD = re.compile(r"\"(?:[^\"]|\"\")+\"|[A-Za-z_][\w$]*")
_STRING = re.compile(r"'(?:[^']|'')*'")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMON = frozenset(
    (
        "select",
        "from",
        "table",
        "public",
        "pg_catalog",
        "information_schema",
        "column",
        "constraint",
        "type",
        "to",
        "set",
    )
)
_ABORTED = "25P02"
_LONG_NAME = 5
"""From how many characters on a name is still known in the files that follow."""


class Reasons:
    """Follows what was refused, and what that makes fail later."""

    def __init__(self) -> None:
        self._spoilt: dict[str, str] = {}
        self._failed = ""
        self._changed: set[str] = set()
        """What the open transaction has made or changed: undone when it cannot commit."""

    def begin_file(self) -> None:
        """A new file: names as short as `t` mean other things in it."""
        self._spoilt = {name: why for name, why in self._spoilt.items() if len(name) >= _LONG_NAME}
        self._failed = ""

    def transaction_is_over(self) -> None:
        """What failed a transaction makes nothing fail any more."""
        self._failed = ""
        self._changed.clear()

    def after(self, sql: str, difference: Difference, wanted: Outcome, got: Outcome) -> tuple[str, bool]:
        """(why the statement differs, whether an earlier one is the cause); ('', False) where it does not."""
        sql = _COMMENT.sub(" ", sql)
        touched = self._touched(sql)
        self._changed |= touched
        if difference is Difference.NONE:
            if got.error is None:
                for name in touched:
                    self._spoilt.pop(name, None)
            return "", False
        reason, follows = self._why(sql, difference, wanted, got)
        if got.error is not None and wanted.error is None:
            self._failed = self._failed or reason
        if _is_undone(wanted, got):
            touched = self._changed
        if wanted.error is None or got.error is None:
            for name in touched:
                self._spoilt.setdefault(name, reason)
        return reason, follows

    def _touched(self, sql: str) -> set[str]:
        """The objects and settings that a statement makes or changes."""
        names = set()
        for pattern in _TOUCHES:
            for match in pattern.finditer(sql):
                names.add(_folded(match["two"] or match["one"]))
        return names - _COMMON

    def _why(self, sql: str, difference: Difference, wanted: Outcome, got: Outcome) -> tuple[str, bool]:
        error = got.error
        if got.broke:
            return got.broke, False
        if self._failed and (_is_undone(wanted, got) or (error is not None and error.sqlstate == _ABORTED)):
            return self._failed, True
        own = _feature(sql, difference, wanted, got)
        is_certain = error is not None and error.sqlstate in ("0A000", "XX000", "57014")
        if not is_certain:
            text = f"{_STRING.sub(' ', sql)} {error.message if error else ''}"
            for match in _WORD.finditer(text):
                if (why := self._spoilt.get(_folded(match[0]))) is not None:
                    return why, True
        return own, False


def _is_undone(wanted: Outcome, got: Outcome) -> bool:
    """Whether a transaction commits on PostgreSQL and is rolled back on Tidegate."""
    tags = [[answer.tag for answer in outcome.answers] for outcome in (wanted, got)]
    return tags == [["COMMIT"], ["ROLLBACK"]]


def _folded(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _feature(sql: str, difference: Difference, wanted: Outcome, got: Outcome) -> str:
    refused, refuses = wanted.error, got.error
    ours = f"{refuses.sqlstate} {refuses.message}" if refuses is not None else ""
    theirs = f"{refused.sqlstate} {refused.message}" if refused is not None else ""
    for feature, pattern in FEATURES:
        if pattern.search(f"{difference}\n{ours}\n{theirs}\n{sql}"):
            return feature
    if refuses is not None and (refused is None or refuses.sqlstate == "0A000"):
        return f"refused: {general(ours)}"
    if refused is not None and refuses is None:
        return f"accepted where PostgreSQL says {general(theirs)}"
    if refuses is not None:
        return f"says {general(ours)} where PostgreSQL says {general(theirs)}"
    verb = (_WORD.search(sql) or [""])[0].upper()
    return f"{difference} ({verb})"


def general(message: str) -> str:
    """A message without the names and values that are in it."""
    message = re.sub(r'"(?:[^"]|"")*"', '"…"', message)
    message = re.sub(r"'(?:[^']|'')*'", "'…'", message)
    message = re.sub(r"(?<= )-?\d[\d.e+-]*", "…", message)
    message = re.sub(
        r"(function|operator does not exist:|aggregate|procedure) [^ ].*?(?= does not exist|$)", r"\1 …", message
    )
    return message if len(message) < 120 else message[:117] + "..."
