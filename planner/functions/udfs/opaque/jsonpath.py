"""Carrying out a jsonpath on a jsonb value, as PostgreSQL's jsonpath_exec.c does.

A step gives its results one after the other; what is wrong with the JSON is an `SqlJsonError`, which filters and
comparisons take for unknown and `silent` leaves out. Structural mistakes (a missing key, a scalar that is subscripted)
are none in lax mode, where arrays are unwrapped and scalars are wrapped as the step needs it.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Context, Decimal
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from planner.errors import (
    DivisionByZero,
    InvalidArgumentForSqlJsonDatetimeFunction,
    InvalidParameterValue,
    InvalidSqlJsonSubscript,
    NonNumericSqlJsonItem,
    NumericValueOutOfRange,
    SingletonSqlJsonItemRequired,
    SqlJsonArrayNotFound,
    SqlJsonError,
    SqlJsonMemberNotFound,
    SqlJsonNumberNotFound,
    SqlJsonObjectNotFound,
    UndefinedObject,
)
from planner.functions.udfs.numbers.numeric import divide
from planner.functions.udfs.opaque.jsonb_layout import offset
from planner.functions.udfs.opaque.jsonpath_moments import UNREADABLE, Moment, compared, moment_in
from planner.functions.udfs.regex import like
from planner.functions.udfs.table import Udf
from planner.values.json.json_text import quote_json
from planner.values.json.jsonpath_text import END, Item, Path, parse_jsonpath, pattern_flags, show_jsonpath

Json = dict[str, "Json"] | list["Json"] | str | Decimal | bool | Moment | None
Truth = bool | None
"""True, False, or None for unknown."""

_EXACT = Context(prec=1000)
_SUPPRESSED = (SqlJsonError, DivisionByZero, NumericValueOutOfRange, *UNREADABLE)
_ID_STEP = 10_000_000_000
_ORDERS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal)


class _Place(Struct, frozen=True):
    """What `@` and `last` mean, whether structural mistakes are passed over, and the value (with its number) within
    which keyvalue() counts."""

    current: Json
    ignore: bool
    base: Json
    base_id: int = 0
    size: int | None = None


def type_name(value: Json) -> str:
    """What .type() says."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, Decimal):
        return "number"
    if isinstance(value, Moment):
        return value.type_name
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


