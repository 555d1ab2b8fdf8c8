"""Keys as 64-bit numbers: a hash for equality, and a prefix that keeps the order. Over whole columns, in numpy.

Both follow from the values alone, in every process and version (`definition.KEY_FORMAT` says which rules):

- `hashes`: equal keys have equal hashes. NULL has a hash of its own, so NULL keys are found too; whether NULLs are
  equal is for the caller to say (`any_null`).
- `prefixes`: the first 64 bits of an encoding whose bytes compare as the keys do, with DESC and the place of NULLs in
  it. A smaller prefix means a smaller key; equal ones mean nothing unless both keys are *exact*: encoded whole.
- `order`: a permutation that sorts by the whole keys, and where they are equal by position.

The encoding of one value is prefix-free, so that columns follow each other without a gap::

    INTEGER   1 byte: 0x80 + k (not negative) or 0x7f - k; then the k bytes that the number needs
    TEXT      each byte + 2; then 0x01
    FLOAT     bits 01; 64 bits that compare as the numbers do
    DECIMAL   bits 01; sign; position of the first bit (8 bits) and the 53 after it, of the value times 10**38
    BYTES     bits 01; 7 bytes, padded with zeros; min(length, 8) in 4 bits; 00
    INTERVAL  days and microseconds as two INTEGERs

DESC inverts the bits of a value. NULL is a byte (TEXT, INTEGER, INTERVAL) or two bits of zeros (NULLS FIRST) or ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from storage.shards.indexes.definition import Computed, Domain, IndexDefinition, KeyColumn

Keys: TypeAlias = npt.NDArray[np.uint64]
Positions: TypeAlias = npt.NDArray[np.uint32]
Mask: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]

SEED = 0x9E3779B97F4A7C15
NULL_WORD = 0xD1B54A32D192ED03
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)

PACKED_ROWS = 4_096
"""Fewer keys are sorted as they are."""

LONG_BYTES = 256
"""Longer texts are hashed by BLAKE2, one by one: a pass over all rows for each eight bytes would cost more."""

DECIMAL_SCALE = 38
WIDE_DECIMAL = pa.decimal256(76, DECIMAL_SCALE)
"""Holds every decimal of up to 38 digits exactly."""

DAY_MICROS = 86_400_000_000
MONTH_DAYS = 30

_U = np.uint64
_ONES = _U(0xFFFFFFFFFFFFFFFF)
_SIGN = _U(1 << 63)
_TAIL_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], _U)
_TEXT_SHIFTS = np.array(
    [(0x0202020202020202 & ((1 << 8 * n) - 1)) | (1 << 8 * n) for n in range(8)] + [0x0202020202020202], _U
)
_NAN_BITS = _U(0x7FF8000000000000)


class Texts(Struct, frozen=True):
    """Strings of bytes: where each begins in `data`, which goes on for eight bytes after the last, and its length."""

    data: npt.NDArray[np.uint8]
    starts: Ints
    lengths: Ints

    def words(self) -> Keys:
        """The eight bytes from every byte of `data` on, the first lowest."""
        return np.ndarray(len(self.data) - 7, "<u8", self.data, strides=(1,))


class Values(Struct, frozen=True, kw_only=True):
    """The values of one key column in the form that keys are made from.

    `numbers`, one column of int64 each: INTEGER one, INTERVAL two. `words`: FLOAT one column of uint64 that compare as
    the numbers do, DECIMAL four limbs of the value times 10**38, lowest first. `texts`: TEXT and BYTES.
    """

    column: KeyColumn
    rows: int
    nulls: Mask | None
    numbers: tuple[Ints, ...] = ()
    words: tuple[Keys, ...] = ()
    texts: Texts | None = None


class Prefixes(Struct, frozen=True, kw_only=True):
    """See the module. `bits[i]` is how long the encoding of key i is; up to 64, it is whole."""

    keys: Keys
    bits: Ints

    @property
    def exact(self) -> Mask:
        """Which keys are encoded whole."""
        found: Mask = self.bits <= 64
        return found


def key_arrays(definition: IndexDefinition, rows: pa.Table) -> list[pa.Array]:
    """The key columns of `rows`, which has the inputs of `definition` under their names and in their types."""
    return [one_array(_evaluate(column.source, rows)) for column in definition.columns]


def _evaluate(source: Any, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
    return source.evaluate(rows) if isinstance(source, Computed) else rows.column(source.name)


def in_index(definition: IndexDefinition, rows: pa.Table) -> Mask | None:
    """Which of `rows` the predicate takes into the index; None: all."""
    if definition.predicate is None:
        return None
    met = one_array(definition.predicate.evaluate(rows))
    found: Mask = met.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def indexed(definition: IndexDefinition, rows: pa.Table) -> tuple[Ints, list[pa.Array]]:
    """Which of `rows` are in the index, and the key columns of these. Keys of other rows are not computed: they may be
    such as their expressions fail for."""
    held = in_index(definition, rows)
    if held is None:
        return np.arange(rows.num_rows), key_arrays(definition, rows)
    places = np.flatnonzero(held)
    return places, key_arrays(definition, rows.take(pa.array(places, pa.int64())))


def values_of(columns: Sequence[KeyColumn], arrays: Sequence[pa.Array]) -> list[Values]:
    """The key columns `arrays`, each of its column's type (decimals of any scale, integers of any width)."""
    return [_values(column, one_array(array)) for column, array in zip(columns, arrays, strict=True)]


