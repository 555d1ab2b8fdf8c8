"""Functions on inet and cidr, both held as the text that their output functions print."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from planner.errors import InvalidParameterValue, NumericValueOutOfRange
from planner.functions.udfs.table import Udf
from planner.values.opaque.network_text import Network, parse_cidr, parse_inet


def _inet(made: Callable[[Network], Network]) -> Callable[[str], str]:
    return lambda text: made(parse_inet(text)).inet()


def show(text: str) -> str:
    """text(inet) and the cast to text: always with the length of the network part."""
    return parse_inet(text).cidr()


def host(text: str) -> str:
    """host(inet)."""
    return parse_inet(text).host()


def family(text: str) -> int:
    """family(inet): 4 or 6."""
    return parse_inet(text).version


def network(text: str) -> str:
    """network(inet), and the cast of an inet to cidr: the host part cleared."""
    given = parse_inet(text)
    return replace(given, address=given.address & given.mask).cidr()


def set_masklen(text: str, bits: int, kind: str) -> str:
    """set_masklen(inet | cidr, int)."""
    given = parse_inet(text)
    if not -1 <= bits <= given.width:
        raise InvalidParameterValue(f"invalid mask length: {bits}")
    made = replace(given, bits=given.width if bits == -1 else bits)
    return made.inet() if kind == "inet" else replace(made, address=made.address & made.mask).cidr()


def abbreviated_cidr(text: str) -> str:
    """abbrev(cidr): an IPv4 network without the octets that are all host part."""
    given = parse_cidr(text)
    if given.version == 4:
        octets = given.host().split(".")[: max((given.bits + 7) // 8, 1)]
        return f"{'.'.join(octets)}/{given.bits}"
    words = max((given.bits + 15) // 16, 1)
    shown = given.host()
    # Two zero words at the end are the host part's; they go when nothing but them is left out.
    if shown.endswith("::") and shown != "::" and shown.count(":") - 1 == words:
        shown = shown[:-2]
    return f"{shown}/{given.bits}"


def same_family(left: str, right: str) -> bool:
    """inet_same_family()."""
    return family(left) == family(right)


def merge(left: str, right: str) -> str:
    """inet_merge(): the smallest network that holds both."""
    a, b = parse_inet(left), parse_inet(right)
    if a.version != b.version:
        raise InvalidParameterValue("cannot merge addresses from different families")
    bits = min(a.bits, b.bits, a.width - (a.address ^ b.address).bit_length())
    made = replace(a, bits=bits)
    return replace(made, address=made.address & made.mask).cidr()


def key(text: str) -> bytes:
    """Bytes that sort as PostgreSQL sorts addresses: family, network part, its length, the whole address."""
    given = parse_inet(text)
    size = given.width // 8
    network_part = (given.address & given.mask).to_bytes(size)
    return bytes([given.version]) + network_part + bytes([given.bits]) + given.address.to_bytes(size)


def contains(left: str, right: str, proper: bool) -> bool:
    """>> and >>=."""
    a, b = parse_inet(left), parse_inet(right)
    if a.version != b.version or a.bits > b.bits or (proper and a.bits == b.bits):
        return False
    return (a.address ^ b.address) & a.mask == 0


def overlaps(left: str, right: str) -> bool:
    """&&."""
    return contains(left, right, False) or contains(right, left, False)


def add(text: str, number: int) -> str:
    """inet + bigint."""
    given = parse_inet(text)
    address = given.address + number
    if not 0 <= address < 1 << given.width:
        raise NumericValueOutOfRange("result is out of range")
    return replace(given, address=address).inet()


def subtract(text: str, number: int) -> str:
    """inet - bigint."""
    return add(text, -number)


def difference(left: str, right: str) -> int:
    """inet - inet."""
    a, b = parse_inet(left), parse_inet(right)
    if a.version != b.version:
        raise InvalidParameterValue("cannot subtract inet values of different sizes")
    result = a.address - b.address
    if not -(1 << 63) <= result < 1 << 63:
        raise NumericValueOutOfRange("result is out of range")
    return result


def _combined(name: str, operator: Callable[[int, int], int]) -> Callable[[str, str], str]:
    def call(left: str, right: str) -> str:
        a, b = parse_inet(left), parse_inet(right)
        if a.version != b.version:
            raise InvalidParameterValue(f"cannot {name} inet values of different sizes")
        return replace(a, address=operator(a.address, b.address), bits=max(a.bits, b.bits)).inet()

    return call


def _all_host(given: Network) -> Network:
    return replace(given, bits=given.width)


_T, _I = "VARCHAR", "INTEGER"

UDFS: Mapping[str, Udf] = {
    "tg_inet_in": Udf((_T,), _T, _inet(lambda given: given)),
    "tg_cidr_in": Udf((_T,), _T, lambda text: parse_cidr(text).cidr()),
    "tg_inet_show": Udf((_T,), _T, show),
    "tg_inet_host": Udf((_T,), _T, host),
    "tg_inet_family": Udf((_T,), _I, family),
    "tg_inet_masklen": Udf((_T,), _I, lambda text: parse_inet(text).bits),
    "tg_inet_network": Udf((_T,), _T, network),
    "tg_inet_netmask": Udf((_T,), _T, _inet(lambda given: _all_host(replace(given, address=given.mask)))),
    "tg_inet_hostmask": Udf((_T,), _T, _inet(lambda given: _all_host(replace(given, address=given.host_mask)))),
    "tg_inet_broadcast": Udf((_T,), _T, _inet(lambda given: replace(given, address=given.address | given.host_mask))),
    "tg_inet_set_masklen": Udf((_T, _I, _T), _T, set_masklen),
    "tg_cidr_abbrev": Udf((_T,), _T, abbreviated_cidr),
    "tg_inet_same_family": Udf((_T, _T), "BOOLEAN", same_family),
    "tg_inet_merge": Udf((_T, _T), _T, merge),
    "tg_inet_key": Udf((_T,), "BLOB", key),
    "tg_inet_contains": Udf((_T, _T, "BOOLEAN"), "BOOLEAN", contains),
    "tg_inet_overlaps": Udf((_T, _T), "BOOLEAN", overlaps),
    "tg_inet_add": Udf((_T, "BIGINT"), _T, add),
    "tg_inet_subtract": Udf((_T, "BIGINT"), _T, subtract),
    "tg_inet_difference": Udf((_T, _T), "BIGINT", difference),
    "tg_inet_not": Udf(
        (_T,), _T, _inet(lambda given: replace(given, address=given.address ^ ((1 << given.width) - 1)))
    ),
    "tg_inet_and": Udf((_T, _T), _T, _combined("AND", lambda a, b: a & b)),
    "tg_inet_or": Udf((_T, _T), _T, _combined("OR", lambda a, b: a | b)),
}