class _Run:
    """One application of a path to `root`, with the values of its variables. `zone` is the session's; empty where it
    may not be used."""

    def __init__(self, path: Path, root: Json, variables: Mapping[str, Json], zone: str) -> None:
        self._path = path
        self._root = root
        self._variables = variables
        self._generated = 2 if variables else 1
        self._lax = path.lax
        self._zone = zone or None

    def results(self) -> Iterator[Json]:
        """What the path selects."""
        return self._items(self._path.root, self._root, _Place(self._root, self._lax, self._root))

    def exists(self) -> bool:
        """Whether it selects anything; in strict mode all of it is looked at, for errors."""
        return self._exists(self._path.root, self._root, _Place(self._root, self._lax, self._root))

    def _exists(self, item: Item, value: Json, at: _Place) -> bool:
        if not self._lax:
            return bool(list(self._items(item, value, at)))
        if item.kind in ("plus", "minus") and not item.next and item.args[0] is not None:
            # What is no number is passed over then, and not an error.
            return any(isinstance(number, Decimal) for number in self._unwrapped(item.args[0], value, at))
        return next((True for _ in self._items(item, value, at)), False)

    def _items(self, item: Item, value: Json, at: _Place) -> Iterator[Json]:
        return self._step(item, item.next, value, self._lax, at)

    def _next(self, rest: Sequence[Item], value: Json, at: _Place) -> Iterator[Json]:
        if rest:
            yield from self._step(rest[0], rest[1:], value, self._lax, at)
        else:
            yield value

    def _unwrapped(self, item: Item, value: Json, at: _Place) -> list[Json]:
        """The results of an operand; in lax mode with the elements of arrays in place of the arrays."""
        found: list[Json] = []
        for result in self._items(item, value, at):
            found.extend(result if self._lax and isinstance(result, list) else [result])
        return found

    # ------------------------------------------------------------ steps

    def _step(self, item: Item, rest: Sequence[Item], value: Json, unwrap: bool, at: _Place) -> Iterator[Json]:
        kind = item.kind
        if kind in ("$", "variable"):
            found = self._root if kind == "$" else self._variable(str(item.value))
            yield from self._next(rest, found, replace(at, base=found, base_id=0 if kind == "$" else 1))
        elif kind == "@":
            yield from self._next(rest, at.current, at)
        elif kind in ("null", "true", "false"):
            yield from self._next(rest, {"null": None, "true": True, "false": False}[kind], at)
        elif kind in ("string", "number"):
            assert isinstance(item.value, (str, Decimal))
            yield from self._next(rest, item.value, at)
        elif kind == "last":
            assert at.size is not None
            yield from self._next(rest, Decimal(at.size - 1), at)
        elif kind == "key":
            yield from self._member(item, rest, value, unwrap, at)
        elif kind == ".*":
            if isinstance(value, dict):
                for member in value.values():
                    yield from self._below(rest, member, at)
            elif unwrap and isinstance(value, list):
                yield from self._elements(item, rest, value, at)
            elif not at.ignore:
                raise SqlJsonObjectNotFound("jsonpath wildcard member accessor can only be applied to an object")
        elif kind == "[*]":
            if isinstance(value, list):
                for element in value:
                    yield from self._below(rest, element, at)
            elif self._lax:
                yield from self._next(rest, value, at)
            elif not at.ignore:
                raise SqlJsonArrayNotFound("jsonpath wildcard array accessor can only be applied to an array")
        elif kind == "[]":
            yield from self._subscripted(item, rest, value, at)
        elif kind == "**":
            first, last = item.levels
            if first == 0:
                yield from self._ignoring(rest, value, at)
            if isinstance(value, (dict, list)):
                yield from self._descend(rest, value, 1, first, last, at)
        elif kind == "?":
            (condition,) = item.args
            assert condition is not None
            if unwrap and isinstance(value, list):
                yield from self._elements(item, rest, value, at)
            elif self._truth(condition, value, replace(at, current=value)) is True:
                yield from self._next(rest, value, at)
        elif kind in ("+", "-", "*", "/", "%"):
            yield from self._next(rest, self._calculated(item, value, at), at)
        elif kind in ("plus", "minus"):
            yield from self._signed(item, rest, value, at)
        elif kind in _METHODS:
            yield from _METHODS[kind](self, item, rest, value, unwrap, at)
        else:
            yield from self._next(rest, self._truth(item, value, at), at)

    def _variable(self, name: str) -> Json:
        if name not in self._variables:
            raise UndefinedObject(f'could not find jsonpath variable "{name}"')
        return self._variables[name]

    def _below(self, rest: Sequence[Item], value: Json, at: _Place) -> Iterator[Json]:
        """The steps after a wildcard, for one of the values that it gives."""
        return self._next(rest, value, at)

    def _elements(self, item: Item, rest: Sequence[Item], values: list[Json], at: _Place) -> Iterator[Json]:
        """A step applied to the elements of an array in place of the array, once."""
        for element in values:
            yield from self._step(item, rest, element, False, at)

    def _member(self, item: Item, rest: Sequence[Item], value: Json, unwrap: bool, at: _Place) -> Iterator[Json]:
        key = str(item.value)
        if isinstance(value, dict):
            if key in value:
                yield from self._next(rest, value[key], at)
            elif not at.ignore:
                raise SqlJsonMemberNotFound(f'JSON object does not contain key "{key}"')
        elif unwrap and isinstance(value, list):
            yield from self._elements(item, rest, value, at)
        elif not at.ignore:
            raise SqlJsonMemberNotFound("jsonpath member accessor can only be applied to an object")

    def _subscripted(self, item: Item, rest: Sequence[Item], value: Json, at: _Place) -> Iterator[Json]:
        if not isinstance(value, list) and not self._lax:
            if not at.ignore:
                raise SqlJsonArrayNotFound("jsonpath array accessor can only be applied to an array")
            return
        values = value if isinstance(value, list) else [value]
        here = replace(at, size=len(values))
        for start, end in zip(item.args[::2], item.args[1::2], strict=True):
            assert start is not None
            low = self._index(start, value, here)
            high = low if end is None else self._index(end, value, here)
            if not at.ignore and not 0 <= low <= high < len(values):
                raise InvalidSqlJsonSubscript("jsonpath array subscript is out of bounds")
            for element in values[max(low, 0) : high + 1 if high >= 0 else 0]:
                yield from self._next(rest, element, here)

    def _index(self, item: Item, value: Json, at: _Place) -> int:
        found = list(self._items(item, value, at))
        if len(found) != 1 or not isinstance(found[0], Decimal):
            raise InvalidSqlJsonSubscript("jsonpath array subscript is not a single numeric value")
        index = int(found[0].to_integral_value(ROUND_DOWN))
        if not -(1 << 31) <= index < 1 << 31:
            raise InvalidSqlJsonSubscript("jsonpath array subscript is out of integer range")
        return index

    def _ignoring(self, rest: Sequence[Item], value: Json, at: _Place) -> Iterator[Json]:
        return self._next(rest, value, replace(at, ignore=True))

    def _descend(
        self, rest: Sequence[Item], value: Json, level: int, first: int, last: int, at: _Place
    ) -> Iterator[Json]:
        """The values from `level` below a container on, down to `last`; leaves alone where `first` is the end too."""
        if level > last or not isinstance(value, (dict, list)):
            return
        for inner in value.values() if isinstance(value, dict) else value:
            is_leaf = not isinstance(inner, (dict, list))
            if level >= first or (first == END and last == END and is_leaf):
                yield from self._ignoring(rest, inner, at)
            if level < last:
                yield from self._descend(rest, inner, level + 1, first, last, at)

    # ------------------------------------------------------------ arithmetic

    def _calculated(self, item: Item, value: Json, at: _Place) -> Decimal:
        numbers = []
        operands = [self._unwrapped(arg, value, at) for arg in item.args if arg is not None]
        for found, side in zip(operands, ("left", "right"), strict=True):
            if len(found) != 1 or not isinstance(found[0], Decimal):
                raise SingletonSqlJsonItemRequired(
                    f"{side} operand of jsonpath operator {item.kind} is not a single numeric value"
                )
            numbers.append(found[0])
        left, right = numbers
        if item.kind == "/":
            return Decimal(divide(format(left, "f"), format(right, "f")))
        if item.kind == "%":
            if not right:
                raise DivisionByZero("division by zero")
            return _EXACT.remainder(left, right)
        calculate = {"+": _EXACT.add, "-": _EXACT.subtract, "*": _EXACT.multiply}[item.kind]
        return calculate(left, right)

    def _signed(self, item: Item, rest: Sequence[Item], value: Json, at: _Place) -> Iterator[Json]:
        (operand,) = item.args
        assert operand is not None
        for number in self._unwrapped(operand, value, at):
            if not isinstance(number, Decimal):
                sign = "+" if item.kind == "plus" else "-"
                raise SqlJsonNumberNotFound(f"operand of unary jsonpath operator {sign} is not a numeric value")
            is_changed = item.kind == "minus" and number
            yield from self._next(rest, number.copy_negate() if is_changed else number, at)

    # ------------------------------------------------------------ methods

    def _type(self, item: Item, rest: Sequence[Item], value: Json, unwrap: bool, at: _Place) -> Iterator[Json]:
        return self._next(rest, type_name(value), at)

    def _size(self, item: Item, rest: Sequence[Item], value: Json, unwrap: bool, at: _Place) -> Iterator[Json]:
        if not isinstance(value, list) and not self._lax:
            if not at.ignore:
                raise SqlJsonArrayNotFound("jsonpath item method .size() can only be applied to an array")
            return
        yield from self._next(rest, Decimal(len(value) if isinstance(value, list) else 1), at)

    def _rounded(self, item: Item, rest: Sequence[Item], value: Json, unwrap: bool, at: _Place) -> Iterator[Json]:
        if unwrap and isinstance(value, list):
            yield from self._elements(item, rest, value, at)
            return
        if not isinstance(value, Decimal):
            raise NonNumericSqlJsonItem(f"jsonpath item method .{item.kind}() can only be applied to a numeric value")
        if item.kind == "abs":
            made = value.copy_abs()
        else:
            made = value.to_integral_value(ROUND_FLOOR if item.kind == "floor" else ROUND_CEILING)
        yield from self._next(rest, made if made else made.copy_abs(), at)

    def _double(self, item: Item, rest: Sequence[Item], value: Json, unwrap: bool, at: _Place) -> Iterator[Json]:
        if unwrap and isinstance(value, list):
            yield from self._elements(item, rest, value, at)
            return
        if not isinstance(value, (Decimal, str)):
            raise NonNumericSqlJsonItem(
                "jsonpath item method .double() can only be applied to a string or numeric value"
            )
        is_text = isinstance(value, str)
        try:
            number = float(str(value).strip())
        except ValueError:
            number = math.inf
        if not math.isfinite(number) or (
            number == 0 and any(digit in str(value).lower().split("e")[0] for digit in "123456789")
        ):
            what = (
                "string argument of jsonpath item method .double() is not a valid representation of a double precision "
                "number"
                if is_text
                else "numeric argument of jsonpath item method .double() is out of range for type double precision"
            )
            raise NonNumericSqlJsonItem(what)
        yield from self._next(rest, Decimal(f"{number:.15g}"), at)

    def _datetime(self, item: Item, rest: Sequence[Item], value: Json, unwrap: bool, at: _Place) -> Iterator[Json]:
        if unwrap and isinstance(value, list):
            yield from self._elements(item, rest, value, at)
            return
        if not isinstance(value, str):
            raise InvalidArgumentForSqlJsonDatetimeFunction(
                "jsonpath item method .datetime() can only be applied to a string"
            )
        yield from self._next(rest, moment_in(value, None if item.value is None else str(item.value)), at)

    def _keyvalue(self, item: Item, rest: Sequence[Item], value: Json, unwrap: bool, at: _Place) -> Iterator[Json]:
        if unwrap and isinstance(value, list):
            yield from self._elements(item, rest, value, at)
            return
        if not isinstance(value, dict):
            raise SqlJsonObjectNotFound("jsonpath item method .keyvalue() can only be applied to an object")
        number = Decimal(offset(at.base, value) + at.base_id * _ID_STEP)
        for key, member in value.items():
            made: dict[str, Json] = {"id": number, "key": key, "value": member}
            generated, self._generated = self._generated, self._generated + 1
            yield from self._next(rest, made, replace(at, base=made, base_id=generated))

    # ------------------------------------------------------------ predicates

    def _truth(self, item: Item, value: Json, at: _Place) -> Truth:
        kind = item.kind
        first, second = (*item.args, None)[:2]
        assert first is not None
        if kind in ("&&", "||"):
            assert second is not None
            deciding = kind == "||"
            left = self._truth(first, value, at)
            if left is deciding:
                return left
            right = self._truth(second, value, at)
            return left if right is not deciding and right is not None else right
        if kind == "!":
            truth = self._truth(first, value, at)
            return None if truth is None else not truth
        if kind == "is unknown":
            return self._truth(first, value, at) is None
        if kind == "exists":
            try:
                return self._exists(first, value, at)
            except _SUPPRESSED:
                return None
        try:
            left_values = self._unwrapped(first, value, at)
            if kind == "like_regex":
                right_values: list[Json] = [None]
            elif kind == "starts with":
                assert second is not None
                right_values = list(self._items(second, value, at))
            else:
                assert second is not None
                right_values = self._unwrapped(second, value, at)
        except _SUPPRESSED:
            return None
        return self._any_pair(item, left_values, right_values)

    def _any_pair(self, item: Item, lefts: list[Json], rights: list[Json]) -> Truth:
        is_unknown = is_found = False
        for left in lefts:
            for right in rights:
                truth = _judged(item, left, right, self._zone)
                if truth is None:
                    if not self._lax:
                        return None
                    is_unknown = True
                elif truth:
                    if self._lax:
                        return True
                    is_found = True
        return True if is_found else None if is_unknown else False


