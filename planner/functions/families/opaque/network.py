"""inet and cidr: their functions, casts and order (PostgreSQL 15, 9.12)."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms.form import Form, local_only

_FUNCTIONS = {
    "host(inet)": "tg_inet_host({0})",
    "text(inet)": "tg_inet_show({0})",
    "abbrev(inet)": "{0}",
    "abbrev(cidr)": "tg_cidr_abbrev({0})",
    "family(inet)": "tg_inet_family({0})",
    "masklen(inet)": "tg_inet_masklen({0})",
    "network(inet)": "tg_inet_network({0})",
    "netmask(inet)": "tg_inet_netmask({0})",
    "hostmask(inet)": "tg_inet_hostmask({0})",
    "broadcast(inet)": "tg_inet_broadcast({0})",
    "set_masklen(inet,int4)": "tg_inet_set_masklen({0}, {1}, 'inet')",
    "set_masklen(cidr,int4)": "tg_inet_set_masklen({0}, {1}, 'cidr')",
    "inet_same_family(inet,inet)": "tg_inet_same_family({0}, {1})",
    "inet_merge(inet,inet)": "tg_inet_merge({0}, {1})",
    "cidr(inet)": "tg_inet_network({0})",
    ">>(inet,inet)": "tg_inet_contains({0}, {1}, TRUE)",
    ">>=(inet,inet)": "tg_inet_contains({0}, {1}, FALSE)",
    "<<(inet,inet)": "tg_inet_contains({1}, {0}, TRUE)",
    "<<=(inet,inet)": "tg_inet_contains({1}, {0}, FALSE)",
    "&&(inet,inet)": "tg_inet_overlaps({0}, {1})",
    "+(inet,int8)": "tg_inet_add({0}, {1})",
    "+(int8,inet)": "tg_inet_add({1}, {0})",
    "-(inet,int8)": "tg_inet_subtract({0}, {1})",
    "-(inet,inet)": "tg_inet_difference({0}, {1})",
    "~(inet)": "tg_inet_not({0})",
    "&(inet,inet)": "tg_inet_and({0}, {1})",
    "|(inet,inet)": "tg_inet_or({0}, {1})",
}


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given = {key: local_only(template) for key, template in _FUNCTIONS.items()}
    given["abbrev(inet)"] = Form(local="{0}", spark="{0}")
    for symbol in ("=", "<>"):
        given[f"{symbol}(inet,inet)"] = Form(local=f"({{0}} {symbol} {{1}})", spark=f"({{0}} {symbol} {{1}})")
    for symbol in ("<", ">", "<=", ">="):
        given[f"{symbol}(inet,inet)"] = local_only(f"(tg_inet_key({{0}}) {symbol} tg_inet_key({{1}}))")
    return given
