"""hstore: sets of pairs of a key and a text (PostgreSQL 15, appendix F.18). What is computed is
`planner.functions.udfs.extensions.hstore`'s."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.engines.spark import checked
from planner.functions.families.comparison import keyed
from planner.functions.forms.form import CallSite, Form, both, local_only

_ORDERS = {"#<#": "<", "#<=#": "<=", "#>#": ">", "#>=#": ">="}


def _call(name: str, places: str) -> Form:
    return local_only(f"tg_hstore_{name}({places})")


def _python(site: CallSite, text: str) -> str:
    """Calls of functions in Python, spelled for the engine."""
    return text if site.engine == "local" else checked(text)


def _of_arrays(name: str) -> Form:
    """A function of the arrays that stand behind the first argument, which says what type the result has. It takes
    their dimensions too."""

    def template(site: CallSite) -> str:
        parts = []
        for number, type in enumerate(site.arg_types[1:], 1):
            if type.dimensioned:
                parts += [f"({{{number}}}).items", f"({{{number}}}).dims"]
            else:
                parts += [f"{{{number}}}", f"CAST(NULL AS {site.dialect.dimensions})"]
        return _python(site, f"tg_hstore_{name}({', '.join(parts)})")

    return both(template)


def _values_of(site: CallSite) -> str:
    """``->`` with an array: the values stand where the keys do."""
    if not site.arg_types[1].dimensioned:
        return _python(site, "tg_hstore_values_of({0}, {1})")
    values = _python(site, "tg_hstore_values_of({0}, ({1}).items)")
    return (
        f"CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {site.dialect.dimensioned(values, '({1}).dims')} END"
    )


def _matrix(site: CallSite) -> str:
    """Two columns, of the keys and of the values."""
    items, dims = (_python(site, f"tg_hstore_{name}({{0}})") for name in ("flat", "matrix_dimensions"))
    return f"CASE WHEN {{0}} IS NOT NULL THEN {site.dialect.dimensioned(items, dims)} END"


def operators() -> Mapping[str, tuple[str, Form]]:
    """By their keys (`planner.functions.registry`): the type of the result, and the form."""
    return {
        "->(hstore,text)": ("text", _call("value", "{0}, {1}")),
        "->(hstore,text[])": ("text[]", both(_values_of)),
        "?(hstore,text)": ("bool", _call("has", "{0}, {1}")),
        "?|(hstore,text[])": ("bool", _call("has_any", "{0}, {1}")),
        "?&(hstore,text[])": ("bool", _call("has_all", "{0}, {1}")),
        "-(hstore,text)": ("hstore", _call("without_key", "{0}, {1}")),
        "-(hstore,text[])": ("hstore", _call("without_keys", "{0}, {1}")),
        "-(hstore,hstore)": ("hstore", _call("without_pairs", "{0}, {1}")),
        "||(hstore,hstore)": ("hstore", _call("joined", "{0}, {1}")),
        "@>(hstore,hstore)": ("bool", _call("contains", "{0}, {1}")),
        "<@(hstore,hstore)": ("bool", _call("contains", "{1}, {0}")),
        "%%(hstore)": ("text[]", _call("flat", "{0}")),
        "%#(hstore)": ("text[]", both(_matrix)),
        "=(hstore,hstore)": ("bool", both(keyed("="))),
        "<>(hstore,hstore)": ("bool", both(keyed("<>"))),
        **{f"{symbol}(hstore,hstore)": ("bool", local_only(keyed(order))) for symbol, order in _ORDERS.items()},
        # An expression over the fields of the row (`planner.expressions.extensions.hstore_rows`).
        "#=(anyelement,hstore)": ("anyelement", Form()),
    }


def aggregates() -> Mapping[str, tuple[str, Form]]:
    """There are none."""
    return {}


def functions() -> Mapping[str, tuple[str, Form]]:
    """What the script of the extension calls, likewise. Where no argument is an hstore, a NULL of that type goes
    first."""
    return {
        "hstore_of_pair(hstore,text,text)": ("hstore", _call("of_pair", "{1}, {2}")),
        "hstore_of_list(hstore,text[])": ("hstore", _of_arrays("of_list")),
        "hstore_of_lists(hstore,text[],text[])": ("hstore", _of_arrays("of_lists")),
        "hstore_value(hstore,text)": ("text", _call("value", "{0}, {1}")),
        "hstore_values_of(hstore,text[])": ("text[]", both(_values_of)),
        "hstore_slice(hstore,text[])": ("hstore", _call("slice", "{0}, {1}")),
        "hstore_has(hstore,text)": ("bool", _call("has", "{0}, {1}")),
        "hstore_has_any(hstore,text[])": ("bool", _call("has_any", "{0}, {1}")),
        "hstore_has_all(hstore,text[])": ("bool", _call("has_all", "{0}, {1}")),
        "hstore_is_defined(hstore,text)": ("bool", _call("is_defined", "{0}, {1}")),
        "hstore_without(hstore,text)": ("hstore", _call("without_key", "{0}, {1}")),
        "hstore_without(hstore,text[])": ("hstore", _call("without_keys", "{0}, {1}")),
        "hstore_without(hstore,hstore)": ("hstore", _call("without_pairs", "{0}, {1}")),
        "hstore_joined(hstore,hstore)": ("hstore", _call("joined", "{0}, {1}")),
        "hstore_contains(hstore,hstore)": ("bool", _call("contains", "{0}, {1}")),
        "hstore_keys(hstore)": ("text[]", _call("keys", "{0}")),
        "hstore_values(hstore)": ("text[]", _call("values", "{0}")),
        "hstore_flat(hstore)": ("text[]", _call("flat", "{0}")),
        "hstore_matrix(hstore)": ("text[]", both(_matrix)),
        "hstore_json(hstore,bool)": ("json", _call("json", "{0}, {1}")),
        "hstore_jsonb(hstore,bool)": ("jsonb", _call("jsonb", "{0}, {1}")),
        "hstore_assign(hstore,text,text)": ("hstore", _call("assigned", "{0}, {1}, {2}")),
        "hstore_output(hstore,any)": ("text", both("{text:1}")),
        "hstore_key(hstore)": ("bytea", _call("key", "{0}")),
    }


OF_DIMENSIONS: Mapping[str, bool] = {
    "->": False, "hstore_of_list": False, "hstore_of_lists": False, "hstore_values_of": False,
    "%#": True, "hstore_matrix": True,
}  # fmt: skip
"""The routines that look at the dimensions of arrays, and whether each makes some whatever it gets."""

FUNCTIONS_BEHIND: Mapping[str, str] = {
    "->": "fetchval", "?": "exist", "?|": "exists_any", "?&": "exists_all", "-": "delete", "||": "hs_concat",
    "@>": "hs_contains", "<@": "hs_contained", "%%": "hstore_to_array", "%#": "hstore_to_matrix", "=": "hstore_eq",
    "<>": "hstore_ne", "#<#": "hstore_lt", "#<=#": "hstore_le", "#>#": "hstore_gt", "#>=#": "hstore_ge",
    "#=": "populate_record",
}  # fmt: skip
"""By their symbols: the functions that do what the operators do; ``->`` of an array has slice_array."""