_Method = Callable[[_Run, Item, Sequence[Item], Json, bool, _Place], Iterator[Json]]
_METHODS: Mapping[str, _Method] = {
    "type": _Run._type, "size": _Run._size, "abs": _Run._rounded, "floor": _Run._rounded, "ceiling": _Run._rounded,
    "double": _Run._double, "datetime": _Run._datetime, "keyvalue": _Run._keyvalue,
}  # fmt: skip


def _judged(item: Item, left: Json, right: Json, zone: str | None) -> Truth:
    """Whether a pair of values satisfies a predicate."""
    if item.kind == "like_regex":
        pattern = item.args[1]
        assert pattern is not None
        return like(left, str(pattern.value), pattern_flags(item)) if isinstance(left, str) else None
    if item.kind == "starts with":
        return left.startswith(right) if isinstance(left, str) and isinstance(right, str) else None
    if isinstance(left, Moment) and isinstance(right, Moment):
        found = compared(left, right, zone)
        return None if found is None else _ORDERS[item.kind](found, 0)
    if type_name(left) != type_name(right):
        # What is not null can be told from null, and nothing else from another type.
        return item.kind == "!=" if left is None or right is None else None
    if isinstance(left, (dict, list, Moment)) or isinstance(right, (dict, list, Moment)):
        return None
    order = _ORDERS[item.kind]
    if left is None or right is None:
        return order(0, 0)
    if isinstance(left, str) and isinstance(right, str):
        return order((left > right) - (left < right), 0)
    assert not isinstance(left, str)
    assert not isinstance(right, str)
    return order((left > right) - (left < right), 0)


