"""Functions on macaddr, macaddr8 and pg_lsn, held as the text that their output functions print."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.functions.udfs.table import Udf
from planner.values.opaque.address_text import (
    lsn_at,
    lsn_moved,
    lsn_of,
    macaddr8_of,
    macaddr_of,
    octets_of,
    parse_lsn,
    parse_macaddr,
    parse_macaddr8,
    parse_tid,
    show_address,
)


def trunc(address: str) -> str:
    """trunc(macaddr | macaddr8): all but the manufacturer's bytes zero."""
    octets = octets_of(address)
    return show_address(octets[:3] + bytes(len(octets) - 3))


def inverted(address: str) -> str:
    """The operator ~."""
    return show_address(bytes(255 - octet for octet in octets_of(address)))


def set7bit(address: str) -> str:
    """macaddr8_set7bit: the modified EUI-64 of an address."""
    octets = octets_of(address)
    return show_address(bytes([octets[0] | 0x02]) + octets[1:])


def _combined(operator: Callable[[int, int], int]) -> Callable[[str, str], str]:
    def call(left: str, right: str) -> str:
        return show_address(bytes(map(operator, octets_of(left), octets_of(right))))

    return call


_T = "VARCHAR"

UDFS: Mapping[str, Udf] = {
    "tg_macaddr_in": Udf((_T,), _T, parse_macaddr),
    "tg_macaddr8_in": Udf((_T,), _T, parse_macaddr8),
    "tg_macaddr8_of": Udf((_T,), _T, macaddr8_of),
    "tg_macaddr_of": Udf((_T,), _T, macaddr_of),
    "tg_mac_trunc": Udf((_T,), _T, trunc),
    "tg_mac_not": Udf((_T,), _T, inverted),
    "tg_mac_and": Udf((_T, _T), _T, _combined(lambda a, b: a & b)),
    "tg_mac_or": Udf((_T, _T), _T, _combined(lambda a, b: a | b)),
    "tg_mac_set7bit": Udf((_T,), _T, set7bit),
    "tg_lsn_at": Udf((_T,), _T, lsn_at),
    "tg_lsn_moved": Udf((_T, _T, _T), _T, lsn_moved),
    "tg_lsn_difference": Udf((_T, _T), _T, lambda one, other: str(lsn_of(one) - lsn_of(other))),
    "tg_tid_in": Udf((_T,), _T, parse_tid),
    "tg_lsn_in": Udf((_T,), _T, parse_lsn),
}
