"""What of a statement means the same in every dialect: the nodes of sqlglot's trees that are handed on as they are,
each with the arguments that have been vouched for. A node or an argument that is not here, nor in `rules` or
`functions`, is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.syntax.dialects.names import words

OPERATORS = words(
    "And Or Not EQ NEQ GT GTE LT LTE Is Add Sub Mul Neg Mod Div IntDiv BitwiseAnd BitwiseOr BitwiseXor BitwiseNot"
    " BitwiseLeftShift BitwiseRightShift NullSafeEQ NullSafeNEQ Like ILike Between In DPipe"
)
"""Nodes whose operands get parentheses when they are one of these, too: no two dialects agree on all precedences."""

_BINARY = "this expression"

VOUCHED: Mapping[str, frozenset[str]] = {
    name: words(args)
    for names, args in (
        ("EQ NEQ GT GTE LT LTE Is Add Sub Mul NullSafeEQ NullSafeNEQ", _BINARY),
        ("Not Neg Paren Where Having From", "this"),
        ("Between", "this low high"),
        ("In", "this expressions query"),
        ("Exists", "this"),
        ("Any All", "this"),
        ("Boolean Null Star DataTypeParam", "this"),
        ("Column", "this table db catalog"),
        ("Table", "this db catalog alias joins"),
        ("TableAlias", "this columns"),
        ("Alias", "this alias"),
        ("Subquery", "this alias with_ order limit offset joins"),
        (
            "Select",
            "expressions from_ joins where group having order limit offset distinct with_ qualify windows locks",
        ),
        ("Lock", "update"),
        ("Distinct", "expressions"),
        ("Join", "this on using side kind method"),
        ("Group", "expressions rollup cube grouping_sets"),
        ("Rollup Cube GroupingSets Tuple", "expressions"),
        ("Order", "this expressions"),
        ("Ordered", "this desc nulls_first"),
        ("Limit Offset", "expression"),
        ("Fetch", "direction count limit_options"),
        ("LimitOptions", "rows"),
        ("Union Intersect Except", "this expression distinct with_ order limit offset"),
        ("With", "expressions recursive"),
        ("CTE", "this alias"),
        ("Values", "expressions alias"),
        ("Window", "this partition_by order spec over alias"),
        ("WindowSpec", "kind start start_side end end_side"),
        ("Filter", _BINARY),
        ("Case", "this ifs default"),
        ("Qualify", "this"),
        # Changes and definitions.
        ("Insert", "this expression with_ conflict"),
        ("Update", "this expressions where with_ from_"),
        ("Delete", "this where with_"),
        ("Merge", "this using on whens with_"),
        ("Whens", "expressions"),
        ("When", "matched condition then"),
        ("Schema", "this expressions"),
        ("Drop", "this tables kind exists cascade"),
        ("TruncateTable", "expressions"),
        ("Create", "this kind expression exists replace properties"),
        ("OnConflict", "action"),
        ("ColumnDef", "this kind constraints"),
        ("ColumnConstraint", "kind"),
        ("NotNullColumnConstraint", "allow_null"),
        ("PrimaryKeyColumnConstraint UniqueColumnConstraint", ""),
        ("DefaultColumnConstraint", "this"),
        ("CheckColumnConstraint", "this"),
        ("PrimaryKey", "expressions"),
        ("Constraint", "this expressions"),
    )
    for name in names.split()
}

UNIMPORTANT = words(
    "big_int casts_non_integer_decimals date_part_boundary clamp_position struct_name_inheritance zero_on_all_null "
    "negative_length_returns_empty"
)
"""Arguments that say how sqlglot writes a node for some other dialect."""

KINDS = frozenset({"TABLE", "VIEW", "SCHEMA"})
"""What CREATE and DROP may be about."""

COMMANDS = words(
    "set reset show begin start commit end rollback abort savepoint release discard deallocate close fetch move listen "
    "unlisten notify call copy vacuum analyze grant revoke lock checkpoint reindex comment reassign execute refresh"
)
"""Statements about the session and the server, by their first words: they are PostgreSQL's in every dialect."""
