"""A lock table that cannot be wrong: one list of what is held and one of who waits, gone through from the start."""

from __future__ import annotations

from dataclasses import dataclass, field

from adapter.transactions.locks.modes import CONFLICTS, Mode
from adapter.transactions.locks.tags import Tag


@dataclass(eq=False)
class Held:
    """`owner` took `tag` in `mode` after its mark number `mark`."""

    owner: int
    tag: Tag
    mode: Mode
    mark: int


@dataclass(eq=False)
class Wish:
    """What an owner wants, one after the other; it waits for the first."""

    owner: int
    tags: list[Tag]
    mode: Mode


@dataclass
class Model:
    """The rules of `adapter.transactions.locks.lock`, by searching."""

    held: list[Held] = field(default_factory=list)
    queue: list[Wish] = field(default_factory=list)
    marks: dict[int, int] = field(default_factory=dict)
    races: bool = False
    """Whether several went on at one moment, so that their order matters, which no rule gives."""

    def modes(self, owner: int, tag: Tag) -> list[Mode]:
        """What `owner` has of `tag`."""
        return [item.mode for item in self.held if item.owner == owner and item.tag == tag]

    def _is_deadlock(self, owner: int, tag: Tag, mode: Mode) -> bool:
        """Whether `owner` and the first who waits for it at a table would wait for each other."""
        wishes = [wish for wish in self.queue if wish.tags[0] == tag]
        for wish in wishes:
            if any(CONFLICTS[wish.mode] >> held & 1 for held in self.modes(owner, tag)):
                return tag.kind == "relation" and any(
                    CONFLICTS[mode] >> held & 1 for held in self.modes(wish.owner, tag)
                )
        return False

    def waits(self, owner: int) -> bool:
        """Whether `owner` waits."""
        return any(wish.owner == owner for wish in self.queue)

    def want(self, owner: int, tags: list[Tag], mode: Mode) -> None:
        """Let `owner` have `tags`, or wait."""
        rest = list(tags)
        while rest:
            if not self._has(owner, rest[0], mode):
                place = self._place(owner, rest[0])
                # Of rows those are let through whom no holder excludes (`adapter.transactions.locks.row_locks`).
                passes = rest[0].kind == "tuple"
                ahead = [] if passes else [wish for wish in self.queue[:place] if wish.tags[0] == rest[0]]
                if self._excluded(owner, rest[0], mode) or any(CONFLICTS[mode] >> wish.mode & 1 for wish in ahead):
                    if self._is_deadlock(owner, rest[0], mode):
                        return
                    self.queue.insert(place, Wish(owner, rest, mode))
                    return
                self.held.append(Held(owner, rest[0], mode, self.marks.get(owner, 0)))
            del rest[0]

    def _has(self, owner: int, tag: Tag, mode: Mode) -> bool:
        held = self.modes(owner, tag)
        return any(other >= mode for other in held) if tag.kind == "tuple" else mode in held

    def _excluded(self, owner: int, tag: Tag, mode: Mode) -> bool:
        return any(item.tag == tag and item.owner != owner and CONFLICTS[mode] >> item.mode & 1 for item in self.held)

    def _place(self, owner: int, tag: Tag) -> int:
        held = self.modes(owner, tag)
        for place, wish in enumerate(self.queue):
            if wish.tags[0] == tag and any(CONFLICTS[wish.mode] >> mode & 1 for mode in held):
                return place
        return len(self.queue)

    def mark(self, owner: int) -> int:
        """A savepoint."""
        self.marks[owner] = self.marks.get(owner, 0) + 1
        return self.marks[owner]

    def merge(self, owner: int, mark: int) -> None:
        """RELEASE of a savepoint."""
        for item in self.held:
            if item.owner == owner:
                item.mark = min(item.mark, mark - 1)
        self.marks[owner] = mark - 1

    def undo(self, owner: int, mark: int) -> None:
        """ROLLBACK TO a savepoint; 0 is the end of the transaction."""
        self.held = [item for item in self.held if item.owner != owner or item.mark < mark]
        self.marks[owner] = mark
        self.go_on()

    def end(self, owner: int) -> None:
        """The end of the transaction."""
        self.undo(owner, 0)

    def give_up(self, owner: int) -> None:
        """`owner` waits no longer."""
        self.queue = [wish for wish in self.queue if wish.owner != owner]
        self.go_on()

    def go_on(self) -> None:
        """Grant what can be granted, then let those who want more ask for it, until nothing changes."""
        while going := self._grant():
            self.races = self.races or len(going) > 1
            for wish in going:
                self.want(wish.owner, wish.tags[1:], wish.mode)

    def _grant(self) -> list[Wish]:
        """Those who got what they waited for and want more."""
        going: list[Wish] = []
        for wish in list(self.queue):
            tag, mode = wish.tags[0], wish.mode
            ahead = [other for other in self.queue[: self.queue.index(wish)] if other.tags[0] == tag]
            if not self._excluded(wish.owner, tag, mode) and not any(
                CONFLICTS[mode] >> other.mode & 1 for other in ahead
            ):
                self.queue.remove(wish)
                self.held.append(Held(wish.owner, tag, mode, self.marks.get(wish.owner, 0)))
                if len(wish.tags) > 1:
                    going.append(wish)
        return going
