"""The values of the geometric types (PostgreSQL 15, 8.8) and their texts.

A value is held as the text that its output function prints, with numbers in their shortest form. `parse` reads such a
text, or any other that the input function takes; `show` prints one. Source: the ..._in and ..._out of geo_ops.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from planner.errors import ArraySubscriptError, InvalidParameterValue, InvalidTextRepresentation, NumericValueOutOfRange
from planner.types import types as t
from planner.values.floats.float_text import format_float
from planner.values.geometry import numbers as n


class Point(NamedTuple):
    x: float
    y: float


class Lseg(NamedTuple):
    """A line segment, from one point to the other."""

    start: Point
    end: Point


class Box(NamedTuple):
    """Its upper right and its lower left corner."""

    high: Point
    low: Point


class Line(NamedTuple):
    """The points for which ax + by + c = 0."""

    a: float
    b: float
    c: float


class Path(NamedTuple):
    closed: bool
    points: tuple[Point, ...]


class Polygon(NamedTuple):
    points: tuple[Point, ...]


class Circle(NamedTuple):
    center: Point
    radius: float


Shape: TypeAlias = Point | Lseg | Box | Line | Path | Polygon | Circle

_SPACES = " \t\n\v\f\r"
_NUMBER = re.compile(
    r"[ \t\n\v\f\r]*([+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan))[ \t\n\v\f\r]*",
    re.ASCII | re.IGNORECASE,
)


class _Reader:
    """A text that is read from its start on; `name` is the type for errors."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.at = 0

    def invalid(self) -> InvalidTextRepresentation:
        return InvalidTextRepresentation(f'invalid input syntax for type {self.name}: "{self.text}"')

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _SPACES:
            self.at += 1

    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, *wanted: str) -> None:
        """One of the characters that are `wanted`."""
        if self.next() not in wanted:
            raise self.invalid()
        self.at += 1

    def after(self, place: int) -> int:
        """The first place from `place` on that holds no space."""
        while place < len(self.text) and self.text[place] in _SPACES:
            place += 1
        return place

    def number(self) -> float:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise self.invalid()
        self.at = match.end()
        word = match[1]
        value = float(int(word, 16)) if "x" in word.lower() else float(word)
        digits = re.split("[eE]", word)[0] if "x" not in word.lower() else ""
        too_small = value == 0.0 and any(digit in digits for digit in "123456789")
        if too_small or (value in (n.INFINITY, -n.INFINITY) and digits[-1:].isdigit()):
            raise NumericValueOutOfRange(f'"{word}" is out of range for type double precision')
        return value

    def pair(self) -> Point:
        self.skip()
        within = self.next() == "("
        if within:
            self.at += 1
        x = self.number()
        self.take(",")
        y = self.number()
        if within:
            self.take(")")
            self.skip()
        return Point(x, y)

    def points(self, count: int, *, may_be_open: bool) -> tuple[bool, tuple[Point, ...]]:
        """`count` points and whether they are in brackets (path_decode)."""
        depth = 0
        self.skip()
        is_open = self.next() == "["
        if is_open:
            if not may_be_open:
                raise self.invalid()
            depth, self.at = 1, self.at + 1
        elif self.next() == "(":
            inner = self.after(self.at + 1)
            if self.text[inner : inner + 1] == "(" or self.text.rindex("(") == self.at:
                depth, self.at = 1, inner
        found = []
        for _ in range(count):
            found.append(self.pair())
            if self.next() == ",":
                self.at += 1
        while depth:
            self.take(")", *("]" if is_open and depth == 1 else ""))
            depth -= 1
            self.skip()
        return is_open, tuple(found)

    def end(self) -> None:
        if self.at != len(self.text):
            raise self.invalid()

    def count(self) -> int:
        """How many points the text must have, by its commas."""
        commas = self.text.count(",")
        if commas % 2 == 0:
            raise self.invalid()
        return (commas + 1) // 2


def _point(text: str) -> Point:
    reader = _Reader(text, "point")
    found = reader.pair()
    reader.end()
    return found


def _two(text: str, name: str, *, may_be_open: bool) -> tuple[Point, Point]:
    reader = _Reader(text, name)
    _, (first, second) = reader.points(2, may_be_open=may_be_open)
    reader.end()
    return first, second


def box_of(first: Point, second: Point) -> Box:
    """The box with these opposite corners."""
    low_x, high_x = (second.x, first.x) if n.less(second.x, first.x) else (first.x, second.x)
    low_y, high_y = (second.y, first.y) if n.less(second.y, first.y) else (first.y, second.y)
    return Box(Point(high_x, high_y), Point(low_x, low_y))


def _box(text: str) -> Box:
    high, low = _two(text, "box", may_be_open=False)
    if n.less(high.x, low.x):
        high, low = Point(low.x, high.y), Point(high.x, low.y)
    if n.less(high.y, low.y):
        high, low = Point(high.x, low.y), Point(low.x, high.y)
    return Box(high, low)


def _lseg(text: str) -> Lseg:
    return Lseg(*_two(text, "lseg", may_be_open=True))


def slope(first: Point, second: Point) -> float:
    """The slope of the line through both; infinity for a vertical one."""
    if n.eq(first.x, second.x):
        return n.INFINITY
    if n.eq(first.y, second.y):
        return 0.0
    return n.div(n.sub(first.y, second.y), n.sub(first.x, second.x))


def line_through(point: Point, gradient: float) -> Line:
    """The line through a point with this slope."""
    if gradient in (n.INFINITY, -n.INFINITY):
        return Line(-1.0, 0.0, point.x)
    if gradient == 0:
        return Line(0.0, -1.0, point.y)
    c = n.sub(point.y, n.mul(gradient, point.x))
    return Line(gradient, -1.0, c if c != 0.0 else 0.0)


