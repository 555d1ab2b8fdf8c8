"""Rules of what a statement leaves to be found out: stars with EXCEPT, EXCLUDE, REPLACE or RENAME behind them, GROUP
BY ALL, semi-joins USING columns, and the stars of MERGE.

See `planner.syntax.dialects.rules` for what a rule is.
"""

from __future__ import annotations

from typing import Any

from planner.syntax.dialects.names import CALLED_ALIKE
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


_JOINED_FIRST = frozenset({"spark", "databricks"})
"""Where the columns that USING names are the first of a star."""

_MERGED = frozenset({"spark", "databricks"})


def semi_joins_on(select: Any, dialect: str, exp: Any) -> bool:
    """Makes SEMI and ANTI JOIN ... USING, of a SELECT that has not been converted yet, such with ON. Whether it
    could."""
    left = select.args["from_"].this.alias_or_name if select.args.get("from_") else ""
    for join in select.args.get("joins") or ():
        if join.args.get("kind") not in ("SEMI", "ANTI"):
            left = ""  # Which of both has the column?
        elif join.args.get("using"):
            right, names = join.this.alias_or_name, [each.name for each in join.args["using"]]
            if not left or not right or dialect not in (*_JOINED_FIRST, "duckdb"):
                return False
            pairs = [exp.EQ(this=exp.column(name, left), expression=exp.column(name, right)) for name in names]
            join.set("using", None)
            join.set("on", exp.and_(*pairs))
            if dialect in _JOINED_FIRST and any(isinstance(each, exp.Star) for each in select.expressions):
                if any(isinstance(each, exp.Star) and each.args.get("except_") for each in select.expressions):
                    return False
                select.set(
                    "expressions", [new for each in select.expressions for new in _joined_first(each, names, exp)]
                )
    return True


def _joined_first(item: Any, names: list[str], exp: Any) -> list[Any]:
    if not isinstance(item, exp.Star):
        return [item]
    return [*(exp.column(name) for name in names), exp.Star(except_=[exp.to_identifier(name) for name in names])]


def merge_star(when: Any, dialect: str, exp: Any) -> bool:
    """Makes UPDATE SET * and INSERT * of a MERGE, which has not been converted yet, what
    `planner.queries.changes.merge` reads as the columns of both tables that are called alike. Whether it could."""
    then = when.args["then"]
    columns = then.args.get("expressions") if isinstance(then, exp.Update) else [then.this]
    if not columns or not isinstance(columns[0], exp.Star):
        return True
    if dialect not in _MERGED or any(columns[0].args.values()):
        return False
    written = "UPDATE SET {} = DEFAULT" if isinstance(then, exp.Update) else "INSERT ({}) VALUES (DEFAULT)"
    when.set("then", exp.Var(this=written.format(f'"{CALLED_ALIKE}"')))
    return True


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
