"""Text of arrays (array_in): ``{1,2,NULL}``, ``{{"a b","c\\"d"},{e,f}}``."""

from __future__ import annotations

from collections.abc import Callable

from planner.errors import FeatureNotSupported, InvalidTextRepresentation

_SPACE = " \t\n\r\v\f"


def parse_array(text: str, delimiter: str, item: Callable[[str], object]) -> tuple[object, ...]:
    """The elements, as nested tuples where there are several dimensions; `item` reads the text of one. Raises 22P02,
    what `item` raises, 0A000 for explicit bounds."""
    reader = _Reader(text, delimiter, item)
    if reader.body.startswith("["):
        raise FeatureNotSupported("arrays with explicit bounds are not supported")
    return reader.read()


class _Reader:
    """Braces, commas, quoted and plain elements."""

    def __init__(self, text: str, delimiter: str, item: Callable[[str], object]) -> None:
        self.text, self.body, self.delimiter, self.item = text, text.strip(_SPACE), delimiter, item
        self.position = 0

    def malformed(self, detail: str | None = None) -> InvalidTextRepresentation:
        return InvalidTextRepresentation(f'malformed array literal: "{self.text}"', detail=detail)

    def read(self) -> tuple[object, ...]:
        if not self.body.startswith("{"):
            raise self.malformed('Array value must start with "{" or dimension information.')
        value = self.level()
        if self.body[self.position :].strip(_SPACE):
            raise self.malformed("Junk after closing right brace.")
        self.check(value)
        return value

    def check(self, value: tuple[object, ...]) -> int | tuple[int, ...]:
        shapes = {self.check(item) if isinstance(item, tuple) else 0 for item in value}
        if len(shapes) > 1:
            raise self.malformed("Multidimensional arrays must have sub-arrays with matching dimensions.")
        inner = next(iter(shapes), 0)
        return (len(value), *(inner if isinstance(inner, tuple) else ()))

    def blanks(self) -> None:
        while self.position < len(self.body) and self.body[self.position] in _SPACE:
            self.position += 1

    def level(self) -> tuple[object, ...]:
        self.position += 1
        items: list[object] = []
        self.blanks()
        if self.body[self.position : self.position + 1] == "}":
            self.position += 1
            return ()
        while True:
            self.blanks()
            char = self.body[self.position : self.position + 1]
            if not char:
                raise self.malformed("Unexpected end of input.")
            if char == "{":
                if items and not isinstance(items[-1], tuple):
                    raise self.malformed('Unexpected "{" character.')
                items.append(self.level())
            else:
                quoted = char == '"'
                items.append(self.element(char))
                if quoted and self.body[self.position : self.position + 1] not in ("", "}", self.delimiter, *_SPACE):
                    raise self.malformed("Unexpected array element.")
            self.blanks()
            char = self.body[self.position : self.position + 1]
            self.position += 1
            if char == "}":
                return tuple(items)
            if char != self.delimiter:
                detail = f'Unexpected "{char}" character.' if char else "Unexpected end of input."
                raise self.malformed(detail)

    def element(self, char: str) -> object:
        if char == '"':
            return self.item(self.quoted())
        start = self.position
        pieces: list[str] = []
        while self.position < len(self.body):
            current = self.body[self.position]
            if current in "{}" or current == self.delimiter:
                break
            if current == '"':
                raise self.malformed("Unexpected array element.")
            if current == "\\":
                self.position += 1
                current = self.body[self.position : self.position + 1]
            pieces.append(current)
            self.position += 1
        plain = self.body[start : self.position]
        value = "".join(pieces).strip(_SPACE)
        if not value:
            raise self.malformed(f'Unexpected "{self.body[self.position : self.position + 1]}" character.')
        if plain.strip(_SPACE).lower() == "null":
            return None
        return self.item(value)

    def quoted(self) -> str:
        self.position += 1
        pieces: list[str] = []
        while True:
            char = self.body[self.position : self.position + 1]
            if not char:
                raise self.malformed("Unexpected end of input.")
            self.position += 1
            if char == '"':
                return "".join(pieces)
            if char == "\\":
                char = self.body[self.position : self.position + 1]
                self.position += 1
            pieces.append(char)
