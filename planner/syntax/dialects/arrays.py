"""Rules of arrays and of rows that belong to others: subscripts, UNNEST, LATERAL VIEW, APPLY, and texts that are split.

See `planner.syntax.dialects.rules` for what a rule is.
"""

from __future__ import annotations

import re
from typing import Any

from planner.syntax.dialects.rules import SPARK, Rule, literal, text, whole

_FROM_ZERO = SPARK | {"bigquery"}
"""Where subscripts are counted from zero, and sqlglot leaves them as they are written."""

_PLAIN_SEPARATOR = re.compile(r"[\w ,;:/=#@&%!~<>\-]+")
"""What means itself as a regular expression, too."""

POSITIONS = "tidegate.with_positions"
"""A call of POSEXPLODE until LATERAL VIEW takes it; a function that there is not."""


_ERROR_OUTSIDE = frozenset({"spark", "databricks", "trino", "bigquery"})
"""Where a subscript of no element is an error; that of a function which says that it is not is `safe`."""


def _subscript(node: Any, dialect: str) -> Any:
    """An element. sqlglot has counted the constants of all dialects from zero, but for those of a named count."""
    if len(node.expressions) != 1 or literal(node.this) is not None:
        return None
    index, counted = node.expressions[0], node.args.get("offset")
    of, safe = text(node.this), bool(node.args.get("safe"))
    strict = dialect in _ERROR_OUTSIDE and not safe
    back = whole(index.this) if type(index).__name__ == "Neg" else None
    if back:  # From the end, where the dialect counts so.
        back -= dialect == "duckdb"  # Which sqlglot has counted from zero, too.
        if dialect != "duckdb" and (counted is None or dialect not in ("spark", "databricks", "trino")):
            return None
        size = f"cardinality({of})"
        place = f"{size} + 1 - {back}"
        return f"({of})[{_checked(place, of) if strict else place}]"
    place_written = whole(index)
    if place_written is not None:
        if place_written < int(counted or 0):
            return None  # Zero, which is an error.
        number = str(place_written + 1 - int(counted or 0))
        return f"({of})[{_checked(number, of) if strict else number}]"
    if literal(index) is not None or dialect not in _FROM_ZERO or (counted is not None and dialect != "bigquery"):
        return None  # A key of a map; or a place that may be counted from the end.
    number = f"({text(index)})::int + {1 - int(counted or 0)}"
    return f"({of})[{_checked(number, of) if strict else number}]"


def _checked(place: str, of: str) -> str:
    return f"tidegate.array_place({place}, cardinality({of}))"


def _unnested(node: Any, dialect: str) -> Any:
    """UNNEST in FROM."""
    alias, offset = node.args.get("alias"), node.args.get("offset")
    call = f"unnest({', '.join(map(text, node.expressions))})"
    table = "" if alias is None or alias.this is None else text(alias.this)
    columns = [] if alias is None else [text(column) for column in alias.columns]
    if dialect == "bigquery":
        if len(node.expressions) != 1 or len(columns) > 1:
            return None
        name = columns[0] if columns else '"_element"'
        if not offset:
            return f"{call} AS {name}({name})"
        place = text(offset) if hasattr(offset, "sql") else '"offset"'
        return f"LATERAL (SELECT e AS {name}, o - 1 AS {place} FROM {call} WITH ORDINALITY AS _u(e, o)) AS {name}"
    if dialect not in ("trino", "duckdb"):
        return None
    if offset:
        columns = [*columns, text(offset)] if hasattr(offset, "sql") else []
        if not table or len(columns) != len(node.expressions) + 1:
            return None
        call += " WITH ORDINALITY"
    if table and not columns:
        columns = ["unnest"] if dialect == "duckdb" and len(node.expressions) == 1 else []
    named = f" AS {table}" + (f"({', '.join(columns)})" if columns else "") if table else ""
    return call + named


def _exploded(node: Any, dialect: str) -> Any:
    return f"{POSITIONS}({text(node.this)})" if dialect in SPARK else None


def _lateral(node: Any, dialect: str) -> Any:
    """LATERAL VIEW of the Spark family, and T-SQL's CROSS APPLY and OUTER APPLY."""
    alias, call, applied = node.args.get("alias"), node.this, node.args.get("cross_apply")
    if alias is None or alias.this is None:
        return None
    table, columns = text(alias.this), [text(column) for column in alias.columns]
    if applied is not None:
        join = node.parent
        if type(call).__name__ != "Subquery" or type(join).__name__ != "Join":
            return None
        join.set("kind" if applied else "side", "CROSS" if applied else "LEFT")
        return f"LATERAL {text(call)} AS {table}" + (f"({', '.join(columns)})" if columns else "")
    if not node.args.get("view") or type(call).__name__ != "Var":
        return None
    written, outer = str(call.this), bool(node.args.get("outer"))
    if written.startswith("unnest(") and len(columns) == 1:
        rows = f"{written} AS {table}({columns[0]})"
    elif written.startswith(f"{POSITIONS}(") and len(columns) == 2:
        place, element = columns
        made = "unnest" + written.removeprefix(POSITIONS)
        rows = f"(SELECT o - 1 AS {place}, e AS {element} FROM {made} WITH ORDINALITY AS _u(e, o)) AS {table}"
    else:
        return None
    return f"LEFT JOIN LATERAL {rows} ON true" if outer else f"CROSS JOIN LATERAL {rows}"


def _split(node: Any, dialect: str) -> Any:
    """SPLIT by a constant, which gives one element for the empty text."""
    separator = literal(node.expression)
    if not separator or dialect not in SPARK | {"trino", "bigquery", "duckdb"}:
        return None
    if type(node).__name__ == "RegexpSplit" and not _PLAIN_SEPARATOR.fullmatch(separator):
        return None
    value = text(node.this)
    return f"(case when {value} = '' then array[''] else string_to_array({value}, {text(node.expression)}) end)"


def _series(node: Any, dialect: str) -> Any:
    """GENERATE_ARRAY and SEQUENCE of whole numbers, of which the second counts down where it has to."""
    start, end, step = text(node.args["start"]), text(node.args["end"]), node.args.get("step")
    if dialect not in ("spark", "databricks", "trino", "bigquery"):
        return None
    by = text(step) if step is not None else "1"
    if step is None and dialect != "bigquery":
        by = f"case when {start} <= {end} then 1 else -1 end"
    return f"array(select generate_series({start}, {end}, {by}))"


LINES: tuple[tuple[str, str, Rule], ...] = (
    ("Bracket", "this expressions offset safe", _subscript),
    ("Unnest", "expressions alias offset", _unnested),
    ("Posexplode", "this", _exploded),
    ("Lateral", "this view outer alias cross_apply", _lateral),
    ("Split RegexpSplit", "this expression", _split),
    ("GenerateSeries", "start end step", _series),
)
"""See `planner.syntax.dialects.rules.RULES`."""
