"""Bit strings: operators, functions and aggregates (PostgreSQL 15, 9.6)."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.engines.spark import checked
from planner.functions.forms.form import CallSite, Form, both, local_only
from planner.types.signature import COMPARISONS

_FUNCTIONS = {
    "&(bit,bit)": "tg_bits_combine({0}, {1}, 'AND')",
    "|(bit,bit)": "tg_bits_combine({0}, {1}, 'OR')",
    "#(bit,bit)": "tg_bits_combine({0}, {1}, 'XOR')",
    "~(bit)": "tg_bits_not({0})",
    "<<(bit,int4)": "tg_bits_left({0}, {1})",
    ">>(bit,int4)": "tg_bits_right({0}, {1})",
    "octet_length(bit)": "tg_bits_octets({0})",
    "bit_count(bit)": "tg_bits_count({0})",
    "get_bit(bit,int4)": "tg_bits_get({0}, {1})",
    "set_bit(bit,int4,int4)": "tg_bits_set({0}, {1}, {2})",
    "position(bit,bit)": "tg_bits_position({0}, {1})",
    "substring(bit,int4,int4)": "tg_bits_substring({0}, {1}, {2})",
    "substring(bit,int4)": "tg_bits_rest({0}, {1})",
    "overlay(bit,bit,int4,int4)": "tg_bits_overlay({0}, {1}, {2}, {3})",
    "overlay(bit,bit,int4)": "tg_bits_placed({0}, {1}, {2})",
}


def _aggregate(name: str) -> Form:
    def collected(site: CallSite) -> str:
        if site.engine == "local":
            return f"tg_bits_combine_all(list({{d}}{{0}}){{f}}, '{name}')"
        return checked(f"tg_bits_combine_all(collect_list({{d}}{{0}}){{f}}, '{name}')")

    return Form(local=collected, spark=collected)


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given = {key: local_only(template) for key, template in _FUNCTIONS.items()}
    for symbol in COMPARISONS:
        given[f"{symbol}(bit,bit)"] = given[f"{symbol}(varbit,varbit)"] = both(f"({{0}} {symbol} {{1}})")
    given["||(varbit,varbit)"] = both("({0} || {1})")
    given["length(bit)"] = given["bit_length(bit)"] = both("CAST(length({0}) AS {t})")
    for name in ("and", "or", "xor"):
        given[f"bit_{name}(bit)"] = _aggregate(name.upper())
    return given
