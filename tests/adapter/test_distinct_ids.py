"""Row ids without doubles."""

from __future__ import annotations

import numpy as np
import pytest

from adapter.distinct_ids import distinct_ids


@pytest.mark.parametrize("ids", [[], [7], [3, 1, 3, 2, 1], [5, 5, 5], [-(1 << 62), 1 << 62, -(1 << 62)], [2, 1]])
def test_they_are_sorted_and_each_is_there_once(ids: list[int]) -> None:
    found = distinct_ids(np.array(ids, np.int64))
    assert found.tolist() == sorted(set(ids))
    assert found.dtype == np.int64