def one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """`array` in one piece."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
    return array


def any_null(values: Sequence[Values]) -> Mask | None:
    """In which keys a column is NULL; None: in none."""
    found: Mask | None = None
    for item in values:
        if item.nulls is not None:
            found = item.nulls if found is None else found | item.nulls
    return found


def hashes(values: Sequence[Values]) -> Keys:
    """The equality hash of each key."""
    hashed: Keys = np.full(values[0].rows, SEED, _U)
    for item in values:
        before = hashed
        hashed = _folded(hashed, item)
        if item.nulls is not None:
            hashed[item.nulls] = _mixed(before[item.nulls] ^ _U(NULL_WORD))
    return hashed


def prefixes(values: Sequence[Values]) -> Prefixes:
    """The order-preserving prefix of each key, which may be the first columns of an index only."""
    keys: Keys | None = None
    used: Ints = np.zeros(0, np.int64)
    for item in values:
        pieces = _encoded(item)
        for number, (piece, length) in enumerate(pieces):
            if item.column.descending:
                piece = ~piece & ~_right_ones(length)
            if item.nulls is not None:
                null = null_bits(item.column)
                piece = np.where(
                    item.nulls, _U(0 if number or item.column.nulls_first else (1 << null) - 1 << 64 - null), piece
                )
                length = np.where(item.nulls, 0 if number else null, length)
            if keys is None:
                keys, used = piece, length
                continue
            room = used < 64
            keys = keys | np.where(room, piece >> np.minimum(used, 63).astype(_U), _U(0))
            used = used + length
    if keys is None:
        keys, used = np.zeros(values[0].rows, _U), np.zeros(values[0].rows, np.int64)
    return Prefixes(keys=keys, bits=used)


def ascending(keys: Keys) -> Ints:
    """The permutation that sorts `keys`; equal ones by position. It is `np.argsort(kind="stable")`, in an eighth of the
    time for many keys that seldom meet in their upper bits."""
    if len(keys) < PACKED_ROWS or not (keys[1:] < keys[:-1]).any():
        return np.argsort(keys, kind="stable")
    # numpy sorts numbers far faster than it finds their order: the lowest bits of each make room for its position.
    bits = (len(keys) - 1).bit_length()
    low = _U((1 << bits) - 1)
    packed = (keys & ~low) | np.arange(len(keys), dtype=_U)
    packed.sort()
    permutation: Ints = (packed & low).astype(np.int64)
    # Those whose other bits are equal are in the order of their positions so far.
    meet = np.flatnonzero((packed[1:] ^ packed[:-1]) <= low)
    if not len(meet):
        return permutation
    if len(meet) > len(keys) // 16:
        # By the lowest bits first, then by the others among those.
        positions = np.arange(len(keys), dtype=_U)
        packed = keys << _U(bits) | positions
        packed.sort()
        permutation = (packed & low).astype(np.int64)
        packed = keys[permutation] >> _U(64 - bits) << _U(bits) | positions
        packed.sort()
        return permutation[(packed & low).astype(np.int64)]
    places = np.unique(np.concatenate((meet, meet + 1)))
    rows = permutation[places]
    permutation[places] = rows[np.lexsort((rows, keys[rows]))]
    return permutation


def null_bits(column: KeyColumn) -> int:
    """How many ones encode a NULL that is last, and how many zeros one that is first."""
    return 8 if column.domain in (Domain.INTEGER, Domain.TEXT, Domain.INTERVAL) else 2


def order(values: Sequence[Values], encoded: Prefixes) -> Ints:
    """The positions of the keys in their order; equal keys by position."""
    permutation = ascending(encoded.keys)
    sorted_keys = encoded.keys[permutation]
    same = sorted_keys[1:] == sorted_keys[:-1]
    if not same.any():
        return permutation
    exact = encoded.exact[permutation]
    # A tie is undecided where one of the two keys is not encoded whole.
    doubtful = np.flatnonzero(same & ~(exact[1:] & exact[:-1]))
    if not len(doubtful):
        return permutation
    group = np.concatenate(([0], np.cumsum(~same)))
    undecided = np.flatnonzero(np.isin(group, group[doubtful]))
    rows = permutation[undecided]
    columns = [array for item in values for array in _sortable(item, rows)]
    table = pa.table({"group": group[undecided], **{f"k{n}": array for n, array in enumerate(columns)}})
    by = [("group", "ascending"), *((f"k{n}", "ascending") for n in range(len(columns)))]
    permutation[undecided] = rows[pc.sort_indices(table, by).to_numpy()]
    return permutation


def _sortable(values: Values, rows: Ints) -> list[pa.Array]:
    """Columns whose ascending order is that of `values` at `rows`."""
    column = values.column
    found: list[pa.Array] = []
    if values.nulls is not None:
        found.append(pa.array((values.nulls[rows] != column.nulls_first).astype(np.int8)))
    if values.texts is None:
        for numbers in _comparable(values):
            part = numbers[rows]
            if values.nulls is not None:
                part = np.where(values.nulls[rows], 0, part).astype(part.dtype)
            # Inverting the bits reverses the order, signed or not.
            found.append(pa.array(~part if column.descending else part))
        return found
    array = binary_array(values.texts, rows)
    if not column.descending:
        return [*found, array]
    ranks = pc.rank(array, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return [*found, pa.array(-ranks)]


def _comparable(values: Values) -> list[npt.NDArray[Any]]:
    """Arrays of numbers, most significant first, that compare as the values do."""
    if values.column.domain is Domain.DECIMAL:
        low, second, third, high = values.words
        return [high ^ _SIGN, third, second, low]
    return list(values.numbers) or list(values.words)


def binary_array(texts: Texts, rows: Ints) -> pa.Array:
    """The texts or bytes at `rows`; a NULL as one that is empty."""
    starts, lengths = texts.starts[rows], texts.lengths[rows]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    at = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    data = texts.data[at]
    return pa.Array.from_buffers(
        pa.large_binary(), len(rows), [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    )


def equal(left: Sequence[Values], at_left: Ints, right: Sequence[Values], at_right: Ints) -> Mask:
    """Whether the key `at_left[i]` of `left` equals the key `at_right[i]` of `right`; NULLs are equal here."""
    found: Mask = np.ones(len(at_left), bool)
    for one, other in zip(left, right, strict=True):
        no = np.zeros(1, bool)
        null_one = no if one.nulls is None else one.nulls[at_left]
        null_other = no if other.nulls is None else other.nulls[at_right]
        if one.texts is not None and other.texts is not None:
            pair = binary_array(one.texts, at_left), binary_array(other.texts, at_right)
            same = pc.equal(*pair).to_numpy(zero_copy_only=False)
        else:
            pairs = zip(_comparable(one), _comparable(other), strict=True)
            same = np.logical_and.reduce([a[at_left] == b[at_right] for a, b in pairs])
        found &= np.where(null_one | null_other, null_one & null_other, same)
    return found


def compare(values: Values, bound: Values) -> Ints:
    """-1, 0 or 1 for each of `values` as it is below the one value `bound`, equal to it or above. DESC and NULLs are
    the caller's affair."""
    if values.texts is not None and bound.texts is not None:
        texts = binary_array(values.texts, np.arange(values.rows))
        limit = binary_array(bound.texts, np.zeros(1, np.int64))[0]
        above = pc.greater(texts, limit).to_numpy(zero_copy_only=False)
        below = pc.less(texts, limit).to_numpy(zero_copy_only=False)
        signs: Ints = above.astype(np.int64) - below
        return signs
    found: Ints = np.zeros(values.rows, np.int64)
    for numbers, limits in zip(_comparable(values), _comparable(bound), strict=True):
        decided = (numbers > limits[0]).astype(np.int64) - (numbers < limits[0])
        found = np.where(found == 0, decided, found)
    return found


