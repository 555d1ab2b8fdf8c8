r"""Reading a file of SQL as psql reads it.

psql ends a statement at a semicolon that is outside quotes, comments, parentheses and SQL-standard function bodies,
puts its variables (`:name`, `:'name'`, `:"name"`, `:{?name}`) in, and takes a backslash outside quotes for a command of
its own. The lines of a COPY from standard input follow the line of its statement, up to `\.`.

A statement stays a template: each server has its own values of the variables (an oid, say).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_VARIABLE = re.compile(r""":(?:\{\?(?P<asked>\w+)\}|'(?P<literal>\w+)'|"(?P<identifier>\w+)"|(?P<plain>\w+))""")
_DOLLAR = re.compile(r"\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$")
_WORD = re.compile(r"[A-Za-z_\x80-\uffff][\w$\x80-\uffff]*")
_ROUTINE = re.compile(r"create\s+(or\s+replace\s+)?(function|procedure)\b", re.IGNORECASE)
_TRUE, _FALSE = ("true", "on", "yes", "1", "t", "y"), ("false", "off", "no", "0", "f", "n")
_WHOLE_LINE = ("copy", "!", "w", "o", "i", "ir")
"""Commands whose arguments run to the end of the line, backslashes and all."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A reference to a psql variable; `form` is `asked`, `literal`, `identifier` or `plain`, `text` what it stands as
    where there is no such variable."""

    name: str
    form: str
    text: str


Template = tuple[str | Variable, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL to be sent. `command` is what ends it: `;`, or a backslash command that sends it (`gset`, `gexec`, ...) with
    its arguments."""

    line: int
    template: Template
    command: str = ";"
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A backslash command that sends no statement."""

    line: int
    name: str
    arguments: str


SENDING = ("g", "gx", "gset", "gexec", "gdesc", "crosstabview", "watch")


def expand(template: Template, variables: Mapping[str, str]) -> str:
    """The text with the values of the variables."""
    parts = []
    for piece in template:
        if isinstance(piece, str):
            parts.append(piece)
            continue
        value = variables.get(piece.name)
        if piece.form == "asked":
            parts.append("FALSE" if value is None else "TRUE")
        elif value is None:
            parts.append(piece.text)
        elif piece.form == "literal":
            quoted = "'" + value.replace("'", "''") + "'"
            parts.append(" E" + quoted.replace("\\", "\\\\") if "\\" in value else quoted)
        elif piece.form == "identifier":
            parts.append('"' + value.replace('"', '""') + '"')
        else:
            parts.append(value)
    return "".join(parts)


def words(arguments: str, variables: Mapping[str, str]) -> list[str]:
    """The arguments of a backslash command, with quotes taken off and variables put in."""
    found: list[str] = []
    position, current, is_open = 0, "", False
    while position < len(arguments):
        character = arguments[position]
        if character.isspace():
            if is_open:
                found.append(current)
            current, is_open = "", False
            position += 1
        elif character == "'":
            text, position = _quoted_word(arguments, position)
            current, is_open = current + text, True
        elif character == ":" and (match := _VARIABLE.match(arguments, position)):
            current, is_open = current + expand((_variable(match),), variables), True
            position = match.end()
        else:
            current, is_open = current + character, True
            position += 1
    return [*found, current] if is_open else found


def _quoted_word(text: str, start: int) -> tuple[str, int]:
    """(what stands between the single quotes that open at `start`, where it goes on)."""
    position, value = start + 1, ""
    while position < len(text) and text[position] != "'":
        if text[position] == "\\" and position + 1 < len(text):
            position += 1
            value += {"n": "\n", "t": "\t", "r": "\r"}.get(text[position], text[position])
        else:
            value += text[position]
        position += 1
    return value, position + 1


def _variable(match: re.Match[str]) -> Variable:
    form = match.lastgroup
    assert form is not None
    return Variable(match[form], form, match[0])


def truth(text: str) -> bool:
    """What `\\if` takes a text for; False for what is no boolean, as in psql."""
    lowered = text.strip().lower()
    return lowered in _TRUE and lowered not in _FALSE


class Script:
    """The statements and commands of a file, in order. `decide` says what the argument of an `\\if` is."""

    def __init__(self, text: str, decide: Callable[[str], bool]) -> None:
        self._text = text
        self._decide = decide
        self.standard_strings = True
        """The setting standard_conforming_strings: without it a backslash escapes in every string."""
        self._position = 0
        self._branches: list[tuple[bool, bool]] = []
        """Of each open `\\if`: whether the branch is read, and whether one has been."""
        self._clear()
        self._last: Template = ()

    def copy_lines(self) -> str:
        """The data that follow a COPY from standard input; the script goes on behind it."""
        end = self._text.find("\n", self._position)
        start = len(self._text) if end < 0 else end + 1
        stop = start
        while stop < len(self._text):
            line_end = self._text.find("\n", stop)
            line_end = len(self._text) if line_end < 0 else line_end
            if self._text[stop:line_end].rstrip("\r") == "\\.":
                self._position = min(line_end + 1, len(self._text))
                return self._text[start:stop]
            stop = line_end + 1
        self._position = len(self._text)
        return self._text[start:]

    def __iter__(self) -> Iterator[Statement | Command]:
        while self._position < len(self._text):
            item = self._step()
            if item is not None:
                yield item
        if self._has_text():
            yield self._statement(";", "")

    def _clear(self) -> None:
        self._pieces: list[str | Variable] = []
        self._start: int | None = None
        self._depth = self._blocks = 0

    def _active(self) -> bool:
        return all(read for read, _ in self._branches)

    def _has_text(self) -> bool:
        return self._start is not None

    def _append(self, piece: str | Variable, *, blank: bool = False) -> None:
        if not self._active():
            return
        if self._start is None and not blank:
            self._start = self._position
        if self._start is not None:
            self._pieces.append(piece)

    def _statement(self, command: str, arguments: str) -> Statement:
        start = self._start if self._start is not None else self._position
        template = tuple(self._pieces) if self._has_text() else self._last
        line = self._text.count("\n", 0, start) + 1
        self._last = template
        self._clear()
        return Statement(line, template, command, arguments)

    def _take(self, end: int, *, blank: bool = False) -> None:
        self._append(self._text[self._position : end], blank=blank)
        self._position = end

    def _step(self) -> Statement | Command | None:
        """Read one token; the statement or command that it ends."""
        text, here = self._text, self._position
        character = text[here]
        if text.startswith("--", here):
            end = text.find("\n", here)
            self._take(len(text) if end < 0 else end, blank=True)
        elif text.startswith("/*", here):
            self._take(self._comment_end(here), blank=True)
        elif character in "'\"":
            before = text[here - 1 : here]
            marked = before in ("e", "E") and not text[here - 2 : here - 1].isalnum()
            escapes = marked or not self.standard_strings
            self._take(self._quote_end(here, character, character == "'" and escapes))
        elif character == "$" and (dollar := _DOLLAR.match(text, here)) and not text[here - 1 : here].isalnum():
            end = text.find(dollar[0], dollar.end())
            self._take(len(text) if end < 0 else end + len(dollar[0]))
        elif character == ":":
            self._colon()
        elif character == ";" and self._depth == 0 and self._blocks == 0:
            self._position += 1
            if self._active() and self._has_text():
                return self._statement(";", "")
        elif character == "\\":
            return self._backslash()
        elif word := _WORD.match(text, here):
            self._count_blocks(word[0].lower())
            self._take(word.end())
        else:
            if self._active():
                self._depth = max(0, self._depth + (character == "(") - (character == ")"))
            self._take(here + 1, blank=character.isspace())
        return None

    def _colon(self) -> None:
        if self._text.startswith("::", self._position):
            self._take(self._position + 2)
        elif match := _VARIABLE.match(self._text, self._position):
            self._append(_variable(match))
            self._position = match.end()
        else:
            self._take(self._position + 1)

    def _count_blocks(self, word: str) -> None:
        """Follow BEGIN, CASE and END in the body of a routine: a semicolon inside does not end the statement."""
        if self._start is None or word not in ("begin", "case", "end") or not self._active():
            return
        if _ROUTINE.match(self._text, self._start):
            if word == "begin" or (word == "case" and self._blocks):
                self._blocks += 1
            elif word == "end" and self._blocks:
                self._blocks -= 1

    def _comment_end(self, start: int) -> int:
        depth = 0
        for match in re.compile(r"/\*|\*/").finditer(self._text, start):
            depth += 1 if match[0] == "/*" else -1
            if depth == 0:
                return match.end()
        return len(self._text)

    def _quote_end(self, start: int, quote: str, escapes: bool) -> int:
        position = start + 1
        while position < len(self._text):
            character = self._text[position]
            if escapes and character == "\\":
                position += 2
            elif character == quote:
                return position + 1
            else:
                position += 1
        return len(self._text)

    # ------------------------------------------------------------ backslash commands

    def _backslash(self) -> Statement | Command | None:
        text, here = self._text, self._position
        line_end = text.find("\n", here)
        line_end = len(text) if line_end < 0 else line_end
        if text.startswith("\\;", here):
            self._position = here + 2
            self._append(";")
            return None
        if text.startswith("\\\\", here):
            self._position = here + 2
            return None
        name = re.compile(r"\\([A-Za-z_]+[+]?|[!?.]|)").match(text, here)
        assert name is not None
        command = name[1]
        end = line_end if command in _WHOLE_LINE else self._arguments_end(name.end(), line_end)
        arguments = text[name.end() : end].strip()
        self._position = end
        if command in ("if", "elif", "else", "endif"):
            self._branch(command, arguments)
            return None
        if not self._active():
            return None
        if command in ("r", "reset"):
            self._clear()
            return None
        if command in SENDING:
            return self._statement(command, arguments)
        return Command(text.count("\n", 0, here) + 1, command, arguments)

    def _arguments_end(self, start: int, line_end: int) -> int:
        position = start
        while position < line_end and self._text[position] != "\\":
            if self._text[position] == "'":
                _, position = _quoted_word(self._text[:line_end], position)
            else:
                position += 1
        return min(position, line_end)

    def _branch(self, command: str, arguments: str) -> None:
        if command == "if":
            read = self._active() and self._decide(arguments)
            self._branches.append((read, read))
        elif not self._branches:
            return
        elif command == "endif":
            self._branches.pop()
        else:
            _, was_read = self._branches.pop()
            outer = self._active()
            read = outer and not was_read and (command == "else" or self._decide(arguments))
            self._branches.append((read, was_read or read))
