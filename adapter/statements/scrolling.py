"""Whether a cursor that says nothing of SCROLL scrolls: whether PostgreSQL's plan of the query can run backwards.

Reads of one relation, sorted rows and UNION ALL of such can (ExecSupportsBackwardScan); joins, groups, windows, set
operations and rows of no relation cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.ir import nodes as n
from planner.ir.rewrite import column_ids, conjuncts, is_correlated, walk


def scrolls(rel: n.Rel, tables: Mapping[int, n.Rel] | None = None) -> bool:
    """Whether the rows of `rel` can be gone through backwards. `tables` are the common tables that stand for what they
    read, by their ids."""
    known = tables or {}
    match rel:
        case n.Scan() | n.SystemScan() | n.FunctionScan() | n.Sort():
            return True
        case n.Values():
            return len(rel.rows) > 1
        case n.CteScan():
            return rel.cte not in known or scrolls(known[rel.cte], known)
        case n.Project() | n.Limit():
            return scrolls(rel.input, known)
        case n.Filter():
            return scrolls(rel.input, known) and not any(map(_joins, conjuncts(rel.condition)))
        case n.SetOperation():
            return rel.op == "union" and rel.all and scrolls(rel.left, known) and scrolls(rel.right, known)
        case n.With():
            return scrolls(rel.body, {**known, **{table.id: table.rel for table in _inlined(rel)}})
        case _:
            return False


def _joins(condition: n.Scalar) -> bool:
    """Whether the condition makes a join of the query, or leaves nothing of it."""
    match condition:
        case n.Literal():
            return condition.value is not True
        case n.Exists():
            return is_correlated(condition.rel)
        case n.QuantifiedSubquery():
            of_rows = next(column_ids(condition.args), None) is not None
            return condition.quantifier == "any" and of_rows and not is_correlated(condition.rel)
        case _:
            return False


def _inlined(rel: n.With) -> Iterator[n.CommonTable]:
    """The common tables that are read once, or are said not to be kept."""
    reads = [node.cte for node in walk((rel.body, *(table.rel for table in rel.tables))) if isinstance(node, n.CteScan)]
    for table in rel.tables:
        once = table.materialized is None and reads.count(table.id) == 1
        if table.step is None and (once or table.materialized is False):
            yield table