# ------------------------------------------------------------ values


def _values(column: KeyColumn, array: pa.Array) -> Values:
    rows = len(array)
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    match column.domain:
        case Domain.INTEGER:
            return Values(column=column, rows=rows, nulls=nulls, numbers=(_integers(array),))
        case Domain.FLOAT:
            return Values(column=column, rows=rows, nulls=nulls, words=(_floats(array),))
        case Domain.DECIMAL:
            return Values(column=column, rows=rows, nulls=nulls, words=_limbs(array))
        case Domain.INTERVAL:
            return Values(column=column, rows=rows, nulls=nulls, numbers=_interval(array))
        case Domain.TEXT | Domain.BYTES:
            return _texts(column, array, nulls)


def _integers(array: pa.Array) -> Ints:
    type_ = array.type
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        array = array.view(pa.int64())
    elif pa.types.is_date32(type_) or pa.types.is_time32(type_):
        array = array.view(pa.int32())
    elif pa.types.is_boolean(type_):
        array = array.cast(pa.int8())
    numbers: Ints = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def _floats(array: pa.Array) -> Keys:
    numbers = array.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    # -0.0 + 0.0 is 0.0.
    bits: Keys = (numbers + 0.0).view(_U)
    bits = np.where(np.isnan(numbers), _NAN_BITS, bits)
    return np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)


