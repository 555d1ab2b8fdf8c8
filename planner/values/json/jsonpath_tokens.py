"""The tokens of jsonpath: numbers, quoted and bare strings with their escapes, variables, operators, keywords."""

from __future__ import annotations

import re

from msgspec import Struct

from planner.errors import InvalidTextRepresentation, SqlError, SqlSyntaxError, UntranslatableCharacter

_SPECIAL = r"?%$.\[\]{}()|&!=<>@#,*:\-+/"
_BARE = rf"[^{_SPECIAL}\\\" \t\n\r\f]"
_BLANKS = re.compile(r"(?:[ \t\n\r\f]+|/\*.*?\*/)+", re.DOTALL)
_NUMBER = re.compile(r"(?P<number>(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)")
_BAD_EXPONENT = re.compile(r"[eE][-+]?")
_OPERATOR = re.compile(rf"&&|\|\||\*\*|<=|==|<>|!=|>=|[{_SPECIAL}]")
_CHARS = re.compile(rf"(?:{_BARE})+")
_HEX = re.compile(r"[0-9A-Fa-f]")
_KEYWORDS = frozenset(
    ("is", "to", "abs", "lax", "flag", "last", "size", "type", "with", "floor", "double", "exists", "starts", "strict",
     "ceiling", "datetime", "keyvalue", "unknown", "like_regex")
)  # fmt: skip
_LOWER_KEYWORDS = frozenset(("null", "true", "false"))
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Token(Struct, frozen=True):
    """`kind` is a keyword, an operator, `string`, `number`, `variable`, `word` or `end`; `text` its value; `seen` what
    an error shows of it."""

    kind: str
    text: str = ""
    seen: str = ""

    @property
    def is_key(self) -> bool:
        """Whether it can name a member: any word may, keyword or not."""
        return self.kind in ("word", "string") or self.kind in _KEYWORDS or self.kind in _LOWER_KEYWORDS


