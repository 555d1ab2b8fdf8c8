"""Rules of what a SELECT leaves to be found out: stars with EXCEPT, EXCLUDE, REPLACE or RENAME behind them, and GROUP
BY ALL.

See `planner.syntax.dialects.rules` for what a rule is.
"""

from __future__ import annotations

from typing import Any

from planner.syntax.dialects.rules import Rule, text

_SEVERAL = frozenset({"bigquery", "duckdb", "snowflake"})
"""Where all columns of a name that is left out are left out, and not one of which it has to be clear which."""

_EVERYTHING = "tidegate.chosen_columns(NULL, "
"""See `planner.queries.target_list.CHOSEN_COLUMNS`."""

_WITHOUT = frozenset({"bigquery", "snowflake", "duckdb", "databricks", "spark"})
_REPLACED = frozenset({"bigquery", "snowflake", "duckdb"})
_RENAMED = frozenset({"snowflake", "duckdb"})
_GROUPED_BY_ALL = frozenset({"spark", "databricks", "snowflake", "bigquery", "duckdb"})


def _star(node: Any, dialect: str) -> Any:
    """A star, of which some columns are left out, or are others."""
    left_out, replaced, renamed = (node.args.get(name) or [] for name in ("except_", "replace", "rename"))
    if not (left_out or replaced or renamed):
        return node
    if (
        (left_out and dialect not in _WITHOUT)
        or (replaced and dialect not in _REPLACED)
        or (renamed and dialect not in _RENAMED)
        or any(each.args.get("table") for each in left_out)
    ):
        return None
    names = [_text(each.name) for each in left_out]
    pairs = [name for each in renamed for name in (_text(each.this.name), _text(each.alias))]
    values = "".join(f", {text(each.args['alias'])} => {text(each.this)}" for each in replaced)
    several = "true" if dialect in _SEVERAL else "false"
    return f"{_EVERYTHING}{several}, ARRAY[{', '.join(names)}], ARRAY[{', '.join(pairs)}]{values})"


def _text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _column(node: Any, dialect: str) -> Any:
    """A column; of `t.*` with words behind it the table goes into the call."""
    if type(node.this).__name__ != "Var" or not str(node.this.this).startswith(_EVERYTHING):
        return node
    table = ".".join(text(node.args[part]) for part in ("catalog", "db", "table") if node.args.get(part))
    return _EVERYTHING.replace("NULL", f"{table}.*") + str(node.this.this).removeprefix(_EVERYTHING)


def group_by_all(select: Any, dialect: str, exp: Any) -> bool:
    """Makes GROUP BY ALL, of a SELECT that has not been converted yet, one by the numbers of the columns without
    aggregates. Whether it could."""
    if dialect not in _GROUPED_BY_ALL:
        return False
    group = select.args["group"]
    numbers = []
    for number, each in enumerate(select.expressions, 1):
        value = each.unalias()
        if value.find(exp.Window, exp.Query, exp.Anonymous, exp.Explode, exp.Unnest) or isinstance(value, exp.Literal):
            return False
        if value.find(exp.Star) and not value.find(exp.Count):
            return False
        if not value.find(exp.AggFunc):
            numbers.append(number)
        elif any(column.find_ancestor(exp.AggFunc, exp.Select) is select for column in value.find_all(exp.Column)):
            return False  # By which parts of it?
    if group.expressions or any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets")):
        return False
    if numbers:
        select.set("group", exp.Group(expressions=[exp.Literal.number(number) for number in numbers]))
    else:
        select.set("group", None)
    return True


LINES: tuple[tuple[str, str, Rule], ...] = (
    ("Star", "this except_ replace rename", _star),
    ("Column", "this table db catalog", _column),
)
"""See `planner.syntax.dialects.rules.RULES`."""
