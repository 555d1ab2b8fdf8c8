"""Policies when what they name gets another name, or goes.

A policy's text is an expression over a row of its table, whose columns it calls by their names, in subqueries qualified
by the table's. What subqueries read is kept true as in views (`adapter.definitions.views`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from planner.definitions.deparse import expression_text
from planner.definitions.renaming import edited_query
from planner.definitions.row_expressions import has_subquery, policy_expression
from planner.queries.stored_expressions import parse_expression
from planner.resolution.statement import BindContext
from planner.syntax.libpg_query import pb
from planner.syntax.parse import split_and_parse, subtrees
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

    found = _edited(_reading(catalog, relation.oid), move)
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

    return _edited(_all(catalog), move)


def with_column_renamed(context: BindContext, relation: Relation, changed: Relation, old: str, new: str) -> Changed:
    """The policies that name the column `old` of `relation`, once it is `changed` and the column called `new`."""
    catalog = context.catalog
    schema = catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    names = [column.name for column in relation.live_columns()]

    def rename(reference: Any) -> None:
        if (reference.schemaname, reference.relname) == (schema.name, relation.name):
            if not reference.alias.aliasname:
                reference.alias.aliasname = reference.relname
            for name in names[len(reference.alias.colnames) :]:
                reference.alias.colnames.add().string.sval = name

    def printed(text: str) -> str:
        renamed = _renamed(text, relation, old, new)
        parsed, tree = parse_expression(renamed)
        if renamed == text or has_subquery(tree):
            return renamed
        return policy_expression(changed, parsed.expression(tree), context).text

    found = {before.oid: (before, after) for before, after in _edited(_reading(catalog, relation.oid), rename)}
    for policy in catalog.policies.of(relation.oid).policies:
        _, known = found.get(policy.oid, (policy, policy))
        found[policy.oid] = (policy, _with_texts(known, printed))
    return [(before, after) for before, after in found.values() if before != after]


def of_column(catalog: CatalogSnapshot, relation: Relation, attnum: int) -> list[Policy]:
    """The policies of `relation` that name its column."""
    return [policy for policy in catalog.policies.of(relation.oid).policies if attnum in policy.columns]


def _all(catalog: CatalogSnapshot) -> Iterator[Policy]:
    for table in catalog.policies.by_table.values():
        yield from table.policies


def _reading(catalog: CatalogSnapshot, oid: int) -> list[Policy]:
    """The policies with subqueries that read the relation."""
    return [policy for policy in _all(catalog) if oid in policy.depends_on or policy.relation == oid]


def _with_texts(policy: Policy, edit: Callable[[str], str]) -> Policy:
    texts = [None if text is None else edit(text) for text in (policy.using, policy.check)]
    return replace(policy, using=texts[0], check=texts[1])


def _edited(policies: Iterator[Policy] | list[Policy], edit: Callable[[Any], None]) -> Changed:
    """The policies of which `edit` changes a reference to a relation."""

    def edited(text: str) -> str:
        if "SELECT" not in text.upper():
            return text
        (parsed,) = split_and_parse(edited_query(f"SELECT 1 WHERE {text}", edit))
        return expression_text(parsed.tree.where_clause)

    found = [(policy, _with_texts(policy, edited)) for policy in policies]
    return [(old, new) for old, new in found if old != new]


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