# ------------------------------------------------------------ the functions


def _show(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, str):
        return quote_json(value)
    if isinstance(value, Moment):
        return quote_json(value.text)
    if isinstance(value, list):
        return "[" + ", ".join(map(_show, value)) + "]"
    return "{" + ", ".join(f"{quote_json(key)}: {_show(member)}" for key, member in value.items()) + "}"


@lru_cache(maxsize=64)
def _variables(text: str) -> Mapping[str, Json]:
    variables = _DECODER.decode(text)
    if not isinstance(variables, dict):
        raise InvalidParameterValue(
            '"vars" argument is not an object',
            detail='Jsonpath parameters should be encoded as key-value pairs of "vars" object.',
        )
    return variables


def _run(target: str, path: str, variables: str, zone: str) -> _Run:
    return _Run(parse_jsonpath(path), _DECODER.decode(target), _variables(variables), zone)


def _found(target: str, path: str, variables: str, silent: bool, zone: str) -> tuple[list[Json], bool]:
    """(what the path selects, whether that ended in an error that `silent` leaves out)."""
    found: list[Json] = []
    try:
        for value in _run(target, path, variables, zone).results():
            found.append(value)  # noqa: PERF402 - what came before an error is kept.
    except _SUPPRESSED:
        if not silent:
            raise
        return found, True
    return found, False


