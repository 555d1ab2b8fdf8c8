"""Policies when what they name gets another name, or goes.

A policy's text is an expression over a row of its table, whose columns it calls by their names, in subqueries qualified
by the table's. What subqueries read is kept true as in views (`adapter.definitions.views`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from adapter.definitions.routines.bodies import Edit
from planner.definitions.columns.noted import Noted, condition_query
from planner.definitions.columns.renamed import rename_column
from planner.definitions.deparse import expression_text
from planner.definitions.renaming import each_reference
from planner.definitions.row_expressions import has_subquery, policy_expression
from planner.errors import SqlError
from planner.queries.stored_expressions import parse_expression
from planner.resolution.statement import BindContext
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Parsed, subtrees
from planner.types.type_scope import types_of
from storage.catalog.access import Policy
from storage.catalog.model import CatalogSnapshot, Relation, Schema

Changed = list[tuple[Policy, Policy]]
"""Policies before and after."""


def with_relation_moved(catalog: CatalogSnapshot, relation: Relation, changed: Relation) -> Changed:
    """The policies that name `relation`, once it has the name and schema of `changed`."""
    before, after = catalog.get(relation.schema), catalog.get(changed.schema)
    assert isinstance(before, Schema)
    assert isinstance(after, Schema)

    def move(reference: Any) -> None:
        if (reference.schemaname, reference.relname) == (before.name, relation.name):
            if not reference.alias.aliasname:
                reference.alias.aliasname = reference.relname
            reference.schemaname, reference.relname = after.name, changed.name

    found = _edited(catalog, _reading(catalog, relation.oid), lambda query: each_reference(query.tree, move))
    own = [(old, new) for old, new in found if old.relation == relation.oid]
    rest = [(old, new) for old, new in found if old.relation != relation.oid]
    known = {old.oid: new for old, new in own}
    rest += [
        (policy, _with_texts(known.get(policy.oid, policy), lambda text: _requalified(text, relation, changed)))
        for policy in catalog.policies.of(relation.oid).policies
    ]
    return [(old, new) for old, new in rest if old != new]


def with_schema_renamed(catalog: CatalogSnapshot, schema: Schema, name: str) -> Changed:
    """The policies that name a relation of `schema`, once that is called `name`."""

    def move(reference: Any) -> None:
        if reference.schemaname == schema.name:
            reference.schemaname = name

    return _edited(catalog, _all(catalog), lambda query: each_reference(query.tree, move))


def with_column_renamed(context: BindContext, relation: Relation, changed: Relation, old: str, new: str) -> Changed:
    """The policies that name the column `old` of `relation`, once it is `changed` and the column called `new`."""
    catalog = context.catalog

    def renamed(policy: Policy, text: str) -> str:
        parsed, tree = parse_expression(text)
        if has_subquery(tree):
            return _edited_text(catalog, policy, text, lambda query: rename_column(query, context, relation, old, new))
        if policy.relation != relation.oid or (named := _renamed(text, relation, old, new)) == text:
            return text
        parsed, tree = parse_expression(named)
        return policy_expression(changed, parsed.expression(tree), context).text

    found = [(policy, _with_texts(policy, partial(renamed, policy))) for policy in _reading(catalog, relation.oid)]
    return [(before, after) for before, after in found if before != after]


def with_queries_edited(context: BindContext, relation: Relation, edit: Edit) -> Changed:
    """The policies whose subqueries read `relation`, or that are its own, and that `edit` alters."""
    return _edited(context.catalog, _reading(context.catalog, relation.oid), lambda query: edit(query, context))


def naming_column(before: BindContext, after: BindContext, relation: Relation, attnum: int) -> list[Policy]:
    """The policies that name the column of `relation`, which is gone in `after`."""
    found = []
    for policy in _reading(before.catalog, relation.oid):
        own = policy.relation == relation.oid and attnum in policy.columns
        now = after.catalog.get(policy.oid)
        assert isinstance(now, Policy)
        if own or (_binds(before, policy) and not _binds(after, now)):
            found.append(policy)
    return found


def _all(catalog: CatalogSnapshot) -> Iterator[Policy]:
    for table in catalog.policies.by_table.values():
        yield from table.policies


def _reading(catalog: CatalogSnapshot, oid: int) -> list[Policy]:
    """The policies with subqueries that read the relation."""
    return [policy for policy in _all(catalog) if oid in policy.depends_on or policy.relation == oid]


def _with_texts(policy: Policy, edit: Callable[[str], str]) -> Policy:
    texts = [None if text is None else edit(text) for text in (policy.using, policy.check)]
    return replace(policy, using=texts[0], check=texts[1])


def _edited(
    catalog: CatalogSnapshot, policies: Iterator[Policy] | list[Policy], edit: Callable[[Parsed], None]
) -> Changed:
    """The policies that are others with the queries of their conditions, if they have subqueries, passed through
    `edit`."""

    def edited(policy: Policy, text: str) -> str:
        if "SELECT" not in text.upper():
            return text
        return _edited_text(catalog, policy, text, edit)

    found = [(policy, _with_texts(policy, partial(edited, policy))) for policy in policies]
    return [(old, new) for old, new in found if old != new]


def _edited_text(catalog: CatalogSnapshot, policy: Policy, text: str, edit: Callable[[Parsed], None]) -> str:
    query = condition_query(catalog, policy.relation, text)
    edit(query)
    return expression_text(query.tree.where_clause)


def _binds(context: BindContext, policy: Policy) -> bool:
    """Whether the subqueries in its conditions mean something in `context`."""
    texts = [text for text in (policy.using, policy.check) if text is not None and "SELECT" in text.upper()]
    try:
        with types_of(context.catalog, context.search_path):
            for text in texts:
                Noted(condition_query(context.catalog, policy.relation, text), context)
    except SqlError:
        return False
    return True


def _renamed(text: str, relation: Relation, old: str, new: str) -> str:
    """`text` where the column `old` of the policy's own table is called `new`."""

    def rename(parts: Any) -> bool:
        own = len(parts) == 1 or (len(parts) == 2 and parts[0].string.sval == relation.name)
        if not own or not parts[len(parts) - 1].HasField("string") or parts[len(parts) - 1].string.sval != old:
            return False
        parts[len(parts) - 1].string.sval = new
        return True

    return _with_columns(text, relation.name, rename)