def _limbs(array: pa.Array) -> tuple[Keys, ...]:
    wide = array.cast(WIDE_DECIMAL)
    limbs = np.frombuffer(wide.buffers()[1], _U).reshape(-1, 4)[wide.offset : wide.offset + len(wide)]
    if array.null_count:
        limbs = np.where(array.is_null().to_numpy(zero_copy_only=False)[:, None], _U(0), limbs)
    return tuple(np.ascontiguousarray(limbs[:, n]) for n in range(4))


def _interval(array: pa.Array) -> tuple[Ints, Ints]:
    months, days, micros = (
        pc.struct_field(array, name).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        for name in ("months", "days", "micros")
    )
    whole, rest = np.divmod(micros, DAY_MICROS)
    return months * MONTH_DAYS + days + whole, rest


def _texts(column: KeyColumn, array: pa.Array, nulls: Mask | None) -> Values:
    if column.padded:
        array = pc.utf8_rtrim(array, " ")
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offset_buffer, data_buffer = array.buffers()
    rows = len(array)
    if not rows:
        offsets = np.zeros(1, np.int64)
    else:
        offsets = np.frombuffer(offset_buffer, np.int64 if wide else np.int32)
        offsets = offsets[array.offset : array.offset + rows + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + 8, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8)[first:last]
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    if nulls is not None:
        lengths = np.where(nulls, 0, lengths)
    return Values(column=column, rows=rows, nulls=nulls, texts=Texts(data, starts, lengths))


# ------------------------------------------------------------ hashes


def _mixed(words: Keys) -> Keys:
    """Each of `words` with its bits spread (the finisher of SplitMix64); changes them in place."""
    words ^= words >> _U(30)
    words *= _U(MULTIPLIERS[0])
    words ^= words >> _U(27)
    words *= _U(MULTIPLIERS[1])
    words ^= words >> _U(31)
    return words


def _folded(hashed: Keys, values: Values) -> Keys:
    if values.texts is not None:
        return _folded_texts(hashed.copy(), values.texts)
    for numbers in values.numbers:
        hashed = _mixed(hashed ^ numbers.view(_U))
    for words in values.words:
        hashed = _mixed(hashed ^ words)
    return hashed


def _folded_texts(hashed: Keys, texts: Texts) -> Keys:
    starts, lengths, view = texts.starts, texts.lengths, texts.words()
    long = np.flatnonzero(lengths > LONG_BYTES)
    counts = (lengths + 7) >> 3
    counts[long] = 0
    # As long as every text goes on, no rows have to be chosen; while none ends, nothing has to be cut off.
    shortest = int(lengths.min()) if len(lengths) and not len(long) else 0
    at = 0
    while 8 * at < shortest:
        words = view[starts + 8 * at]
        if shortest < 8 * at + 8:
            words &= _TAIL_MASKS[np.minimum(lengths - 8 * at, 8)]
        hashed = _mixed(hashed ^ words)
        at += 1
    rows = np.flatnonzero(counts > at)
    while len(rows):
        words = view[starts[rows] + 8 * at] & _TAIL_MASKS[np.minimum(lengths[rows] - 8 * at, 8)]
        hashed[rows] = _mixed(hashed[rows] ^ words)
        at += 1
        rows = rows[counts[rows] > at]
    for row in long:
        digest = hashlib.blake2b(texts.data[starts[row] : starts[row] + lengths[row]].data, digest_size=8).digest()
        hashed[row : row + 1] = _mixed(hashed[row : row + 1] ^ _U(int.from_bytes(digest, "little")))
    return _mixed(hashed ^ lengths.view(_U))


# ------------------------------------------------------------ the order-preserving encoding