class Scanner:
    """Gives the tokens of `text` one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def error(self, what: str, token: Token) -> SqlSyntaxError:
        """PostgreSQL's complaint, at a token."""
        if token.kind == "end" or not token.seen:
            return SqlSyntaxError(f"{what} at end of jsonpath input")
        return SqlSyntaxError(f'{what} at or near "{token.seen}" of jsonpath input')

    def next(self) -> Token:
        """The next token; `end` at the end."""
        text = self._text
        blanks = _BLANKS.match(text, self._position)
        if blanks is not None:
            self._position = blanks.end()
        here = self._position
        if here >= len(text):
            return Token("end")
        if text.startswith("/*", here):
            self._position = len(text)
            raise self.error("unexpected end of comment", Token("end"))
        number, chars = _NUMBER.match(text, here), _CHARS.match(text, here)
        if number is not None and (chars is None or chars.end() <= number.end() + 1):
            return self._number(number)
        if text[here] == '"':
            return Token("string", self._quoted(here), '"')
        if text[here] == "$" and text[here + 1 : here + 2] == '"':
            return Token("variable", self._quoted(here + 1), '"')
        if text[here] == "$" and (name := _CHARS.match(text, here + 1)) is not None:
            self._position = name.end()
            return Token("variable", name[0], text[here : name.end()])
        if (operator := _OPERATOR.match(text, here)) is not None:
            self._position = operator.end()
            return Token(operator[0], operator[0], operator[0])
        return self._word()

    def _number(self, match: re.Match[str]) -> Token:
        text, end = self._text, match.end()
        self._position = end
        exponent = _BAD_EXPONENT.match(text, end) if "e" not in match[0].lower() else None
        junk = exponent or re.compile(_BARE).match(text, end)
        if junk is not None:
            seen = text[match.start() : junk.end()]
            what = "invalid numeric literal" if seen[-1] in "+-" else "trailing junk after numeric literal"
            raise self.error(what, Token("junk", seen=seen))
        return Token("number", match[0], match[0])

    def _word(self) -> Token:
        parts: list[str] = []
        while self._position < len(self._text):
            if (chars := _CHARS.match(self._text, self._position)) is not None:
                parts.append(chars[0])
                self._position = chars.end()
            elif self._text[self._position] == "\\":
                parts.append(self._escaped())
            else:
                break
        word = "".join(parts)
        # PostgreSQL's scanner has read on to what ends the word, and shows that in errors.
        blanks = re.compile(r"[ \t\n\r\f]*").match(self._text, self._position)
        seen = "" if blanks is None else blanks[0]
        if word.lower() in _KEYWORDS:
            return Token(word.lower(), word, seen)
        return Token(word if word in _LOWER_KEYWORDS else "word", word, seen)

    def _quoted(self, quote: int) -> str:
        """The string whose opening quote is at `quote`; the position is behind it."""
        self._position = quote + 1
        parts: list[str] = []
        while True:
            if self._position >= len(self._text):
                raise self.error("unexpected end of quoted string", Token("end"))
            char = self._text[self._position]
            if char == '"':
                self._position += 1
                return "".join(parts)
            if char == "\\":
                parts.append(self._escaped())
            else:
                parts.append(char)
                self._position += 1

    # ------------------------------------------------------------ escapes

    def _escaped(self) -> str:
        """What the backslash at the position stands for, with the ones that belong to the same character."""
        text, start = self._text, self._position
        char = text[start + 1 : start + 2]
        if not char:
            raise self.error("unexpected end after backslash", Token("junk", seen="\\"))
        if char == "u":
            return self._unicode()
        if char == "x":
            digits = text[start + 2 : start + 4]
            if len(digits) < 2 or not all(_HEX.match(digit) for digit in digits):
                raise self._bad_escape("invalid hex character sequence", start)
            self._position = start + 4
            return _character(int(digits, 16))
        self._position = start + 2
        return _ESCAPES.get(char, char)

    def _unicode(self) -> str:
        high = None
        made = ""
        while self._text.startswith("\\u", self._position):
            code = self._code()
            if 0xD800 <= code <= 0xDBFF:
                if high is not None:
                    raise _surrogate("Unicode high surrogate must not follow a high surrogate.")
                high = code
                continue
            if 0xDC00 <= code <= 0xDFFF:
                if high is None:
                    raise _surrogate("Unicode low surrogate must follow a high surrogate.")
                code, high = 0x10000 + ((high & 0x3FF) << 10) + (code & 0x3FF), None
            elif high is not None:
                raise _surrogate("Unicode low surrogate must follow a high surrogate.")
            made += _character(code)
        if high is not None:
            raise _surrogate("Unicode low surrogate must follow a high surrogate.")
        return made

    def _code(self) -> int:
        start = self._position
        match = re.compile(r"\\u(?:([0-9A-Fa-f]{4})|\{([0-9A-Fa-f]{1,6})\})").match(self._text, start)
        if match is None:
            raise self._bad_escape("invalid unicode sequence", start)
        self._position = match.end()
        return int(match[1] or match[2], 16)

    def _bad_escape(self, what: str, start: int) -> SqlError:
        match = re.compile(r"\\(?:u\{?|x)[0-9A-Fa-f]{0,6}").match(self._text, start)
        assert match is not None
        return self.error(what, Token("junk", seen=match[0]))


def _character(code: int) -> str:
    if not code:
        return _no_nul()
    return chr(code) if code <= 0x10FFFF else _beyond()


def _no_nul() -> str:
    raise UntranslatableCharacter("unsupported Unicode escape sequence", detail="\\u0000 cannot be converted to text.")


def _beyond() -> str:
    raise SqlSyntaxError("could not convert Unicode to server encoding")


def _surrogate(detail: str) -> SqlError:
    return InvalidTextRepresentation("invalid input syntax for type jsonpath", detail=detail)
