"""Ranges and multiranges: text in and out, bytes that compare as the values do, and the sets that operators make."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from planner.errors import DataException, InvalidTextRepresentation, NumericValueOutOfRange
from planner.types import types as t
from planner.types.ranges import range_of
from planner.types.types import SqlType
from planner.values import range_bounds as rb
from planner.values import range_sets
from planner.values.range_codecs import CODECS, codec_of, literal_value, plain_value
from planner.values.text_values import format_text, parse_text

INT4RANGE, NUMRANGE, TSTZRANGE, DATERANGE, INT4MULTIRANGE = (SqlType(oid) for oid in (3904, 3906, 3910, 3912, 4451))
SMALL = range(-3, 13)
"""Beyond all bounds of the random ranges on both sides."""


@pytest.mark.parametrize(
    ("given", "type", "shown"),
    [
        ("[1,5]", INT4RANGE, "[1,6)"),
        ("(4,5)", INT4RANGE, "empty"),
        (" EMPTY ", INT4RANGE, "empty"),
        ("[,]", INT4RANGE, "(,)"),
        ('["1",2)', INT4RANGE, "[1,2)"),
        ("[1.10,5]", NUMRANGE, "[1.10,5]"),
        ("(-0.250,100.00)", NUMRANGE, "(-0.250,100.00)"),
        ("[-Infinity,NaN]", NUMRANGE, "[-Infinity,NaN]"),
        ("[2020-01-01,9999-12-31]", DATERANGE, "[2020-01-01,10000-01-01)"),
        ("[2020-01-01,infinity]", DATERANGE, "[2020-01-01,infinity]"),
        ("[2020-01-01,)", TSTZRANGE, '["2020-01-01 00:00:00+01",)'),
        ("{[5,6),empty,[1,9]}", INT4MULTIRANGE, "{[1,10)}"),
        ("{[1,2),[2,3),[7,8)}", INT4MULTIRANGE, "{[1,3),[7,8)}"),
        (" {} ", INT4MULTIRANGE, "{}"),
    ],
)
def test_text(given: str, type: SqlType, shown: str) -> None:
    settings = {"TimeZone": "Europe/Berlin"}
    assert format_text(parse_text(given, type, settings), type, settings) == shown


@pytest.mark.parametrize(
    ("given", "type", "detail"),
    [
        ("1,2", INT4RANGE, "Missing left parenthesis or bracket."),
        ("[1 2]", INT4RANGE, "Missing comma after lower bound."),
        ("[1,2,3]", INT4RANGE, "Too many commas."),
        ("[1,2", INT4RANGE, "Unexpected end of input."),
        ("[1,2\\", INT4RANGE, "Unexpected end of input."),
        ("[1,2)x", INT4RANGE, "Junk after right parenthesis or bracket."),
        ("emptyx", INT4RANGE, 'Junk after "empty" key word.'),
        ("[1,2)", INT4MULTIRANGE, "Missing left brace."),
        ("{[1,2),}", INT4MULTIRANGE, "Expected range start."),
        ("{[1,2)[3,4)}", INT4MULTIRANGE, "Expected comma or end of multirange."),
        ("{[1,2)", INT4MULTIRANGE, "Unexpected end of input."),
        ("{[1,2)}x", INT4MULTIRANGE, "Junk after closing right brace."),
    ],
)
def test_malformed_text(given: str, type: SqlType, detail: str) -> None:
    with pytest.raises(InvalidTextRepresentation) as raised:
        parse_text(given, type)
    assert raised.value.detail == detail


def test_bounds_in_the_wrong_order_and_beyond_the_type() -> None:
    with pytest.raises(DataException, match="range lower bound must be less than or equal to range upper bound"):
        parse_text("[5,1]", INT4RANGE)
    with pytest.raises(NumericValueOutOfRange, match="integer out of range"):
        parse_text("[1,2147483647]", INT4RANGE)


def test_bytes_of_numerics_compare_as_the_numbers_do() -> None:
    chosen = random.Random(1)
    numbers = [Decimal(chosen.randrange(-(10**9), 10**9)).scaleb(chosen.randrange(-12, 12)) for _ in range(3000)]
    numbers += [Decimal("-Infinity"), Decimal(0), Decimal("Infinity")]
    of = range_of(3906)
    assert of is not None
    codec = codec_of(of)
    assert sorted(numbers) == sorted(numbers, key=codec.encode)
    for number in numbers:
        bound = rb.bound(codec, number, 1)
        assert codec.end(bound, 0) == len(bound)
        assert rb.value_of(codec, bound) == number
    assert codec.encode(Decimal("NaN")) > codec.encode(Decimal("Infinity"))


IN_ORDER = {
    t.FLOAT4: ["-Infinity", "-1.5", "-0.1", "0", "0.5", "Infinity", "NaN"],
    t.FLOAT8: ["-Infinity", "-1e+300", "-0.1", "0", "5e-324", "1e+300", "Infinity", "NaN"],
    t.INT2: ["-32768", "-1", "0", "32767"],
    t.BOOL: ["f", "t"],
    t.TEXT: ["", "a", "a b", "aa", "b", "é"],
    t.BYTEA: ["\\x", "\\x00", "\\x0000", "\\x0001", "\\x00ff", "\\x01", "\\xff"],
    t.TIME: ["00:00:00", "00:00:00.000001", "23:59:59.999999"],
    t.TIMETZ: ["10:00:00+02", "09:00:00+01", "08:00:00+00", "00:00:00-15:59:59"],
    t.UUID: ["00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    t.INET: ["10.0.0.0/8", "10.0.0.1/8", "10.0.0.0/16", "10.0.0.1", "255.0.0.1", "::1"],
    t.MACADDR: ["08:00:2b:01:02:03", "ff:00:2b:01:02:03"],
    t.PG_LSN: ["0/0", "0/FFFFFFFF", "1/0", "FFFFFFFF/0"],
    t.MONEY: ["-$92,233,720,368,547,758.08", "-$0.01", "$0.00", "$9.00", "$10.00"],
}
"""Texts of a type in the order of PostgreSQL 15."""


@pytest.mark.parametrize("oid", IN_ORDER)
def test_bytes_compare_as_values_do(oid: int) -> None:
    codec = CODECS[oid]
    values = [plain_value(parse_text(text, SqlType(oid)), oid) for text in IN_ORDER[oid]]
    encoded = [codec.encode(value) for value in values]
    assert encoded == sorted(encoded)
    assert len(set(encoded)) == len(encoded)
    for text, value in zip(IN_ORDER[oid], values, strict=True):
        bound = rb.bound(codec, value, 1)
        assert codec.end(bound + b"\x00\xff", 0) == len(bound)
        assert format_text(literal_value(rb.value_of(codec, bound), oid), SqlType(oid)) == text


def _ranges(chosen: random.Random, count: int) -> list[rb.Bounds]:
    of = range_of(3904)
    assert of is not None
    made = []
    for _ in range(count):
        lower, upper = sorted((chosen.randrange(10), chosen.randrange(10)))
        ends = chosen.choice([(lower, upper), (None, upper), (lower, None)])
        bounds = rb.bounds_of(of, *ends, lower_inc=chosen.random() < 0.5, upper_inc=chosen.random() < 0.5)
        made += [] if bounds is None else [bounds]
    return range_sets.normalized(_CODEC, made)


_OF = range_of(3904)
assert _OF is not None
_CODEC = codec_of(_OF)


def _values(ranges: Sequence[rb.Bounds]) -> set[int]:
    return {
        value for value in SMALL if range_sets.contains(_CODEC, ranges, [rb.element(_CODEC, value)])
    }  # fmt: skip


def test_operators_are_those_of_sets() -> None:
    chosen = random.Random(2)
    for _ in range(2000):
        left, right = _ranges(chosen, chosen.randrange(4)), _ranges(chosen, chosen.randrange(4))
        one, other = _values(left), _values(right)
        pairs: list[tuple[Any, Any]] = [
            (_values(range_sets.union(_CODEC, left, right)), one | other),
            (_values(range_sets.intersection(_CODEC, left, right)), one & other),
            (_values(range_sets.difference(_CODEC, left, right)), one - other),
            (range_sets.overlaps(_CODEC, left, right), bool(one & other)),
            (range_sets.contains(_CODEC, left, right), one >= other),
        ]
        for found, expected in pairs:
            assert found == expected
        for made in (range_sets.union, range_sets.intersection, range_sets.difference):
            ranges = made(_CODEC, left, right)
            assert ranges == range_sets.normalized(_CODEC, ranges)


def test_bytes_compare_as_ranges_do() -> None:
    """Ranges by their lower bounds, then by their upper ones, the empty one first; multiranges range by range."""
    ordered = ["empty", "(,1)", "(,)", "[1,2)", "[1,3)", "[1,)", "[2,3)"]
    data = [parse_text(text, INT4RANGE) for text in ordered]
    assert data == sorted(data, key=lambda item: bytes(item))  # type: ignore[call-overload]
    several = ["{}", "{(,1)}", "{(,1),[5,6)}", "{[1,2)}", "{[1,2),[4,5)}", "{[1,2),[4,)}", "{[1,3)}"]
    data = [parse_text(text, INT4MULTIRANGE) for text in several]
    assert data == sorted(data, key=lambda item: bytes(item))  # type: ignore[call-overload]


def test_fraction_digits_are_shown_and_not_compared() -> None:
    one, other = parse_text("[1.0,2]", NUMRANGE), parse_text("[1,2.00]", NUMRANGE)
    assert one != other
    assert isinstance(one, bytes)
    assert isinstance(other, bytes)
    assert rb.comparison_key(one) == rb.comparison_key(other)
