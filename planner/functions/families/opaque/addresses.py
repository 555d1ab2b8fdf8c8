"""macaddr and macaddr8 (PostgreSQL 15, 9.12), pg_lsn and tid: functions, operators and order."""

from __future__ import annotations

from collections.abc import Mapping

from planner.dialects.comparison_keys import LSN_KEY, TID_KEY
from planner.functions.forms.form import Form, both, local_only
from planner.types.signature import COMPARISONS

_ADDRESSES = {
    "trunc({type})": "tg_mac_trunc({0})",
    "~({type})": "tg_mac_not({0})",
    "&({type},{type})": "tg_mac_and({0}, {1})",
    "|({type},{type})": "tg_mac_or({0}, {1})",
}


_KEYS = {"pg_lsn": LSN_KEY, "tid": TID_KEY}


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {"macaddr8_set7bit(macaddr8)": local_only("tg_mac_set7bit({0})")}
    given["macaddr8(macaddr)"] = local_only("tg_macaddr8_of({0})")
    given["macaddr(macaddr8)"] = local_only("tg_macaddr_of({0})")
    for type in ("macaddr", "macaddr8"):
        for key, template in _ADDRESSES.items():
            given[key.replace("{type}", type)] = local_only(template)
    for symbol in COMPARISONS:
        for type in ("macaddr", "macaddr8"):
            given[f"{symbol}({type},{type})"] = both(f"({{0}} {symbol} {{1}})")
        for type, key in _KEYS.items():
            given[f"{symbol}({type},{type})"] = both(f"({key} {symbol} {key.replace('{0}', '{1}')})")
    for symbol in ("=", "<>"):
        given[f"{symbol}(tid,tid)"] = both(f"({{0}} {symbol} {{1}})")
    given["pg_lsn(numeric)"] = local_only("tg_lsn_at({text:0})")
    for sign in "+-":
        given[f"{sign}(pg_lsn,numeric)"] = local_only(f"tg_lsn_moved({{0}}, {{text:1}}, '{sign}')")
    given["+(numeric,pg_lsn)"] = local_only("tg_lsn_moved({1}, {text:0}, '+')")
    given["-(pg_lsn,pg_lsn)"] = given["pg_wal_lsn_diff(pg_lsn,pg_lsn)"] = local_only("tg_lsn_difference({0}, {1})")
    for name in ("min", "max"):
        for type, key in _KEYS.items():
            given[f"{name}({type})"] = Form(
                local=f"arg_{name}({{0}}, {key}){{f}}", spark=f"{name}_by({{0}}, {key}){{f}}"
            )
    return given
