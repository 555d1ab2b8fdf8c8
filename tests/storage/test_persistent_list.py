"""The list whose earlier states stay: against tuples."""

from __future__ import annotations

import random

from storage.persistent_list import PersistentList


def test_every_state_stays() -> None:
    choose = random.Random(5)
    states: list[tuple[PersistentList[int], tuple[int, ...]]] = [(PersistentList(), ())]
    for number in range(2000):
        # Mostly the newest grows, sometimes an older one.
        found, expected = states[-1] if choose.random() < 0.8 else choose.choice(states)
        states.append((found.add(number), (*expected, number)))
    for found, expected in states:
        assert tuple(found) == expected
        assert found.length == len(expected)


def test_an_empty_list_keeps_nothing() -> None:
    empty: PersistentList[int] = PersistentList()
    one, two = empty.add(1), empty.add(2)
    assert (list(one), list(two), list(empty)) == ([1], [2], [])
    assert one._shared is not two._shared
    assert empty._shared == []


def test_growing_shares_the_beginning() -> None:
    items: PersistentList[int] = PersistentList()
    items = items.add(0)
    for number in range(1, 100):
        grown = items.add(number)
        assert grown._shared is items._shared
        items = grown
