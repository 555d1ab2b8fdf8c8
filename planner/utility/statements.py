"""From parse trees to utility statements: the entry for all of them.

The other modules of the folder each make the statements about one thing; their `BUILDERS` name the kinds of parse tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.errors import FeatureNotSupported
from planner.statements import records as st
from planner.syntax.names import statement_title
from planner.syntax.parse import Parsed, Tree
from planner.utility import (
    administration,
    alterations,
    copying,
    execution,
    foreign,
    objects,
    queries,
    routines,
    sequences,
    settings,
    tables,
    transactions,
    types,
)

_BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    **transactions.BUILDERS,
    **settings.BUILDERS,
    **copying.BUILDERS,
    **execution.BUILDERS,
    **administration.BUILDERS,
    **tables.BUILDERS,
    **queries.BUILDERS,
    **sequences.BUILDERS,
    **objects.BUILDERS,
    **alterations.BUILDERS,
    **types.BUILDERS,
    **routines.BUILDERS,
    **foreign.BUILDERS,
}
"""By kind of parse tree: what makes its statement."""


def utility_statement(parsed: Parsed) -> st.UtilityStatement:
    """The utility statement that `parsed` is. Raises 0A000 for those that do not exist here."""
    build = _BUILDERS.get(parsed.kind)
    if build is None:
        raise FeatureNotSupported(f"{statement_title(parsed)} is not supported")
    return build(parsed, parsed.tree)
