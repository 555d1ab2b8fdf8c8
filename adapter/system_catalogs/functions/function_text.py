"""Built-in functions and views' rules as the CREATE commands that pg_get_functiondef and pg_get_ruledef show."""

from __future__ import annotations

from functools import partial

from adapter.settings.values import lookup
from adapter.system_catalogs.objects import definitions
from adapter.system_catalogs.objects.functions import function_arguments, function_result, function_row
from adapter.system_catalogs.objects.objects import CatalogObjects, static_row
from planner.calls.user_functions import returns_of, statements_of
from planner.catalog_data import content as catalog_data
from planner.definitions.expression_text import NotPrintable, ObjectNames
from planner.definitions.routines import with_arguments
from planner.definitions.shown.changes import body_statement_shown
from planner.definitions.shown.queries import ShownName
from planner.definitions.views import statement_text
from planner.errors import SqlError, WrongObjectType
from planner.resolution.statement import BindContext
from planner.syntax.identifiers import quote_identifier, quote_literal
from planner.syntax.parse import Parsed, split_and_parse
from planner.types import derived_oids
from planner.types.user_types import with_names_shown
from storage.catalog.routines import Function

_VOLATILITY = {"i": " IMMUTABLE", "s": " STABLE", "v": ""}
_PARALLEL = {"s": " PARALLEL SAFE", "r": " PARALLEL RESTRICTED", "u": ""}


def function_definition(
    objects: CatalogObjects, oid: int, path: tuple[int, ...], names: ObjectNames | None = None
) -> str | None:
    """pg_get_functiondef; None when there is no such function, 42809 for aggregates. Relations outside `path` are
    qualified in standard bodies; `names` is what regclass and the like show."""
    row = function_row(objects, oid)
    if row is None:
        return None
    if row["prokind"] == "a":
        raise WrongObjectType(f'"{row["proname"]}" is an aggregate function')
    schema = quote_identifier(objects.defined_in(row["pronamespace"]))
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
    body = function_body(objects, oid, path, names)
    if body is None:
        mark = f"${kind.lower()}"
        while f"{mark}$" in row["prosrc"]:
            mark += "x"
        body = f"AS {mark}${row['prosrc']}{mark}$"
    arguments = function_arguments(objects, oid, names)
    lines = [f"CREATE OR REPLACE {kind} {schema}.{quote_identifier(row['proname'])}({arguments})"]
    if kind == "FUNCTION":
        lines.append(f" RETURNS {function_result(objects, oid)}")
    lines.append(f" LANGUAGE {quote_identifier(language)}")
    if attributes:
        lines.append(attributes)
    lines.extend(_setting(setting) for setting in row["proconfig"] or ())
    return "\n".join([*lines, body]) + "\n"


def function_body(
    objects: CatalogObjects, oid: int, path: tuple[int, ...], names: ObjectNames | None = None
) -> str | None:
    """pg_get_function_sqlbody: the standard body of a function, None of others. Statements are laid out as PostgreSQL
    does."""
    record = objects.snapshot.get(oid)
    if not isinstance(record, Function) or record.sql_body is None:
        return (function_row(objects, oid) or {}).get("prosqlbody")
    context = with_arguments(record, definitions.bind_context(objects))
    shown = definitions.relation_names(objects, path)
    named = names or partial(definitions.name_of_object, objects)
    is_return, returns = record.sql_body.startswith("RETURN "), returns_of(record.sql_body)
    try:
        # What is kept of the parser's trees is not to be written into.
        bodies = [split_and_parse(statement_text(each))[0] for each in statements_of(record.body, record.sql_body)]
        texts = [
            _statement(each, context, shown, named, is_return=is_return, returned=returned)
            for each, returned in zip(bodies, returns, strict=True)
        ]
    except SqlError:
        # One that cannot be bound any more is shown as it is kept.
        texts = [None]
    if is_return:
        return with_names_shown(record.sql_body) if texts[0] is None else f"RETURN {texts[0]}"
    if None in texts:
        return with_names_shown(record.sql_body)
    return "\n".join(["BEGIN ATOMIC", *(f"{text};" for text in texts), "END"])


def _statement(
    parsed: Parsed, context: BindContext, shown: ShownName, names: ObjectNames, *, is_return: bool, returned: bool
) -> str | None:
    """A statement of a standard body; None of a RETURN that cannot be laid out."""
    kept = statement_text(parsed)
    try:
        first, *rest = body_statement_shown(
            parsed, context, shown, is_return=is_return, returned=returned, objects=names
        ).split("\n")
    except NotPrintable:
        return None if returned else with_names_shown(f" {kept}")
    return with_names_shown("\n".join([first, *(f" {line}" for line in rest)]))


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
    qualified; `pretty` leaves out parentheses, and the schema of a view that `path` finds."""
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
    name = definitions.qualified_relation_name(objects, view, path if pretty else None)
    return f'CREATE RULE "_RETURN" AS\n    ON SELECT TO {name} DO INSTEAD {query}'
