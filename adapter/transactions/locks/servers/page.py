"""What servers write down for each other of advisory locks: who has one, and who waits for it, in which order.

A page holds the locks whose names have one hash. Everything here is a pure function of a page; processes that have
ended are left out of it by whoever writes it next::

    Page(entries=(
        Entry(tag=(5, 0, 42, 1),                          # pg_advisory_lock(42) in the database with oid 5
              holders=(Holder("a", pid=7, modes=1 << Mode.EXCLUSIVE),),
              queue=(Waiter("b", pid=3, mode=Mode.SHARE),)),
    ))

A process writes its own sessions only, and orders them itself: between two of one process nothing here decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from adapter.transactions.locks.modes import CONFLICTS, Mode
from adapter.transactions.locks.tags import Tag

Session: TypeAlias = tuple[str, int]
"""A process of the environment, and the pid of one of its sessions."""

Name: TypeAlias = tuple[int, int, int, int]
"""An advisory lock: its database, and the rest of its tag."""


class Holder(Struct, frozen=True, array_like=True):
    """A session of `process` that has a lock in these modes (a set of bits)."""

    process: str
    pid: int
    modes: int

    @property
    def session(self) -> Session:
        """Who it is."""
        return self.process, self.pid


class Waiter(Struct, frozen=True, array_like=True):
    """A session of `process` that waits for a mode of a lock."""

    process: str
    pid: int
    mode: int

    @property
    def session(self) -> Session:
        """Who it is."""
        return self.process, self.pid


class Entry(Struct, frozen=True, kw_only=True):
    """One lock. The first in the `queue` has waited longest."""

    tag: Name
    holders: tuple[Holder, ...] = ()
    queue: tuple[Waiter, ...] = ()


class Within(Struct, frozen=True, array_like=True):
    """A session that waits for others of its own process, whatever for."""

    process: str
    pid: int
    blockers: tuple[int, ...]


class Page(Struct, frozen=True, kw_only=True):
    """Locks, and what is needed to find deadlocks that go through several processes."""

    entries: tuple[Entry, ...] = ()
    within: tuple[Within, ...] = ()


def name_of(tag: Tag) -> Name:
    """How an advisory lock is written down."""
    assert isinstance(tag.item, tuple)
    return (tag.space, *tag.item)


def tag_of(name: Name) -> Tag:
    """The advisory lock that is written down so."""
    return Tag("advisory", name[0], name[1:])


def entry_of(page: Page, name: Name) -> Entry:
    """What is known of a lock."""
    return next((entry for entry in page.entries if entry.tag == name), Entry(tag=name))


def processes(page: Page) -> frozenset[str]:
    """Everybody who has written something."""
    holding = {each.process for entry in page.entries for each in entry.holders}
    waiting = {each.process for entry in page.entries for each in entry.queue}
    return frozenset(holding | waiting | {each.process for each in page.within})


def of_living(page: Page, living: Collection[str]) -> Page:
    """The page without what others than `living` have written."""
    entries = [
        Entry(
            tag=entry.tag,
            holders=tuple(each for each in entry.holders if each.process in living),
            queue=tuple(each for each in entry.queue if each.process in living),
        )
        for entry in page.entries
    ]
    kept = tuple(entry for entry in entries if entry.holders or entry.queue)
    return Page(entries=kept, within=tuple(each for each in page.within if each.process in living))


def with_own(
    page: Page, name: Name, process: str, held: Mapping[int, int], waiting: Collection[tuple[int, int]]
) -> Page:
    """The page when sessions of `process` have a lock in these modes, by pid, and of those that were written down as
    waiting (pid and mode) only these still are."""
    entry = entry_of(page, name)
    others = tuple(each for each in entry.holders if each.process != process)
    own = tuple(Holder(process, pid, modes) for pid, modes in sorted(held.items()) if modes)
    queue = tuple(each for each in entry.queue if each.process != process or (each.pid, each.mode) in waiting)
    return _with(page, Entry(tag=name, holders=others + own, queue=queue))


def with_waiter(page: Page, name: Name, waiter: Waiter) -> Page:
    """The page when somebody waits for a lock, behind those who do already."""
    entry = entry_of(page, name)
    return page if waiter in entry.queue else _with(page, replace(entry, queue=(*entry.queue, waiter)))


def with_within(page: Page, process: str, waits: Mapping[int, Sequence[int]]) -> Page:
    """The page when these sessions of `process` wait for those others of it."""
    others = tuple(each for each in page.within if each.process != process)
    own = tuple(Within(process, pid, tuple(blockers)) for pid, blockers in sorted(waits.items()) if blockers)
    return replace(page, within=others + own)


def blockers(entry: Entry, waiter: Waiter) -> list[Session]:
    """Whom of other processes somebody waits for who wants a lock: holders, and those who have waited longer, unless
    it has the lock in another mode already: they wait for that."""
    excluding = CONFLICTS[Mode(waiter.mode)]
    found = {each.session: None for each in entry.holders if each.process != waiter.process and each.modes & excluding}
    has_some = any(each.session == waiter.session for each in entry.holders)
    for ahead in entry.queue:
        if ahead == waiter or has_some:
            break
        if ahead.process != waiter.process and excluding >> ahead.mode & 1:
            found[ahead.session] = None
    return list(found)


class Edges(Struct, frozen=True, kw_only=True):
    """Who waits for whom; `waits` has for what those wait who wait for another process."""

    blockers: Mapping[Session, Sequence[Session]]
    waits: Mapping[Session, tuple[Name, int]]


def edges(pages: Iterable[Page]) -> Edges:
    """Who waits for whom, by all pages."""
    found: dict[Session, dict[Session, None]] = {}
    waits: dict[Session, tuple[Name, int]] = {}
    for page in pages:
        for entry in page.entries:
            for waiter in entry.queue:
                waits[waiter.session] = entry.tag, waiter.mode
                found.setdefault(waiter.session, {}).update(dict.fromkeys(blockers(entry, waiter)))
        for each in page.within:
            within = [(each.process, pid) for pid in each.blockers]
            found.setdefault((each.process, each.pid), {}).update(dict.fromkeys(within))
    return Edges(blockers={session: tuple(whom) for session, whom in found.items()}, waits=waits)


def _with(page: Page, changed: Entry) -> Page:
    """The page with what is known now of one lock."""
    kept = [entry for entry in page.entries if entry.tag != changed.tag]
    if changed.holders or changed.queue:
        kept.append(changed)
    return replace(page, entries=tuple(sorted(kept, key=lambda entry: entry.tag)))