def _requalified(text: str, relation: Relation, changed: Relation) -> str:
    """`text` where the policy's own table has the name that `changed` has."""

    def rename(parts: Any) -> bool:
        if len(parts) != 2 or parts[0].string.sval != relation.name:
            return False
        parts[0].string.sval = changed.name
        return True

    return _with_columns(text, relation.name, rename)


def _with_columns(text: str, table: str, rename: Callable[[Any], bool]) -> str:
    """`text` with `rename` done to the names of columns, but for those inside queries that read something called
    `table`, where it does not mean the policy's."""
    _, parsed = parse_expression(text)
    node = pb.Node()
    node.CopyFrom(parsed)
    changed = [rename(reference.fields) for reference in _columns(node, table)]
    return expression_text(node) if any(changed) else text


def _columns(tree: Any, table: str) -> Iterator[Any]:
    """The references to columns below `tree`, without those inside queries that read something called `table`."""
    if tree.DESCRIPTOR.name == "ColumnRef":
        yield tree
    elif tree.DESCRIPTOR.name != "SelectStmt" or not _offers(tree, table):
        for descriptor, value in tree.ListFields():
            if descriptor.message_type is not None:
                for item in value if descriptor.is_repeated else (value,):
                    yield from _columns(item, table)


def _offers(select: Any, name: str) -> bool:
    """Whether FROM has something called `name`."""
    return any(
        tree.DESCRIPTOR.name == "RangeVar" and (tree.alias.aliasname or tree.relname) == name
        for item in select.from_clause
        for tree in subtrees(item)
    )
