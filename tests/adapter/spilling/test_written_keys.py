"""Written keys, against a set of Python."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from adapter.spilling.temporary_files import TemporaryFiles
from adapter.spilling.written_keys import KEY_BYTES, MOST_RUNS, WrittenKeys
from tests.adapter.spilling.files import temporary_files

EQUAL: list[tuple[Any, Any]] = [
    (Decimal("1.0"), Decimal("1.00")),
    (Decimal("-0"), Decimal("0.000")),
    (Decimal(10**40 + 1), Decimal(f"{10**40 + 1}.0")),
    (0.0, -0.0),
    (1.5, 1.5),
    ("a\0", "a\0"),
    (None, None),
    (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (Decimal(10**40), Decimal(10**40 + 1)),
    ("1", "1 "),
    ("", None),
    ("a", "b"),
    (1.5, 1.25),
    ("NaN", "'NaN'"),
]


def _filled(given: Any) -> tuple[WrittenKeys, TemporaryFiles]:
    """Keys of which `given` is one that is in a file."""
    files = temporary_files(work_mem="64")
    written = WrittenKeys(files, set())
    written.add((given,))
    for number in range(64 * 1024 // KEY_BYTES):
        written.add((f"other {number}", number))
    return written, files


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_keys_are_met(one: Any, other: Any) -> None:
    written, files = _filled(one)
    written.look_for([None, (other,)])
    assert files.used > 0
    assert (other,) in written


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_ones_are_not(one: Any, other: Any) -> None:
    written, files = _filled(one)
    written.look_for([(other,)])
    assert files.used > 0
    assert (other,) not in written


@pytest.mark.parametrize("seed", range(5))
def test_like_a_set(seed: int) -> None:
    random_ = random.Random(seed)
    files = temporary_files(work_mem="64")
    written, model = WrittenKeys(files, set()), set[Any]()
    for _ in range(40):
        keys = [(random_.randrange(40_000), "k") for _ in range(300)]
        written.look_for(keys)
        for key in keys:
            assert (key in written) == (key in model)
            written.add(key)
            model.add(key)
    assert len(written._runs) <= MOST_RUNS
    assert len(written._recent) * KEY_BYTES < 64 * 1024 + 300 * KEY_BYTES
    assert files.used < 16 * 2 * len(model) + 1000 * MOST_RUNS