def exists(target: str, path: str, variables: str, silent: bool, zone: str) -> bool | None:
    """jsonb_path_exists(): NULL after an error that is left out."""
    try:
        return _run(target, path, variables, zone).exists()
    except _SUPPRESSED:
        if not silent:
            raise
        return None


def match(target: str, path: str, variables: str, silent: bool, zone: str) -> bool | None:
    """jsonb_path_match(): the only result, which has to be a boolean or null."""
    found, _ = _found(target, path, variables, silent, zone)
    if len(found) == 1 and (found[0] is None or isinstance(found[0], bool)):
        return found[0]
    if not silent:
        raise SingletonSqlJsonItemRequired("single boolean result is expected")
    return None


def query(target: str, path: str, variables: str, silent: bool, zone: str) -> list[str]:
    """jsonb_path_query()."""
    return [_show(value) for value in _found(target, path, variables, silent, zone)[0]]


def query_array(target: str, path: str, variables: str, silent: bool, zone: str) -> str:
    """jsonb_path_query_array()."""
    return _show(_found(target, path, variables, silent, zone)[0])


def query_first(target: str, path: str, variables: str, silent: bool, zone: str) -> str | None:
    """jsonb_path_query_first()."""
    found, _ = _found(target, path, variables, silent, zone)
    return _show(found[0]) if found else None


def jsonpath_in(text: str) -> str:
    """jsonpath input: the text that is kept."""
    return show_jsonpath(parse_jsonpath(text))


_T, _B = "VARCHAR", "BOOLEAN"

UDFS: Mapping[str, Udf] = {
    "tg_jsonpath_in": Udf((_T,), _T, jsonpath_in),
    "tg_jsonpath_exists": Udf((_T, _T, _T, _B, _T), _B, exists),
    "tg_jsonpath_match": Udf((_T, _T, _T, _B, _T), _B, match),
    "tg_jsonpath_query": Udf((_T, _T, _T, _B, _T), "VARCHAR[]", query),
    "tg_jsonpath_query_array": Udf((_T, _T, _T, _B, _T), _T, query_array),
    "tg_jsonpath_query_first": Udf((_T, _T, _T, _B, _T), _T, query_first),
}
