"""Built-in functions and views' rules as the CREATE commands that pg_get_functiondef and pg_get_ruledef show."""

from __future__ import annotations

from adapter.settings.values import lookup
from adapter.system_catalogs.objects import definitions
from adapter.system_catalogs.objects.functions import function_arguments, function_result, function_row
from adapter.system_catalogs.objects.objects import CatalogObjects, static_row
from planner.catalog_data import content as catalog_data
from planner.errors import WrongObjectType
from planner.syntax.identifiers import quote_identifier, quote_literal
from planner.types import derived_oids

_VOLATILITY = {"i": " IMMUTABLE", "s": " STABLE", "v": ""}
_PARALLEL = {"s": " PARALLEL SAFE", "r": " PARALLEL RESTRICTED", "u": ""}


def function_definition(objects: CatalogObjects, oid: int) -> str | None:
    """pg_get_functiondef; None when there is no such function, 42809 for aggregates."""
    row = function_row(objects, oid)
    if row is None:
        return None
    if row["prokind"] == "a":
        raise WrongObjectType(f'"{row["proname"]}" is an aggregate function')
    schema = quote_identifier(objects.schema_name_by_oid.get(row["pronamespace"], ""))
    language = dict(
        zip(catalog_data.columns("pg_language")["oid"], catalog_data.columns("pg_language")["lanname"], strict=True)
    )[row["prolang"]]
    attributes = (" WINDOW" if row["prokind"] == "w" else "") + _VOLATILITY[row["provolatile"]]
    attributes += _PARALLEL[row["proparallel"]]
    attributes += " STRICT" if row["proisstrict"] else ""
    attributes += " SECURITY DEFINER" if row["prosecdef"] else ""
    attributes += " LEAKPROOF" if row["proleakproof"] else ""
    default_cost = 1 if language in ("internal", "c") else 100
    if row["procost"] != default_cost:
        attributes += f" COST {row['procost']:g}"
    if row["proretset"] and row["prorows"] not in (0, 1000):
        attributes += f" ROWS {row['prorows']:g}"
    kind = "PROCEDURE" if row["prokind"] == "p" else "FUNCTION"
    body = row["prosqlbody"]
    if body is None:
        mark = f"${kind.lower()}"
        while f"{mark}$" in row["prosrc"]:
            mark += "x"
        body = f"AS {mark}${row['prosrc']}{mark}$"
    lines = [
        f"CREATE OR REPLACE {kind} {schema}.{quote_identifier(row['proname'])}({function_arguments(objects, oid)})"
    ]
    if kind == "FUNCTION":
        lines.append(f" RETURNS {function_result(objects, oid)}")
    lines.append(f" LANGUAGE {language}")
    if attributes:
        lines.append(attributes)
    lines.extend(_setting(setting) for setting in row["proconfig"] or ())
    return "\n".join([*lines, body]) + "\n"


def _setting(setting: str) -> str:
    """A SET clause."""
    name, _, value = setting.partition("=")
    known = lookup(name)
    if known is not None and known.list_value:
        items = [item.strip().strip('"') for item in value.split(",")]
        value = ", ".join(quote_literal(item) for item in items)
    else:
        value = quote_literal(value)
    return f" SET {quote_identifier(name)} TO {value}"


def rule_definition(objects: CatalogObjects, oid: int, path: tuple[int, ...], *, pretty: bool = False) -> str | None:
    """pg_get_ruledef of a view's rule; None when there is no such rule. Its query's relations outside `path` are
    qualified; `pretty` leaves out parentheses."""
    view = derived_oids.owner_of_rule(oid)
    if view is None:
        data = catalog_data.columns("pg_rewrite")
        position = static_row("pg_rewrite", "oid").get(oid)
        if position is None or data["rulename"][position] != "_RETURN":
            return None
        view = data["ev_class"][position]
    query = definitions.view_definition(objects, view, path, pretty=pretty)
    if query is None:
        return None
    name = definitions.qualified_relation_name(objects, view, None)
    return f'CREATE RULE "_RETURN" AS\n    ON SELECT TO {name} DO INSTEAD {query}'
