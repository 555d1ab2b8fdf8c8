"""Functions on bit strings, held as texts of zeros and ones (`planner.values.opaque.bit_text`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from planner.errors import (
    ArraySubscriptError,
    InvalidParameterValue,
    NumericValueOutOfRange,
    StringDataLengthMismatch,
    SubstringError,
)
from planner.functions.udfs.table import Udf
from planner.types.types import BIT, VARBIT
from planner.values.opaque.bit_text import fit_bits, parse_bits

_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "AND": lambda a, b: a & b,
    "OR": lambda a, b: a | b,
    "XOR": lambda a, b: a ^ b,
}


def combined(left: str, right: str, name: str) -> str:
    """&, | and #."""
    if len(left) != len(right):
        raise StringDataLengthMismatch(f"cannot {name} bit strings of different sizes")
    return _bits(_OPERATORS[name](int(left or "0", 2), int(right or "0", 2)), len(left))


def combined_all(values: Sequence[str | None], name: str) -> str | None:
    """bit_and(), bit_or() and bit_xor()."""
    made: str | None = None
    for item in values:
        if item is not None:
            made = item if made is None else combined(made, item, name)
    return made


def _bits(number: int, length: int) -> str:
    """The last `length` bits of a number."""
    return f"{number & ((1 << length) - 1):0{length}b}" if length else ""


def inverted(bits: str) -> str:
    """~."""
    return bits.translate({48: 49, 49: 48})


def shifted(bits: str, count: int) -> str:
    """<<; to the right where `count` is negative."""
    if count >= 0:
        return bits[count:].ljust(len(bits), "0")
    return bits[: max(len(bits) + count, 0)].rjust(len(bits), "0")


def of_integer(number: int, length: int) -> str:
    """The cast of an integer to bit(length): its last bits, the sign before them."""
    return _bits(number, length)


def to_integer(bits: str, size: int) -> int:
    """The cast to integer (`size` 32) or bigint (64). Raises 22003 for more bits."""
    if len(bits) > size:
        raise NumericValueOutOfRange(f"{'integer' if size == 32 else 'bigint'} out of range")
    number = int(bits or "0", 2)
    return number - (1 << size) if number >> (size - 1) else number


def _check_index(bits: str, index: int) -> None:
    if not 0 <= index < len(bits):
        raise ArraySubscriptError(f"bit index {index} out of valid range (0..{len(bits) - 1})")


def get_bit(bits: str, index: int) -> int:
    """get_bit()."""
    _check_index(bits, index)
    return int(bits[index])


def set_bit(bits: str, index: int, value: int) -> str:
    """set_bit()."""
    _check_index(bits, index)
    if value not in (0, 1):
        raise InvalidParameterValue("new bit must be 0 or 1")
    return f"{bits[:index]}{value}{bits[index + 1 :]}"


def position(bits: str, part: str) -> int:
    """position(part in bits); 0 in no bits."""
    return bits.find(part) + 1 if bits else 0


def substring(bits: str, start: int, length: int) -> str:
    """substring(bits from start for length)."""
    if length < 0:
        raise SubstringError("negative substring length not allowed")
    return bits[max(start - 1, 0) : max(start - 1 + length, 0)]


def rest(bits: str, start: int) -> str:
    """substring(bits from start)."""
    return bits[max(start - 1, 0) :]


def overlay(bits: str, part: str, start: int, length: int) -> str:
    """overlay(bits placing part from start for length)."""
    if start <= 0:
        raise SubstringError("negative substring length not allowed")
    return bits[: start - 1] + part + bits[max(start + length - 1, 0) :]


_T, _I = "VARCHAR", "INTEGER"

UDFS: Mapping[str, Udf] = {
    "tg_bits_in": Udf((_T,), _T, parse_bits),
    "tg_bits_fit": Udf((_T, _I, "BOOLEAN"), _T, lambda bits, length, cut: fit_bits(bits, BIT, length, explicit=cut)),
    "tg_varbits_fit": Udf(
        (_T, _I, "BOOLEAN"), _T, lambda bits, length, cut: fit_bits(bits, VARBIT, length, explicit=cut)
    ),
    "tg_bits_combine": Udf((_T, _T, _T), _T, combined),
    "tg_bits_combine_all": Udf(("VARCHAR[]", _T), _T, combined_all),
    "tg_bits_not": Udf((_T,), _T, inverted),
    "tg_bits_left": Udf((_T, _I), _T, shifted),
    "tg_bits_right": Udf((_T, _I), _T, lambda bits, count: shifted(bits, -count)),
    "tg_bits_of_integer": Udf(("BIGINT", _I), _T, of_integer),
    "tg_bits_to_integer": Udf((_T, _I), "BIGINT", to_integer),
    "tg_bits_octets": Udf((_T,), _I, lambda bits: (len(bits) + 7) // 8),
    "tg_bits_count": Udf((_T,), "BIGINT", lambda bits: bits.count("1")),
    "tg_bits_get": Udf((_T, _I), _I, get_bit),
    "tg_bits_set": Udf((_T, _I, _I), _T, set_bit),
    "tg_bits_position": Udf((_T, _T), _I, position),
    "tg_bits_substring": Udf((_T, _I, _I), _T, substring),
    "tg_bits_rest": Udf((_T, _I), _T, rest),
    "tg_bits_overlay": Udf((_T, _T, _I, _I), _T, overlay),
    "tg_bits_placed": Udf((_T, _T, _I), _T, lambda bits, part, start: overlay(bits, part, start, len(part))),
}
