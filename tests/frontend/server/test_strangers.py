"""Who has to go when too many ask to come in."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from frontend.server.strangers import Strangers


def test_the_oldest_of_the_most_crowded_place_goes() -> None:
    strangers, gone = Strangers(4), list[str]()
    with ExitStack() as stack:
        for name in ("a1", "b1", "a2", "a3", "b2", "a4"):
            stack.enter_context(strangers.one_more(name[0], partial(gone.append, name)))
        assert gone == ["a1", "a2"]
        assert len(strangers) == 4
        assert strangers.turned_away == 2
    assert len(strangers) == 0
    with strangers.one_more("a", partial(gone.append, "a5")):
        assert len(strangers) == 1
    assert gone == ["a1", "a2"]
