"""The bounded map: what it keeps, in which order it drops, and what it counts; against a plain model, too."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.bounded_map import IDLE_SHARE, BoundedMap


def test_the_least_recently_used_goes_first() -> None:
    kept: BoundedMap[str, int] = BoundedMap(max_entries=2)
    assert kept.put("a", 1) == []
    assert kept.put("b", 2) == []
    assert kept.get("a") == 1
    kept.touch("a")
    assert kept.put("c", 3) == [("b", 2)]
    assert list(kept.items()) == [("a", 1), ("c", 3)]


def test_looking_is_not_using() -> None:
    kept: BoundedMap[str, int] = BoundedMap(max_entries=2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    assert "a" in kept
    assert kept.put("c", 3) == [("a", 1)]
    assert kept.get("a") is None


def test_bytes_bound_it_too() -> None:
    kept: BoundedMap[str, str] = BoundedMap(max_entries=10, max_bytes=100)
    kept.put("a", "A", 40)
    kept.put("b", "B", 40)
    assert kept.bytes == 80
    assert kept.put("c", "C", 90) == [("a", "A"), ("b", "B")]
    assert (kept.bytes, len(kept)) == (90, 1)


def test_what_replaces_counts_instead() -> None:
    kept: BoundedMap[str, str] = BoundedMap(max_bytes=100)
    kept.put("a", "A", 60)
    kept.put("b", "B", 30)
    assert kept.put("a", "A2", 10) == []
    assert kept.bytes == 40
    assert kept.put("c", "C", 70) == [("b", "B")]


def test_the_newest_stays_even_if_it_is_too_large() -> None:
    kept: BoundedMap[str, str] = BoundedMap(max_bytes=100)
    kept.put("a", "A", 10)
    assert kept.put("b", "B", 1000) == [("a", "A")]
    assert kept.get("b") == "B"
    assert kept.trim() == []


def test_an_entry_that_grows() -> None:
    kept: BoundedMap[str, str] = BoundedMap(max_bytes=100)
    kept.put("a", "A", 10)
    kept.put("b", "B", 10)
    kept.resize("a", 95)
    assert kept.bytes == 105
    assert kept.trim() == [("a", "A")]
    assert kept.bytes == 10


def test_a_pinned_entry_goes_when_it_is_let_go() -> None:
    pinned = {"a"}
    kept: BoundedMap[str, int] = BoundedMap(max_entries=1, pinned=lambda key, _: key in pinned)
    kept.put("a", 1)
    assert kept.put("b", 2) == []
    assert len(kept) == 2
    pinned.clear()
    assert kept.trim() == [("a", 1)]


def test_pop_and_clear_give_the_bytes_back() -> None:
    kept: BoundedMap[str, int] = BoundedMap(max_bytes=100)
    kept.put("a", 1, 30)
    kept.put("b", 2, 30)
    assert kept.pop("a") == 1
    assert kept.pop("a") is None
    assert kept.bytes == 30
    kept.clear()
    assert (kept.bytes, len(kept)) == (0, 0)


def test_a_use_of_what_is_gone_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        BoundedMap[str, int](max_entries=1).touch("a")


def test_a_hit_calls_nothing_of_ours() -> None:
    kept: BoundedMap[str, int] = BoundedMap(max_entries=2)
    kept.put("a", 1)
    calls: list[str] = []

    def seen(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(seen)
    try:
        kept.get("a")
        kept.touch("a")
    finally:
        sys.setprofile(None)
    assert calls == []


def filled(count: int, *, max_bytes: int, max_entries: int | None = None) -> BoundedMap[int, int]:
    kept: BoundedMap[int, int] = BoundedMap(max_entries=max_entries, max_bytes=max_bytes)
    for key in range(count):
        kept.put(key, key, 10)
    return kept


def test_what_is_not_used_between_two_calls_goes() -> None:
    kept = filled(4, max_entries=IDLE_SHARE, max_bytes=1000)
    assert kept.age(10) == []
    kept.touch(1)
    kept.put(9, 9, 10)
    assert kept.age(10) == [(0, 0), (2, 2), (3, 3)]
    assert [key for key, _ in kept.items()] == [1, 9]
    assert (len(kept), kept.bytes) == (2, 20)
    # One entry is what a map of so many may keep.
    assert kept.age(10) == [(1, 1)]
    assert kept.age(10) == []
    assert len(kept) == 1


def test_a_small_part_of_the_bound_stays() -> None:
    kept = filled(6, max_bytes=30 * IDLE_SHARE)
    kept.age(10)
    assert [key for key, _ in kept.age(10)] == [0, 1, 2]
    assert kept.age(10) == []


def test_ageing_in_pieces_comes_to_the_same() -> None:
    kept = filled(5, max_bytes=10 * IDLE_SHARE)
    kept.age(2)
    kept.put(5, 5, 10)
    assert [key for key, _ in kept.age(2)] == [0, 1]
    assert [key for key, _ in kept.age(2)] == [2, 3]
    assert [key for key, _ in kept.age(2)] == [4]
    assert [key for key, _ in kept.items()] == [5]


def test_what_is_pinned_does_not_age() -> None:
    pinned = {0}
    kept: BoundedMap[int, int] = BoundedMap(max_bytes=100, pinned=lambda key, _: key in pinned)
    kept.put(0, 0, 50)
    kept.put(1, 1, 50)
    kept.age(5)
    assert kept.age(5) == [(1, 1)]
    pinned.clear()
    assert kept.age(5) == [(0, 0)]


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "touch", "pop", "age"]), st.integers(0, 7), st.integers(0, 60)), max_size=60
)


@given(STEPS, st.integers(1, 5), st.integers(20, 150))
def test_it_does_what_a_plain_list_does(steps: list[tuple[str, int, int]], most: int, most_bytes: int) -> None:
    kept: BoundedMap[int, int] = BoundedMap(max_entries=most, max_bytes=most_bytes)
    model: list[tuple[int, int]] = []
    used: set[int] = set()
    # As much as a map of these bounds keeps when nobody uses it: nothing.
    assert most < IDLE_SHARE
    for step, key, size in steps:
        held = dict(model)
        if step == "put":
            model = [each for each in model if each[0] != key] + [(key, size)]
            gone = []
            while len(model) > 1 and (len(model) > most or sum(each for _, each in model) > most_bytes):
                gone.append(model.pop(0))
            assert kept.put(key, size, size) == gone
            used.add(key)
        elif step == "age":
            old = [each for each in model if each[0] not in used]
            assert kept.age(100) == old
            model = [each for each in model if each[0] in used]
            used = set()
        elif step == "pop":
            assert kept.pop(key) == held.get(key)
            model = [each for each in model if each[0] != key]
        elif key in held:
            kept.touch(key)
            used.add(key)
            model = [each for each in model if each[0] != key] + [(key, held[key])]
        assert list(kept.items()) == model
        assert kept.bytes == sum(each for _, each in model)
