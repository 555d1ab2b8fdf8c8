"""jsonpath: the functions and operators that apply one to a jsonb value (PostgreSQL 15, 9.16.2)."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms.form import Form, local_only

_FUNCTIONS = {
    "exists": "tg_jsonpath_exists",
    "match": "tg_jsonpath_match",
    "query": "tg_jsonpath_query",
    "query_array": "tg_jsonpath_query_array",
    "query_first": "tg_jsonpath_query_first",
}


def forms() -> Mapping[str, Form]:
    """The family's forms. Without .datetime() the time zone does not matter, and _tz means the same."""
    given: dict[str, Form] = {}
    for name, function in _FUNCTIONS.items():
        for suffix in ("", "_tz"):
            given[f"jsonb_path_{name}{suffix}(jsonb,jsonpath,jsonb,bool)"] = local_only(
                f"{function}({{0}}, {{1}}, {{2}}, {{3}})"
            )
    given["@?(jsonb,jsonpath)"] = local_only("tg_jsonpath_exists({0}, {1}, '{}', TRUE)")
    given["@@(jsonb,jsonpath)"] = local_only("tg_jsonpath_match({0}, {1}, '{}', TRUE)")
    return given