def _right_ones(length: Ints) -> Keys:
    """Numbers whose bits after the first `length` are ones."""
    return np.where(length >= 64, _U(0), _ONES >> np.minimum(length, 63).astype(_U))


def _encoded(values: Values) -> list[tuple[Keys, Ints]]:
    """The first 64 bits of each value's encoding, and how many bits that has. An INTERVAL's is in two pieces."""
    if values.texts is not None:
        return [(_encoded_texts if values.column.domain is Domain.TEXT else _encoded_bytes)(values.texts)]
    if values.numbers:
        return [_encoded_integers(numbers) for numbers in values.numbers]
    if len(values.words) > 1:
        return [_encoded_decimals(values.words)]
    (words,) = values.words
    return [(_U(1 << 62) | words >> _U(2), np.where(words & _U(3) != 0, 66, 64))]


def _encoded_integers(numbers: Ints) -> tuple[Keys, Ints]:
    negative = numbers < 0
    mixed = bool(negative.any())
    magnitude = np.where(negative, ~numbers, numbers).view(_U) if mixed else numbers.view(_U)
    lowest, highest = (int(magnitude.min()), int(magnitude.max())) if len(magnitude) else (0, 0)
    # Bytes that all numbers need, then those that some do: few have eight.
    least, most = -(-lowest.bit_length() // 8), -(-highest.bit_length() // 8)
    size = np.full(len(numbers), least, np.uint8)
    for number in range(least, most):
        size += magnitude >= _U(1 << 8 * number)
    wide = size.astype(_U)
    head = (np.where(negative, _U(0x7F) - wide, _U(0x80) + wide) if mixed else _U(0x80) + wide) << _U(56)
    # Shifted by 64 bits nothing is left, which numpy does not say.
    tail = numbers.view(_U) << np.minimum(_U(64) - (wide << _U(3)), _U(63))
    if mixed and not least:
        tail[size == 0] = 0
    return head | tail >> _U(8), (8 + (wide << _U(3))).astype(np.int64)


def _first_words(texts: Texts) -> tuple[Keys, Ints]:
    """The first eight bytes of each text, the first lowest, zeros after its end; and the lengths."""
    return texts.words()[texts.starts] & _TAIL_MASKS[np.minimum(texts.lengths, 8)], texts.lengths


def _encoded_texts(texts: Texts) -> tuple[Keys, Ints]:
    words, lengths = _first_words(texts)
    # No byte of UTF-8 is above 0xf4, so none overflows.
    shifted = words + _TEXT_SHIFTS[np.minimum(lengths, 8)]
    return shifted.byteswap(), 8 * np.minimum(lengths + 1, 9)


def _encoded_bytes(texts: Texts) -> tuple[Keys, Ints]:
    words, lengths = _first_words(texts)
    first = (words & _U(0xFFFFFFFFFFFFFF)).byteswap() >> _U(8)
    short = np.minimum(lengths, 8).astype(_U)
    return _U(1 << 62) | first << _U(6) | short << _U(2), np.where(lengths <= 7, 64, 72)


def _encoded_decimals(limbs: tuple[Keys, ...]) -> tuple[Keys, Ints]:
    negative = limbs[3] & _SIGN != 0
    # One's complement: that the magnitude of a negative number is one too small does not change the order.
    low, second, third, high = (np.where(negative, ~limb, limb) for limb in limbs)
    top = np.select([high != 0, third != 0, second != 0], [high, third, second], low)
    below = np.select([high != 0, third != 0, second != 0], [third, second, low], np.zeros_like(low))
    place = np.select([high != 0, third != 0, second != 0], [192, 128, 64], 0)
    length = _bit_length(top)
    shift = (64 - length).astype(_U)
    aligned = np.where(length == 0, _U(0), top << np.minimum(shift, _U(63)))
    aligned |= np.where(length == 64, _U(0), below >> np.minimum(length, 63).astype(_U))
    # The first bit is a one: left out.
    fraction = (aligned << _U(1)) >> _U(11)
    positive = _U(1 << 61) | (place + length).astype(_U) << _U(53) | fraction
    body = np.where(negative, ~positive & _U((1 << 62) - 1), positive)
    return _U(1 << 62) | body, np.full(len(low), 66, np.int64)


def _bit_length(words: Keys) -> Ints:
    upper = words >> _U(32)
    # Exact in a float: below 2**53.
    large = np.frexp(upper.astype(np.float64))[1].astype(np.int64)
    small = np.frexp((words & _U(0xFFFFFFFF)).astype(np.float64))[1].astype(np.int64)
    return np.where(upper != 0, large + 32, small)
