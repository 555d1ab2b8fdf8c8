"""jsonpath: the functions and operators that apply one to a jsonb value (PostgreSQL 15, 9.16.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.dialects.quoting import quoted
from planner.functions.forms.form import CallSite, Form, local_only

_FUNCTIONS = {
    "exists": "tg_jsonpath_exists",
    "match": "tg_jsonpath_match",
    "query": "tg_jsonpath_query",
    "query_array": "tg_jsonpath_query_array",
    "query_first": "tg_jsonpath_query_first",
}


def _of_session(function: str) -> Callable[[CallSite], str]:
    """A call of a function that may use the session's time zone."""

    def template(site: CallSite) -> str:
        zone = quoted(site.dialect.string(site.settings.timezone))
        return f"{function}({{0}}, {{1}}, {{2}}, {{3}}, {zone})"

    return template


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    for name, function in _FUNCTIONS.items():
        arguments = "(jsonb,jsonpath,jsonb,bool)"
        given[f"jsonb_path_{name}{arguments}"] = local_only(f"{function}({{0}}, {{1}}, {{2}}, {{3}}, '')")
        given[f"jsonb_path_{name}_tz{arguments}"] = local_only(_of_session(function))
    given["@?(jsonb,jsonpath)"] = local_only("tg_jsonpath_exists({0}, {1}, '{}', TRUE, '')")
    given["@@(jsonb,jsonpath)"] = local_only("tg_jsonpath_match({0}, {1}, '{}', TRUE, '')")
    return given
