"""What failures to authenticate cost those who make them, and nobody else.

Failures fill buckets that leak: one for each address and role together, one for each address, one for each role. A
failure is answered later the fuller its bucket is; when one is full, clients that it is for are refused before any
secret of theirs is looked at. A success empties the bucket of its address and role, and for a while an address that
has been let in as a role is not held back by others' failures at that role: nobody locks a role's users out by failing
in its name. An IPv6 address counts with its /64.

Pure: times are given, in seconds. Holds at most `MAX_BUCKETS` buckets; the least used ones go first.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable

from msgspec import Struct

from frontend.connections.addresses import IpAddress
from storage.bounded_map import BoundedMap

MAX_BUCKETS = 20_000
FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 3.0
TRUSTED_FOR_S = 3600.0
"""How long an address counts as one of a role's after it was let in."""


class Limit(Struct, frozen=True, kw_only=True):
    """A bucket holds `failures`, and loses one every `leak_s` seconds."""

    failures: int
    leak_s: float


PAIR = Limit(failures=10, leak_s=10.0)
ADDRESS = Limit(failures=50, leak_s=2.0)
ROLE = Limit(failures=100, leak_s=1.0)


class _Bucket:
    __slots__ = ("at", "level")

    def __init__(self) -> None:
        self.level = 0.0
        self.at = 0.0


class Throttle:
    """See the module's contract."""

    def __init__(self) -> None:
        self._buckets: BoundedMap[Hashable, _Bucket] = BoundedMap(max_entries=MAX_BUCKETS)
        self._let_in: BoundedMap[Hashable, float] = BoundedMap(max_entries=MAX_BUCKETS)

    def is_refused(self, address: IpAddress | None, role: str, now: float) -> bool:
        """Whether a client from there may not even try. `address` is None on a Unix socket."""
        place = _place(address)
        if self._is_full(("pair", place, role), PAIR, now) or self._is_full(("address", place), ADDRESS, now):
            return True
        known = self._let_in.get((place, role))
        return (known is None or now - known > TRUSTED_FOR_S) and self._is_full(("role", role), ROLE, now)

    def failed(self, address: IpAddress | None, role: str, now: float) -> float:
        """Note a failure; how many seconds its answer is to be kept back."""
        place = _place(address)
        level = self._fill(("pair", place, role), PAIR, now)
        self._fill(("address", place), ADDRESS, now)
        self._fill(("role", role), ROLE, now)
        return float(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (max(level, 1.0) - 1)))

    def succeeded(self, address: IpAddress | None, role: str, now: float) -> None:
        """Note that a client has been let in."""
        place = _place(address)
        self._buckets.pop(("pair", place, role))
        self._let_in.put((place, role), now)

    def _is_full(self, key: Hashable, limit: Limit, now: float) -> bool:
        bucket = self._buckets.get(key)
        return bucket is not None and _level(bucket, limit, now) > limit.failures - 1

    def _fill(self, key: Hashable, limit: Limit, now: float) -> float:
        bucket = self._buckets.get(key) or _Bucket()
        bucket.level, bucket.at = min(_level(bucket, limit, now) + 1, limit.failures), now
        self._buckets.put(key, bucket)
        return bucket.level


def _level(bucket: _Bucket, limit: Limit, now: float) -> float:
    return max(0.0, bucket.level - (now - bucket.at) / limit.leak_s)


def _place(address: IpAddress | None) -> Hashable:
    if isinstance(address, ipaddress.IPv6Address) and not address.is_loopback:
        return int(address) >> 64
    return address