def same_point(first: Point, second: Point) -> bool:
    """Whether they are within a millionth of each other on both axes; NaN is where NaN is."""
    if any(number != number for number in (*first, *second)):
        return n.same(first.x, second.x) and n.same(first.y, second.y)
    return n.eq(first.x, second.x) and n.eq(first.y, second.y)


def _line(text: str) -> Line:
    reader = _Reader(text, "line")
    reader.skip()
    if reader.next() == "{":
        reader.at += 1
        a = reader.number()
        reader.take(",")
        b = reader.number()
        reader.take(",")
        c = reader.number()
        reader.take("}")
        reader.skip()
        reader.end()
        if n.is_zero(a) and n.is_zero(b):
            raise InvalidTextRepresentation("invalid line specification: A and B cannot both be zero")
        return Line(a, b, c)
    _, (first, second) = reader.points(2, may_be_open=True)
    reader.end()
    if same_point(first, second):
        raise InvalidTextRepresentation("invalid line specification: must be two distinct points")
    return line_through(first, slope(first, second))


def line_between(first: Point, second: Point) -> Line:
    """The line through both. Raises 22023 where they are the same."""
    if same_point(first, second):
        raise InvalidParameterValue("invalid line specification: must be two distinct points")
    return line_through(first, slope(first, second))


def _path(text: str) -> Path:
    reader = _Reader(text, "path")
    count = reader.count()
    reader.skip()
    depth = 0
    if reader.next() == "(" and text.rindex("(") == reader.at:
        reader.at += 1
        depth = 1
    is_open, points = reader.points(count, may_be_open=True)
    if depth:
        reader.take(")")
        reader.skip()
    reader.end()
    return Path(not is_open, points)


def _polygon(text: str) -> Polygon:
    reader = _Reader(text, "polygon")
    _, points = reader.points(reader.count(), may_be_open=False)
    reader.end()
    return Polygon(points)


def _circle(text: str) -> Circle:
    reader = _Reader(text, "circle")
    depth = 0
    reader.skip()
    if reader.next() == "<":
        depth, reader.at = 1, reader.at + 1
    elif reader.next() == "(":
        inner = reader.after(reader.at + 1)
        if text[inner : inner + 1] == "(":
            depth, reader.at = 1, inner
    center = reader.pair()
    if reader.next() == ",":
        reader.at += 1
    radius = reader.number()
    if radius < 0.0:
        raise reader.invalid()
    while depth:
        reader.take(")", *(">" if depth == 1 else ""))
        depth -= 1
        reader.skip()
    reader.end()
    return Circle(center, radius)


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "point": _point,
    "lseg": _lseg,
    "box": _box,
    "line": _line,
    "path": _path,
    "polygon": _polygon,
    "circle": _circle,
}

NAMES = tuple(_PARSERS)
"""The names of the geometric types."""
GEOMETRY: Mapping[int, str] = {
    t.POINT: "point", t.LSEG: "lseg", t.BOX: "box", t.LINE: "line", t.PATH: "path", t.POLYGON: "polygon",
    t.CIRCLE: "circle",
}  # fmt: skip
"""The same by the types' oids."""
EQUALS: Mapping[int, str] = {
    t.LSEG: "lseg_eq(lseg,lseg)", t.BOX: "box_eq(box,box)", t.LINE: "line_eq(line,line)",
    t.PATH: "path_n_eq(path,path)", t.CIRCLE: "circle_eq(circle,circle)",
}  # fmt: skip
"""The function of the operator = of those that have it."""
SUBSCRIPTABLE = frozenset({t.POINT, t.LSEG, t.BOX, t.LINE})
"""Those of fixed length, whose numbers or corners subscripts give, from 0 on."""


@lru_cache(maxsize=4096)
def parse(text: str, name: str) -> Any:
    """The value of the type `name` that a text says. Raises 22P02, 22003."""
    return _PARSERS[name](text)


def _plain(number: float, digits: int) -> str:
    """A number as float8out prints it with `extra_float_digits` = `digits`."""
    if digits > 0 or number in (n.INFINITY, -n.INFINITY) or number != number:
        return format_float(number)
    return format_float(float(f"{number:.{max(15 + digits, 1) - 1}e}"))


def show(shape: Shape, digits: int = 1) -> str:
    """What the type's output function prints with `extra_float_digits` = `digits`."""

    def shown(points: Iterable[Point]) -> str:
        return ",".join(f"({_plain(x, digits)},{_plain(y, digits)})" for x, y in points)

    match shape:
        case Point():
            return shown((shape,))
        case Box():
            return shown(shape)
        case Lseg():
            return f"[{shown(shape)}]"
        case Line():
            return f"{{{','.join(_plain(number, digits) for number in shape)}}}"
        case Path(closed, points):
            return f"({shown(points)})" if closed else f"[{shown(points)}]"
        case Polygon(points):
            return f"({shown(points)})"
        case Circle(center, radius):
            return f"<{shown((center,))},{_plain(radius, digits)}>"


def part(shape: Point | Lseg | Box | Line, place: int) -> Any:
    """What subscript `place`, from 0 on, of a type of fixed length gives: a number or a point; None beyond its end."""
    return shape[place] if 0 <= place < len(shape) else None


def with_part(shape: Shape, place: int, value: float | Point) -> Shape:
    """`shape` with what `part` gives replaced; corners of a box stay as they are put. Raises 2202E."""
    parts: list[Any] = list(shape)
    if not 0 <= place < len(parts):
        raise ArraySubscriptError("array subscript out of range")
    parts[place] = value
    return type(shape)(*parts)


def held(text: str, name: str) -> str:
    """A text that the input function takes as the type holds it. Raises 22P02, 22003."""
    return show(parse(text, name))
